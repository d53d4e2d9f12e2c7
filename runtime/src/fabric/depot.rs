//! Pages in memory that both ends of a connection have mapped. The stream carries their heads, and with them order, ends and deadlines; a
//! page lies in a cell of that memory until the reader has taken it. Where no cell is free a page travels in its frame, as it does where
//! there is no such memory, so nobody waits for a cell.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use memmap2::MmapRaw;

use super::error::FabricError;
use super::frame::{Held, Sizes};
use crate::memory_file;

/// Most cells of a connection, and the most bytes that they take together, unless a page alone takes more.
const MOST_CELLS: usize = 64;
const MOST_BYTES: usize = 64 << 20;

/// The memory, as either end has mapped it.
#[derive(Debug)]
pub(super) struct Cells {
    map: MmapRaw,
    sizes: Sizes,
}

impl Cells {
    /// Maps memory of these sizes; `InvalidData` if it has others.
    pub(super) fn open(file: OwnedFd, sizes: Sizes) -> io::Result<Self> {
        let [count, each] = [sizes.cells, sizes.cell_bytes].map(|size| usize::try_from(size).ok());
        let bytes = count.zip(each).and_then(|(count, each)| count.checked_mul(each));
        let map = memory_file::map(file, |found| bytes.is_some_and(|bytes| bytes > 0 && bytes == found))?;
        Ok(Self { map, sizes })
    }

    /// Where a cell begins, if there is such a cell and it holds so many bytes.
    fn place(&self, Held { cell, bytes }: Held) -> Option<*mut u8> {
        let Sizes { cells, cell_bytes } = self.sizes;
        let fits = cell < cells && bytes <= cell_bytes;
        let start = usize::try_from(u64::from(cell) * u64::from(cell_bytes)).ok().filter(|_| fits)?;
        Some(self.map.as_mut_ptr().wrapping_add(start))
    }

    /// Copies `page`, as long as `held` says, into a cell.
    #[expect(unsafe_code, reason = "mapped memory is reached through a pointer")]
    fn write(&self, held: Held, page: &[u8]) -> bool {
        let Some(place) = self.place(held) else { return false };
        let bytes = page.len().min(held.bytes as usize);
        // SAFETY: the mapping is as long as its sizes say, its file is sealed against shrinking, and `place` has checked cell and length;
        // `page` is memory of this process alone. The cell is free: its reader has given it back, over the stream.
        unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), place, bytes) };
        true
    }

    /// Copies what a cell holds to the end of `page`.
    ///
    /// # Errors
    /// `Malformed` if there is no such cell, or it is shorter.
    #[expect(unsafe_code, reason = "mapped memory is reached through a pointer")]
    pub(super) fn read(&self, held: Held, page: &mut Vec<u8>) -> Result<(), FabricError> {
        let nowhere = FabricError::Malformed("a page in a cell that there is not");
        let bytes = usize::try_from(held.bytes).map_err(|_| nowhere.clone())?;
        let place = self.place(held).ok_or(nowhere)?;
        page.reserve(bytes);
        // SAFETY: the bounds are checked as above, and `page` has room for as many bytes, which the copy initialises. The writer filled the
        // cell before it sent the head that names it, and does not touch it until it is given back; one that does all the same yields a page
        // with a wrong checksum.
        unsafe {
            std::ptr::copy_nonoverlapping(place, page.as_mut_ptr().add(page.len()), bytes);
            page.set_len(page.len() + bytes);
        }
        Ok(())
    }
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
        let bytes = page_bytes.checked_mul(count).ok_or(ErrorKind::InvalidInput)?;
        let [cells, cell_bytes] = [count, page_bytes].map(u32::try_from);
        let sizes = Sizes {
            cells: cells.map_err(io::Error::other)?,
            cell_bytes: cell_bytes.map_err(io::Error::other)?,
        };
        let file = memory_file::create("lockstep-pages", bytes)?;
        let cells = Cells::open(file.try_clone()?, sizes)?;
        Ok((Self { cells, free: Mutex::new((0..sizes.cells).collect()) }, file))
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
        let more = Sizes { cell_bytes: 17, ..depot.sizes() };
        assert_eq!(Cells::open(file, more).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
