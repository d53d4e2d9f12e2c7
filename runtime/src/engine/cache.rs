//! Paged key/value cache of one rank: the only state between forward passes, and what prefill hands to decode.
//!
//! A page holds `page_size` positions of all layers in one piece, so that moving a page is one copy. Which page holds
//! which positions is the caller's page list: position `p` of a row lives in `pages[p / page_size]` at
//! `p % page_size`. Everything starts as NaN, so a read of a position never written makes the forward pass fail.
//!
//! The memory is the backend's; what concerns shape and page numbers is the same for all and lives here.

use std::sync::atomic::{AtomicU64, Ordering};

use super::backend::BackendError;

/// Shape of a rank's cache; every number is at least 1, and its bytes fit a `usize`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CacheShape {
    /// Number of pages.
    pub pages: usize,
    /// Layers of the model.
    pub layers: usize,
    /// Positions of a page.
    pub page_size: usize,
    /// This rank's key and value heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

impl CacheShape {
    /// The number of elements, `[pages, layers, 2 (keys, values), page_size, kv_heads, head_dim]`.
    ///
    /// # Errors
    /// [`CacheError::Size`] when a number is 0, or `f32` elements would not fit any memory.
    pub fn elements(&self) -> Result<usize, CacheError> {
        let shape = self.dimensions();
        let fits = |&elements: &usize| elements > 0 && elements.checked_mul(size_of::<f32>()).is_some();
        let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        elements.filter(fits).ok_or(CacheError::Size { shape })
    }

    /// Elements of a page. The cache exists.
    #[must_use]
    pub fn page_elements(&self) -> usize {
        self.layers * 2 * self.block_elements()
    }

    /// Elements of a position, in keys as in values.
    pub(super) fn width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Elements of one layer's keys in a page, and of its values.
    pub(super) fn block_elements(&self) -> usize {
        self.page_size * self.width()
    }

    pub(super) fn dimensions(&self) -> [usize; 6] {
        [self.pages, self.layers, 2, self.page_size, self.kv_heads, self.head_dim]
    }
}

/// Keys and values of this rank's heads, in pages.
#[derive(Debug)]
pub struct KvCache<T = Vec<f32>> {
    shape: CacheShape,
    element_bytes: usize,
    /// No other cache of this process has it.
    number: u64,
    pub(super) data: T,
}

impl<T> KvCache<T> {
    /// A cache in `data`, which has the shape's elements, of `element_bytes` each.
    pub(super) fn over(shape: CacheShape, element_bytes: usize, data: T) -> Self {
        static CACHES: AtomicU64 = AtomicU64::new(0);
        Self { shape, element_bytes, number: CACHES.fetch_add(1, Ordering::Relaxed), data }
    }

    /// What tells it from other caches: a captured forward is of one.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> &CacheShape {
        &self.shape
    }

    /// Positions a page holds.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.shape.page_size
    }

    /// Number of pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.shape.pages
    }

    /// Bytes of one page's content.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.shape.page_elements() * self.element_bytes
    }

    /// The page as an index, if there is such a page.
    pub(super) fn page(&self, page: u32) -> Result<usize, CacheError> {
        let pages = self.pages();
        let index = usize::try_from(page).ok().filter(|&index| index < pages);
        index.ok_or(CacheError::Page { page, pages })
    }

    /// Refuses bytes that are not one page.
    pub(super) fn check_content(&self, bytes: &[u8]) -> Result<(), CacheError> {
        let (expected, found) = (self.page_bytes(), bytes.len());
        if expected == found { Ok(()) } else { Err(CacheError::PageBytes { expected, found }) }
    }
}

/// Where one position of a row lives.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Page of the cache.
    pub page: usize,
    /// Position within the page.
    pub offset: usize,
}

/// Why a cache operation was refused.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
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
