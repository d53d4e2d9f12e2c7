//! A man in the middle of the KV fabric: it takes the place of a prefill rank's socket and passes everything on, but for what it spoils.
//!
//! The product has no hook for it. The socket's file is moved away and the relay listens in its place, while the decode rank that is about to
//! connect is stopped.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::faults::Spoil;

/// Least bytes of what is worth spoiling: more than any frame that carries no page.
const WORTH: usize = 600;

/// What the relay and its connections share.
#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    spoilt: AtomicU64,
}

/// A relay in the place of one socket. Its connections end with it.
pub(super) struct Relay(Arc<Shared>);

impl Relay {
    /// Takes the place of the socket at `path`, and spoils the first transfer that passes.
    pub(super) fn interpose(path: &Path, spoil: Spoil) -> std::io::Result<Self> {
        let real = path.with_extension("real");
        std::fs::rename(path, &real)?;
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared::default());
        let relay = Self(Arc::clone(&shared));
        thread::spawn(move || accept(&listener, &real, &shared, spoil));
        Ok(relay)
    }

    /// How many transfers it has spoilt.
    pub(super) fn spoilt(&self) -> u64 {
        self.0.spoilt.load(Ordering::Acquire)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

fn accept(listener: &UnixListener, real: &PathBuf, shared: &Arc<Shared>, spoil: Spoil) {
    while !shared.ended.load(Ordering::Acquire) {
        match listener.accept() {
            Ok((decode, _)) => drop(pass_on(&decode, real, shared, spoil)),
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn pass_on(decode: &UnixStream, real: &PathBuf, shared: &Arc<Shared>, spoil: Spoil) -> std::io::Result<()> {
    decode.set_nonblocking(false)?;
    let prefill = UnixStream::connect(real)?;
    let (from, to) = (decode.try_clone()?, prefill.try_clone()?);
    thread::spawn(move || copy(&from, &to, |_| true));
    let (to, shared) = (decode.try_clone()?, Arc::clone(shared));
    thread::spawn(move || copy(&prefill, &to, |chunk| spoil_once(chunk, &shared, spoil)));
    Ok(())
}

/// Passes on what comes until either end closes or `alter` says that this chunk is the last one.
fn copy(mut from: &UnixStream, mut to: &UnixStream, mut alter: impl FnMut(&mut Vec<u8>) -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let mut chunk = buffer[..length].to_vec();
        let goes_on = alter(&mut chunk);
        if to.write_all(&chunk).is_err() || !goes_on {
            break;
        }
    }
    // Either may be closed already.
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}

fn spoil_once(chunk: &mut Vec<u8>, shared: &Shared, spoil: Spoil) -> bool {
    if chunk.len() < WORTH || shared.spoilt.swap(1, Ordering::AcqRel) == 1 {
        return true;
    }
    match spoil {
        Spoil::Flip => {
            let middle = chunk.len() / 2;
            chunk[middle] ^= 1;
            true
        }
        Spoil::Cut => {
            chunk.truncate(chunk.len() / 2);
            false
        }
    }
}
