//! Where a prefill rank is to be found: its address, the gate that it opens there, and how a decode rank learns of it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::error::FabricError;
use super::socket::Socket;
use crate::socket::{Doorway, is_transient};

/// Longest wait for one attempt to connect.
const CONNECT: Duration = Duration::from_secs(1);

/// What carries KV between a prefill rank and its decode rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FabricKind {
    /// TCP; the ranks find each other through a bootstrap server.
    Tcp,
    /// Pages in shared memory and all else over Unix sockets, on one machine.
    #[default]
    Shm,
    /// Unix sockets, on one machine.
    Unix,
}

impl FabricKind {
    /// The name on command lines and in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Shm => "shm",
            Self::Unix => "unix",
        }
    }
}

/// The address of a prefill rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address; to listen on, port 0 takes a free one.
    Tcp(SocketAddr),
    /// The file of a Unix socket, beside which pages go through shared memory.
    Shm(PathBuf),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    pub(super) fn connect(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT)?;
                // A port of its own that nobody listened on: a stream can be connected to itself.
                if stream.local_addr()? == *address {
                    Err(ErrorKind::ConnectionRefused.into())
                } else {
                    Socket::of(stream)
                }
            }
            Self::Shm(path) | Self::Unix(path) => Socket::of(UnixStream::connect(path)?),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(out, "{address}"),
            Self::Shm(path) | Self::Unix(path) => write!(out, "{}", path.display()),
        }
    }
}

/// How a decode rank learns where its prefill rank is. It is asked by the fabric's own thread, when spec's client wants to know.
pub trait Finder: Send + 'static {
    /// The address. A search that waits calls `tick` every 20 ms or so, and gives up when that fails.
    ///
    /// # Errors
    /// Why the address is not known; the search is made again later.
    fn find(&mut self, tick: &mut dyn FnMut() -> io::Result<()>) -> Result<Address, FabricError>;
}

/// An address that is known from the start.
impl Finder for Address {
    fn find(&mut self, _: &mut dyn FnMut() -> io::Result<()>) -> Result<Address, FabricError> {
        Ok(self.clone())
    }
}

/// A listening socket at an address.
#[derive(Debug)]
pub(super) enum Gate {
    Tcp(TcpListener),
    Shm(Doorway),
    Unix(Doorway),
}

impl Gate {
    /// Listens at `address`; says where it was bound.
    pub(super) fn open(address: &Address) -> io::Result<(Self, Address)> {
        match address {
            Address::Tcp(asked) => {
                let listener = TcpListener::bind(asked).map_err(|error| at(asked, &error))?;
                listener.set_nonblocking(true)?;
                let bound = listener.local_addr()?;
                Ok((Self::Tcp(listener), Address::Tcp(bound)))
            }
            Address::Shm(path) => Ok((Self::Shm(Doorway::open(path)?), address.clone())),
            Address::Unix(path) => Ok((Self::Unix(Doorway::open(path)?), address.clone())),
        }
    }

    /// Whether who comes in shares memory.
    pub(super) fn shares(&self) -> bool {
        match self {
            Self::Shm(_) => true,
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// The next connection; `None` if nobody came within `patience`.
    pub(super) fn accept(&self, patience: Duration) -> io::Result<Option<Socket>> {
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match self {
            Self::Tcp(listener) => match listener.accept() {
                Ok((stream, _)) => Socket::of(stream).map(Some),
                Err(error) if is_transient(error.kind()) => Ok(None),
                Err(error) => Err(error),
            },
            Self::Shm(doorway) | Self::Unix(doorway) => doorway.accept()?.map(Socket::of).transpose(),
        }
    }
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Shm(doorway) | Self::Unix(doorway) => doorway.as_fd(),
        }
    }
}

fn at(address: &SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}
