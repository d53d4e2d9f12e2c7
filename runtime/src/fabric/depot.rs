//! Pages in memory that both ends of a connection have mapped. The stream carries their heads, and with them order, ends and deadlines; a
//! page lies in a cell of that memory until the reader has taken it. Where no cell is free a page travels in its frame, as it does where
//! there is no such memory, so nobody waits for a cell.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use memmap2::MmapRaw;

use super::error::FabricError;
use super::frame::Held;
use crate::memory_file;

/// Most cells of a connection, and the most bytes that they take together, unless a page alone takes more.
const MOST_CELLS: usize = 64;
const MOST_BYTES: usize = 64 << 20;

/// The memory, as either end has mapped it.
#[derive(Debug)]
pub(super) struct Cells {
    map: MmapRaw,
    cell_bytes: usize,
    count: usize,
}

impl Cells {
    fn over(file: OwnedFd, cell_bytes: usize, count: usize) -> io::Result<Self> {
        let bytes = cell_bytes.checked_mul(count).filter(|bytes| *bytes > 0);
        let map = memory_file::map(file, |found| Some(found) == bytes)?;
        Ok(Self { map, cell_bytes, count })
    }

    /// Maps the memory of a peer, in cells of `cell_bytes`; `InvalidData` if it is of another size.
    pub(super) fn open(file: OwnedFd, cell_bytes: usize, count: u32) -> io::Result<Self> {
        Self::over(file, cell_bytes, usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Where a cell begins, if there is such a cell and it holds so many bytes.
    fn place(&self, cell: u32, bytes: usize) -> Option<*mut u8> {
        let cell =
            usize::try_from(cell).ok().filter(|cell| *cell < self.count && bytes <= self.cell_bytes)?;
        Some(self.map.as_mut_ptr().wrapping_add(cell * self.cell_bytes))
    }

    /// Copies `bytes` into a cell.
    #[expect(unsafe_code, reason = "mapped memory is reached through a pointer")]
    fn write(&self, cell: u32, bytes: &[u8]) -> bool {
        let Some(place) = self.place(cell, bytes.len()) else { return false };
        // SAFETY: the mapping has `count` cells of `cell_bytes` bytes, its file is sealed against shrinking, and `place` has checked both
        // bounds; `bytes` is memory of this process alone. The cell is free: its reader has given it back, over the stream.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
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
        let place = self.place(held.cell, bytes).ok_or(nowhere)?;
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
        let file = memory_file::create("lockstep-pages", bytes)?;
        let cells = Cells::over(file.try_clone()?, page_bytes, count)?;
        let free = Mutex::new((0..u32::try_from(count).unwrap_or(u32::MAX)).collect());
        Ok((Self { cells, free }, file))
    }

    /// How many cells there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.cells.count).unwrap_or(u32::MAX)
    }

    /// Puts a page into a free cell, if there is one.
    pub(super) fn put(&self, page: &[u8]) -> Option<Held> {
        let bytes = u32::try_from(page.len()).ok()?;
        let cell = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        let held = Held { cell, bytes };
        if self.cells.write(cell, page) {
            return Some(held);
        }
        self.give_back(cell);
        None
    }

    /// Notes that a cell is free again. One that is free already is left so.
    pub(super) fn give_back(&self, cell: u32) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if cell < self.count() && !free.contains(&cell) {
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
        let reader = Cells::open(file, 16, depot.count()).unwrap();
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
        let reader = Cells::open(file.try_clone().unwrap(), 16, depot.count()).unwrap();
        for held in [Held { cell: depot.count(), bytes: 1 }, Held { cell: 0, bytes: 17 }] {
            assert!(matches!(reader.read(held, &mut Vec::new()), Err(FabricError::Malformed(_))));
        }
        assert_eq!(Cells::open(file, 16, depot.count() + 1).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
