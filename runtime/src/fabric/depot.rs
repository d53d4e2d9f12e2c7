//! Pages in memory that both ends of a connection have mapped. The stream carries their heads, and with them order, ends and deadlines; a
//! page lies in a cell of that memory until the reader has taken it. Where no cell is free a page travels in its frame, as it does where
//! there is no such memory, so nobody waits for a cell.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::FabricError;
use super::frame::{Held, Sizes};
use crate::group::Mapping;

/// Most cells of a connection, and the most bytes that they take together, unless a page alone takes more.
const MOST_CELLS: usize = 64;
const MOST_BYTES: usize = 64 << 20;

/// The memory, as either end has mapped it. All access is atomic: a writer that does not wait for a cell yields a page with a wrong checksum.
#[derive(Debug)]
pub(super) struct Cells {
    map: Mapping,
    sizes: Sizes,
}

impl Cells {
    /// Maps memory of these sizes; `InvalidData` if it has others.
    pub(super) fn open(file: OwnedFd, sizes: Sizes) -> io::Result<Self> {
        let map = Mapping::open(file)?;
        let fits = sizes.cells > 0 && words_of(sizes) == Some(map.atomics().len());
        if fits { Ok(Self { map, sizes }) } else { Err(ErrorKind::InvalidData.into()) }
    }

    /// The words of a page, if there is such a cell and it holds as much.
    fn words(&self, Held { cell, bytes }: Held) -> Option<&[AtomicU64]> {
        let Sizes { cells, cell_bytes } = self.sizes;
        let each = words_in(cell_bytes);
        let start = usize::try_from(cell).ok().filter(|_| cell < cells && bytes <= cell_bytes)? * each;
        self.map.atomics().get(start..start + words_in(bytes))
    }

    /// Copies a page, which is as long as `held` says, into a cell.
    fn write(&self, held: Held, page: &[u8]) -> bool {
        let Some(words) = self.words(held) else { return false };
        let (whole, rest) = page.as_chunks();
        let mut last = [0; size_of::<u64>()];
        last[..rest.len()].copy_from_slice(rest);
        let values = whole.iter().chain([&last]).map(|bytes| u64::from_le_bytes(*bytes));
        // The stream orders them: the head that names the cell is sent behind, and the cell came back over it.
        words.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        true
    }

    /// Copies what a cell holds to `page`.
    ///
    /// # Errors
    /// `Malformed` if there is no such cell, or it is shorter.
    pub(super) fn read(&self, held: Held, page: &mut Vec<u8>) -> Result<(), FabricError> {
        let words = self.words(held).ok_or(FabricError::Malformed("a page in a cell that there is not"))?;
        page.resize(size_of_val(words), 0);
        let (places, _) = page.as_chunks_mut();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.load(Ordering::Relaxed).to_le_bytes();
        }
        page.truncate(held.bytes as usize);
        Ok(())
    }
}

/// Words that so many bytes take.
fn words_in(bytes: u32) -> usize {
    (bytes as usize).div_ceil(size_of::<u64>())
}

/// Words of memory of these sizes.
fn words_of(sizes: Sizes) -> Option<usize> {
    usize::try_from(sizes.cells).ok()?.checked_mul(words_in(sizes.cell_bytes))
}

/// The writer's end.
#[derive(Debug)]
pub(super) struct Depot {
    cells: Cells,
    free: Mutex<Vec<u32>>,
}

impl Depot {
    /// Makes memory for pages of up to `page_bytes`, and the file by which the reader maps it.
    pub(super) fn create(page_bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let count = (MOST_BYTES / page_bytes.max(1)).clamp(1, MOST_CELLS);
        let [cells, cell_bytes] = [count, page_bytes].map(u32::try_from);
        let sizes = Sizes {
            cells: cells.map_err(io::Error::other)?,
            cell_bytes: cell_bytes.map_err(io::Error::other)?,
        };
        let (map, file) = Mapping::create(words_of(sizes).ok_or(ErrorKind::InvalidInput)?)?;
        let free = Mutex::new((0..sizes.cells).collect());
        Ok((Self { cells: Cells { map, sizes }, free }, file))
    }

    /// Its sizes.
    pub(super) fn sizes(&self) -> Sizes {
        self.cells.sizes
    }

    /// Puts a page into a free cell, if there is one.
    pub(super) fn put(&self, page: &[u8]) -> Option<Held> {
        let bytes = u32::try_from(page.len()).ok()?;
        let cell = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        let held = Held { cell, bytes };
        if self.cells.write(held, page) {
            return Some(held);
        }
        self.give_back(cell);
        None
    }

    /// Notes that a cell is free again. One that is free already is left so.
    pub(super) fn give_back(&self, cell: u32) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if cell < self.sizes().cells && !free.contains(&cell) {
            free.push(cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depot_pages_are_read_from_the_cell_that_their_head_names() {
        let (depot, file) = Depot::create(16).unwrap();
        let reader = Cells::open(file, depot.sizes()).unwrap();
        let held: Vec<Held> = (0..3_u8).map(|page| depot.put(&[page; 16]).unwrap()).collect();
        for (page, held) in (0..3_u8).zip(&held) {
            let mut bytes = Vec::new();
            reader.read(*held, &mut bytes).unwrap();
            assert_eq!(bytes, [page; 16]);
        }
    }

    #[test]
    fn depot_gives_out_no_cell_twice_before_it_is_given_back() {
        let (depot, _file) = Depot::create(16).unwrap();
        let held: Vec<Held> = std::iter::from_fn(|| depot.put(&[1; 8])).collect();
        assert_eq!(held.len(), MOST_CELLS);
        depot.give_back(held[7].cell);
        depot.give_back(held[7].cell);
        depot.give_back(u32::MAX);
        assert_eq!((depot.put(&[1; 8]), depot.put(&[1; 8])), (Some(held[7]), None));
    }

    #[test]
    fn depot_refuses_what_is_longer_than_a_cell_or_nowhere() {
        let (depot, file) = Depot::create(16).unwrap();
        assert_eq!(depot.put(&[0; 17]), None);
        let reader = Cells::open(file.try_clone().unwrap(), depot.sizes()).unwrap();
        for held in [Held { cell: depot.sizes().cells, bytes: 1 }, Held { cell: 0, bytes: 17 }] {
            assert!(matches!(reader.read(held, &mut Vec::new()), Err(FabricError::Malformed(_))));
        }
        let more = Sizes { cell_bytes: 24, ..depot.sizes() };
        assert_eq!(Cells::open(file, more).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
