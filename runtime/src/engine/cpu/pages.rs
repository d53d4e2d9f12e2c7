//! The cache in the CPU's memory, `f32`.

use crate::engine::cache::{CacheError, CacheShape, KvCache, Slot};

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
        Self::of_shape(CacheShape { pages, layers, page_size, kv_heads, head_dim })
    }

    /// Likewise, by its shape.
    pub(super) fn of_shape(shape: CacheShape) -> Result<Self, CacheError> {
        let length = shape.elements()?;
        let mut data = Vec::new();
        data.try_reserve_exact(length).map_err(|_| CacheError::Size { shape: shape.dimensions() })?;
        data.resize(length, f32::NAN);
        Ok(Self::over(shape, size_of::<f32>(), data))
    }

    /// Replaces `bytes` by the content of `page`, little-endian `f32`, unwritten positions as NaN.
    ///
    /// # Errors
    /// [`CacheError::Page`] when there is no such page.
    pub fn read_page(&self, page: u32, bytes: &mut Vec<u8>) -> Result<(), CacheError> {
        let length = self.shape().page_elements();
        let start = self.page(page)? * length;
        bytes.clear();
        bytes.reserve_exact(self.page_bytes());
        bytes.extend(self.data[start..][..length].iter().flat_map(|element| element.to_le_bytes()));
        Ok(())
    }

    /// Replaces the content of `page` by `bytes`, as read from a cache of the same shape.
    ///
    /// # Errors
    /// [`CacheError::Page`] when there is no such page, [`CacheError::PageBytes`] when `bytes` has another length; the
    /// page is then as it was.
    pub fn write_page(&mut self, page: u32, bytes: &[u8]) -> Result<(), CacheError> {
        let length = self.shape().page_elements();
        let start = self.page(page)? * length;
        self.check_content(bytes)?;
        let (elements, _) = bytes.as_chunks();
        for (target, element) in self.data[start..][..length].iter_mut().zip(elements) {
            *target = f32::from_le_bytes(*element);
        }
        Ok(())
    }

    /// Keys of one layer in a page, `[page_size, kv_heads * head_dim]`. The page exists.
    pub(super) fn keys(&self, layer: usize, page: usize) -> &[f32] {
        &self.data[self.block_start(layer, page)..][..self.shape().block_elements()]
    }

    /// Values of one layer in a page, `[page_size, kv_heads * head_dim]`. The page exists.
    pub(super) fn values(&self, layer: usize, page: usize) -> &[f32] {
        let length = self.shape().block_elements();
        &self.data[self.block_start(layer, page) + length..][..length]
    }

    /// Writes one position of one layer. The slot exists; keys and values are `[kv_heads * head_dim]`.
    pub(super) fn write(&mut self, layer: usize, slot: Slot, keys: &[f32], values: &[f32]) {
        let width = self.shape().width();
        let key_start = self.block_start(layer, slot.page) + slot.offset * width;
        let value_start = key_start + self.shape().block_elements();
        self.data[key_start..][..width].copy_from_slice(keys);
        self.data[value_start..][..width].copy_from_slice(values);
    }

    fn block_start(&self, layer: usize, page: usize) -> usize {
        page * self.shape().page_elements() + layer * 2 * self.shape().block_elements()
    }
}
