//! A block of memory that several processes have mapped, for ranks of a group and for pages of the fabric: the one place with unsafe code.
//!
//! It is an anonymous file in memory, so that nothing is left behind however a process ends. It is sealed against growing and shrinking
//! before it is handed over, and a block that is not is refused: no peer can take mapped memory away. All access is atomic, so what a
//! peer writes, and when, can yield wrong values but never undefined behaviour.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::time::Instant;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::thread::futex;

use super::board::{Block, LINE, Ordering};

/// Bytes before the words: the bell, and nothing else on its cache line.
const BELL_BYTES: usize = LINE * 8;

/// Seals that a block must have.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A mapped block.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: MmapRaw,
    words: usize,
}

impl Mapping {
    /// Makes a block of so many words, all zero, and the file by which others can map it. Its memory is there: none is asked for later.
    pub(crate) fn create(words: usize) -> io::Result<(Self, OwnedFd)> {
        let bytes = u64::try_from(BELL_BYTES + words * 8).map_err(io::Error::other)?;
        let file = memfd_create("lockstep", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes)?;
        fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::open(file.try_clone()?)?, file))
    }

    /// Maps the block of a peer; `InvalidData` if it is none.
    pub(crate) fn open(file: OwnedFd) -> io::Result<Self> {
        // The seals first: what is sealed keeps its size.
        let sealed = fcntl_get_seals(file.as_fd()).is_ok_and(|seals| seals.contains(SEALS));
        let bytes = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        let words = bytes.checked_sub(BELL_BYTES).filter(|rest| sealed && rest.is_multiple_of(8));
        let words = words.ok_or(io::ErrorKind::InvalidData)? / 8;
        let map = MmapOptions::new().len(bytes).map_raw(&File::from(file))?;
        Ok(Self { map, words })
    }

    /// The words.
    #[expect(unsafe_code, reason = "mapped memory is reached through a pointer")]
    pub(crate) fn atomics(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is BELL_BYTES + words * 8 bytes long, readable and writable, and lives as long as `self`; its file is sealed
        // against shrinking, so every byte stays there. Mappings begin at a page, and BELL_BYTES is a multiple of 8, so the words are
        // aligned. They are zeroed or written by such atomics only, and every bit pattern is a valid AtomicU64.
        unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().add(BELL_BYTES).cast::<AtomicU64>(), self.words)
        }
    }

    #[expect(unsafe_code, reason = "mapped memory is reached through a pointer")]
    fn bell_word(&self) -> &AtomicU32 {
        // SAFETY: the first BELL_BYTES bytes of the mapping hold this word and nothing else; it is aligned as a page is, lives as long as
        // `self`, and is only ever used as an AtomicU32, for which every bit pattern is valid.
        unsafe { &*self.map.as_ptr().cast::<AtomicU32>() }
    }
}

impl Block for Mapping {
    fn words(&self) -> usize {
        self.words
    }

    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.atomics()[word].load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.atomics()[word].store(value, order);
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn bell(&self) -> u32 {
        self.bell_word().load(Ordering::Relaxed)
    }

    fn set_bell(&self, bell: u32) -> u32 {
        self.bell_word().swap(bell, Ordering::AcqRel)
    }

    fn sleep(&self, bell: u32, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        // A day at most, as all deadlines are, so that it fits; whatever ends the sleep, the caller looks again.
        if let Ok(timeout) = left.try_into() {
            let _slept = futex::wait(self.bell_word(), futex::Flags::empty(), bell, Some(&timeout));
        }
    }

    fn wake(&self) {
        // It fails for an address that is none, which a mapped word is not.
        let _woken = futex::wake(self.bell_word(), futex::Flags::empty(), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_is_the_same_memory_for_all_who_open_it() {
        let (ours, file) = Mapping::create(64).unwrap();
        let theirs = Mapping::open(file).unwrap();
        theirs.store(63, 7, Ordering::Release);
        assert_eq!((ours.words(), ours.load(63, Ordering::Acquire)), (64, 7));
        theirs.set_bell(2);
        assert_eq!(ours.bell(), 2);
    }

    #[test]
    fn mapping_refuses_a_file_that_could_shrink() {
        let file = memfd_create("loose", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert_eq!(Mapping::open(file).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
