//! A listening Unix socket that owns its file: binds over the file of a dead process, refuses
//! to bind over a live one, and removes the file when it goes.
//!
//! Used by `group` while it forms and by `fabric`'s prefill side.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest wait; keeps a deadline of "for ever" from overflowing the clock.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The moment `deadline` from now, a day at most.
pub(crate) fn after(deadline: Duration) -> Instant {
    Instant::now() + deadline.min(LONGEST_WAIT)
}

/// A non-blocking listener and the socket file that belongs to it.
#[derive(Debug)]
pub(crate) struct Doorway {
    listener: UnixListener,
    path: PathBuf,
}

impl Doorway {
    /// Binds `path`. A socket file that nobody listens on is replaced; a live listener or a file
    /// that is no socket is an error that says so.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(path)?;
                UnixListener::bind(path)
            }
            other => other,
        }
        .map_err(|error| at(path, &error))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// The next waiting connection, or `None` when nobody waits. The stream blocks.
    pub(crate) fn accept(&self) -> io::Result<Option<UnixStream>> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                Ok(Some(stream))
            }
            Err(error) if is_transient(error.kind()) => Ok(None),
            Err(error) => Err(at(&self.path, &error)),
        }
    }
}

impl AsFd for Doorway {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Doorway {
    fn drop(&mut self) {
        // The file may be gone with its directory already; then there is nothing left to do.
        drop(std::fs::remove_file(&self.path));
    }
}

/// How long one write may block before its deadline is looked at.
pub(crate) const WRITE_SLICE: Duration = Duration::from_millis(20);

/// Writes all of `bytes`, on a stream whose write timeout is [`WRITE_SLICE`]. On error says how
/// many bytes were written; `TimedOut` when `deadline` has passed.
pub(crate) fn write_by(
    mut stream: impl Write,
    bytes: &[u8],
    deadline: Instant,
) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if !is_transient(error.kind()) => return Err((written, error)),
            Err(_) if Instant::now() < deadline => {}
            Err(_) => return Err((written, ErrorKind::TimedOut.into())),
        }
    }
    Ok(())
}

/// Whether a socket call that failed this way may simply be made again. A wait that we bounded ends in `WouldBlock`;
/// `TimedOut` is the kernel's word that the connection has failed.
pub(crate) fn is_transient(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// Whether a socket call failed because the other end is gone.
pub(crate) fn is_hangup(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof
    )
}

/// Whether a socket call failed because the network no longer reaches the other end.
pub(crate) fn is_unreachable(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
    )
}

fn remove_stale(path: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(refused(path, "a file that is no socket is in the way; remove it"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(refused(path, "another process listens there; stop it first")),
        Err(_) => std::fs::remove_file(path),
    }
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(ErrorKind::AddrInUse, format!("{}: {why}", path.display()))
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A port that nobody is given who asks for a free one, and at which nobody listens; whoever names it may bind it.
#[cfg(test)]
pub(crate) fn reserved_port() -> (std::os::fd::OwnedFd, std::net::SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
    let port = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    // Sockets with this option share a port as long as one of them listens at most.
    sockopt::set_socket_reuseaddr(&port, true).unwrap();
    bind(&port, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = getsockname(&port).unwrap().try_into().unwrap();
    (port, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorway_replaces_the_file_of_a_dead_listener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stale.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let doorway = Doorway::open(&path).unwrap();
        assert!(doorway.accept().unwrap().is_none());
        drop(doorway);
        assert!(!path.exists());
    }

    #[test]
    fn doorway_refuses_a_live_listener_and_a_plain_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("live.sock");
        let _live = Doorway::open(&path).unwrap();
        assert_eq!(Doorway::open(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        let plain = dir.path().join("plain");
        std::fs::write(&plain, b"keep").unwrap();
        assert!(Doorway::open(&plain).is_err());
        assert_eq!(std::fs::read(&plain).unwrap(), b"keep");
    }
}
