//! Anonymous files in memory that processes share: nothing is left behind however a process ends. They are sealed against growing and
//! shrinking before they are handed over, and one that is not is refused: no peer can take mapped memory away.
//!
//! Used by `group` for the blocks of its ranks and by `fabric` for pages.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Seals that a file must have.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Makes a file of so many bytes, all zero. Its memory is there: none is asked for later.
pub(crate) fn create(name: &str, bytes: usize) -> io::Result<OwnedFd> {
    let bytes = u64::try_from(bytes).map_err(io::Error::other)?;
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file)
}

/// Maps a file, whole; `InvalidData` if it could shrink, or has not so many bytes as `fits` wants.
pub(crate) fn map(file: OwnedFd, fits: impl FnOnce(usize) -> bool) -> io::Result<MmapRaw> {
    // The seals first: what is sealed keeps its size.
    let sealed = fcntl_get_seals(file.as_fd()).is_ok_and(|seals| seals.contains(SEALS));
    let bytes = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
    if !sealed || !fits(bytes) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    MmapOptions::new().len(bytes).map_raw(&File::from(file))
}

/// Sends a file over a Unix socket, with one byte.
pub(crate) fn give(stream: impl AsFd, file: impl AsFd) -> io::Result<()> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The file that came over a Unix socket; `None` at its end, or if what came brought no file.
pub(crate) fn take(stream: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message {
            return Ok(files.next());
        }
    }
    Ok(None)
}
