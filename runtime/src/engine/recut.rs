//! Heads of a page that another rank's page has as well: where groups differ in size, a rank's page is put together from several
//! ranks' and taken apart for several.

use std::ops::Range;

use super::cache::CacheShape;

/// The bytes of some heads in a rank's pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recut {
    /// Bytes of one position of one layer's keys or values in the rank's page.
    stride: usize,
    /// Which of them belong to the heads.
    bytes: Range<usize>,
}

impl Recut {
    /// Those of `heads`, counted over the whole model, in pages whose heads begin with `first`; of `element_bytes` each.
    #[must_use]
    pub fn new(shape: &CacheShape, first: usize, heads: &Range<usize>, element_bytes: usize) -> Self {
        let head = shape.head_dim * element_bytes;
        let bytes = (heads.start - first) * head..(heads.end - first) * head;
        Self { stride: shape.kv_heads * head, bytes }
    }

    /// Whether it is all of a page.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.bytes == (0..self.stride)
    }

    /// The heads' bytes of a page, one position after the other.
    #[must_use]
    pub fn taken(&self, page: &[u8]) -> Vec<u8> {
        page.chunks_exact(self.stride).flat_map(|row| &row[self.bytes.clone()]).copied().collect()
    }

    /// Writes what [`taken`](Self::taken) gave into another page. Says whether it is as long as the page's part.
    #[must_use]
    pub fn put(&self, part: &[u8], page: &mut [u8]) -> bool {
        let rows = page.chunks_exact_mut(self.stride).map(|row| &mut row[self.bytes.clone()]);
        let parts = part.chunks_exact(self.bytes.len());
        if rows.len() != parts.len() || !parts.remainder().is_empty() {
            return false;
        }
        rows.zip(parts).for_each(|(row, part)| row.copy_from_slice(part));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(kv_heads: usize) -> CacheShape {
        CacheShape { pages: 1, layers: 2, page_size: 3, kv_heads, head_dim: 2 }
    }

    /// A page of heads `heads`: each byte names its head, position and place.
    fn page(heads: Range<usize>) -> Vec<u8> {
        let byte = |row: usize, head: usize, place: usize| u8::try_from(row * 16 + head * 4 + place).unwrap();
        let head = |row, head| (0..4).map(move |place| byte(row, head, place));
        (0..12).flat_map(|row| heads.clone().flat_map(move |of| head(row, of))).collect()
    }

    #[test]
    fn recut_pages_are_those_of_the_other_sharing() {
        let (all, left, right) = (page(0..4), page(0..1), page(1..4));
        let cut = |first, kv_heads, heads: Range<usize>| Recut::new(&shape(kv_heads), first, &heads, 2);
        assert_eq!(cut(0, 4, 0..1).taken(&all), left);
        assert_eq!(cut(0, 4, 1..4).taken(&all), right);
        let mut whole = vec![0xff; all.len()];
        assert!(cut(0, 4, 1..4).put(&right, &mut whole) && whole != all);
        assert!(cut(0, 4, 0..1).put(&left, &mut whole));
        assert_eq!(whole, all);
        assert_eq!(cut(1, 3, 2..4).taken(&right), cut(0, 4, 2..4).taken(&all));
    }

    #[test]
    fn recut_of_all_heads_is_the_page() {
        let cut = Recut::new(&shape(3), 1, &(1..4), 2);
        assert!(cut.is_whole() && !Recut::new(&shape(3), 1, &(1..3), 2).is_whole());
        assert_eq!(cut.taken(&page(1..4)), page(1..4));
    }

    #[test]
    fn recut_refuses_parts_of_another_length() {
        let cut = Recut::new(&shape(3), 1, &(1..3), 2);
        let mut whole = page(1..4);
        for length in [0, 1, whole.len() - 1, whole.len()] {
            assert!(!cut.put(&vec![0; length], &mut whole));
        }
        assert_eq!(whole, page(1..4));
    }
}
