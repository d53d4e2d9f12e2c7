//! Paged key/value cache of one rank: the only state between forward passes, and what prefill hands to decode.
//!
//! A page holds `page_size` positions of all layers in one piece, so that moving a page is one copy. Which page holds
//! which positions is the caller's page list: position `p` of a row lives in `pages[p / page_size]` at
//! `p % page_size`. Everything starts as NaN, so a read of a position never written makes the forward pass fail.

/// Keys and values of this rank's heads, in pages.
#[derive(Debug)]
pub struct KvCache {
    layers: usize,
    kv_heads: usize,
    head_dim: usize,
    page_size: usize,
    pages: usize,
    /// `[pages, layers, 2 (keys, values), page_size, kv_heads, head_dim]`.
    data: Vec<f32>,
}

impl KvCache {
    /// A cache of `pages` pages of `page_size` positions for `kv_heads` heads (this rank's), all unwritten.
    ///
    /// # Errors
    /// [`CacheError::Size`] when a number is 0 or there is not enough memory.
    pub fn new(
        layers: usize,
        kv_heads: usize,
        head_dim: usize,
        page_size: usize,
        pages: usize,
    ) -> Result<Self, CacheError> {
        let shape = [pages, layers, 2, page_size, kv_heads, head_dim];
        let length = shape
            .iter()
            .try_fold(1usize, |product, &size| product.checked_mul(size))
            .filter(|&length| length > 0)
            .ok_or(CacheError::Size { shape })?;
        let mut data = Vec::new();
        data.try_reserve_exact(length).map_err(|_| CacheError::Size { shape })?;
        data.resize(length, f32::NAN);
        Ok(Self { layers, kv_heads, head_dim, page_size, pages, data })
    }

    /// Positions a page holds.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// Number of pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Bytes of one page as [`read_page`](Self::read_page) gives it.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.page_elements() * size_of::<f32>()
    }

    /// Replaces `bytes` by the content of `page`, little-endian `f32`, unwritten positions as NaN.
    ///
    /// # Errors
    /// [`CacheError::Page`] when there is no such page.
    pub fn read_page(&self, page: u32, bytes: &mut Vec<u8>) -> Result<(), CacheError> {
        let start = self.page_start(page)?;
        bytes.clear();
        bytes.reserve_exact(self.page_bytes());
        let elements = &self.data[start..][..self.page_elements()];
        bytes.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
        Ok(())
    }

    /// Replaces the content of `page` by `bytes`, as read from a cache of the same shape.
    ///
    /// # Errors
    /// [`CacheError::Page`] when there is no such page, [`CacheError::PageBytes`] when `bytes` has another length; the
    /// page is then as it was.
    pub fn write_page(&mut self, page: u32, bytes: &[u8]) -> Result<(), CacheError> {
        let start = self.page_start(page)?;
        if bytes.len() != self.page_bytes() {
            return Err(CacheError::PageBytes { expected: self.page_bytes(), found: bytes.len() });
        }
        let length = self.page_elements();
        let (elements, _) = bytes.as_chunks();
        for (target, element) in self.data[start..][..length].iter_mut().zip(elements) {
            *target = f32::from_le_bytes(*element);
        }
        Ok(())
    }

    /// Layer, heads and elements a head, for messages.
    pub(super) fn shape(&self) -> [usize; 3] {
        [self.layers, self.kv_heads, self.head_dim]
    }

    /// Keys of one layer in a page, `[page_size, kv_heads * head_dim]`. The page exists.
    pub(super) fn keys(&self, layer: usize, page: usize) -> &[f32] {
        &self.data[self.block_start(layer, page)..][..self.block_elements()]
    }

    /// Values of one layer in a page, `[page_size, kv_heads * head_dim]`. The page exists.
    pub(super) fn values(&self, layer: usize, page: usize) -> &[f32] {
        &self.data[self.block_start(layer, page) + self.block_elements()..][..self.block_elements()]
    }

    /// Writes one position of one layer. The slot exists; keys and values are `[kv_heads * head_dim]`.
    pub(super) fn write(&mut self, layer: usize, slot: Slot, keys: &[f32], values: &[f32]) {
        let width = self.width();
        let key_start = self.block_start(layer, slot.page) + slot.offset * width;
        let value_start = key_start + self.block_elements();
        self.data[key_start..][..width].copy_from_slice(keys);
        self.data[value_start..][..width].copy_from_slice(values);
    }

    fn width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    fn block_elements(&self) -> usize {
        self.page_size * self.width()
    }

    fn page_elements(&self) -> usize {
        self.layers * 2 * self.block_elements()
    }

    fn block_start(&self, layer: usize, page: usize) -> usize {
        page * self.page_elements() + layer * 2 * self.block_elements()
    }

    fn page_start(&self, page: u32) -> Result<usize, CacheError> {
        usize::try_from(page)
            .ok()
            .filter(|&index| index < self.pages)
            .map(|index| index * self.page_elements())
            .ok_or(CacheError::Page { page, pages: self.pages })
    }
}

/// Where one position of a row lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Page of the cache.
    pub(super) page: usize,
    /// Position within the page.
    pub(super) offset: usize,
}

/// Why a cache operation was refused.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The page does not exist.
    #[error("page {page} does not exist; the cache has pages 0..{pages}")]
    Page {
        /// The page asked for.
        page: u32,
        /// Pages of the cache.
        pages: usize,
    },
    /// The content is not one page of this cache.
    #[error(
        "a page of this cache is {expected} bytes, not {found}; both sides need the same model, group size and page size"
    )]
    PageBytes {
        /// Bytes of a page.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The cache cannot exist.
    #[error(
        "no cache of shape {shape:?} (pages, layers, 2, page size, kv heads, head dim): every number must be at least 1 and the whole must fit into memory"
    )]
    Size {
        /// The shape asked for.
        shape: [usize; 6],
    },
}
