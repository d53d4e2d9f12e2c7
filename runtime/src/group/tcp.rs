//! How processes of several machines find each other: rank 0 is at an address that all know, and introduces the others.
//!
//! Each rank listens on an address of its own and says in its hello where it is to be found. To each rank that it has met, rank 0 sends
//! an introduction of each lower one as soon as it has met both; all else is as on one machine. The network is trusted, as for any
//! collective library: nothing is encrypted, and who knows the configuration's hash may join.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::GroupError;
use super::forming::Ground;
use super::transport::Transport;
use crate::socket::is_transient;

/// Longest wait for one attempt to connect.
const CONNECT: Duration = Duration::from_secs(1);

/// Bytes of an address in a hello and in an introduction.
pub(super) const ADDRESS_BYTES: usize = 18;
const INTRODUCTION_BYTES: usize = 4 + ADDRESS_BYTES;

/// Where a rank of a TCP group stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpPlace {
    /// Where rank 0 is.
    pub leader: Leader,
    /// Where this rank listens; port 0 takes a free one. That of rank 0 is where the others look for it.
    pub listen: SocketAddr,
    /// Where peers reach this rank, if not where it listens. An unspecified address stands for the one that rank 0 sees.
    pub advertise: Option<SocketAddr>,
}

/// A rank's place that listens already, so that others can be told of it before the group forms.
#[derive(Debug)]
pub struct TcpStand {
    /// Where rank 0 is.
    pub leader: Leader,
    /// What this rank listens on.
    pub listener: TcpListener,
    /// Where peers reach it. An unspecified address stands for the one that rank 0 sees.
    pub address: SocketAddr,
}

impl TcpStand {
    /// A stand at `listener`, which others reach at `address`, in a group whose rank 0 is at `leader`.
    ///
    /// # Errors
    /// [`GroupError::Io`] with the system's reason.
    pub fn of(listener: &TcpListener, leader: SocketAddr, address: IpAddr) -> Result<Self, GroupError> {
        let failed = |error| GroupError::io("listening for the other ranks", &error);
        let listener = listener.try_clone().map_err(failed)?;
        let address = SocketAddr::new(address, listener.local_addr().map_err(failed)?.port());
        Ok(Self { leader: Leader::At(leader.to_string()), listener, address })
    }
}

/// How rank 0 is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leader {
    /// At a host name or address with a port, as `host:port`.
    At(String),
    /// At the address that it writes into this file.
    Noted(PathBuf),
}

/// A rank's place once it listens.
#[derive(Debug)]
pub(super) struct TcpGround {
    rank: usize,
    leader: Leader,
    listener: TcpListener,
    address: SocketAddr,
    /// By rank: where it is found.
    book: Vec<Option<SocketAddr>>,
    introduction: [u8; INTRODUCTION_BYTES],
    filled: usize,
}

impl TcpGround {
    pub(super) fn open(rank: usize, size: usize, place: &TcpPlace) -> io::Result<Self> {
        let TcpPlace { leader, listen, advertise } = place.clone();
        let listener = TcpListener::bind(listen)?;
        let listening = listener.local_addr()?;
        if let (Leader::Noted(path), 0) = (&leader, rank) {
            note(path, listening)?;
        }
        Self::at(rank, size, TcpStand { leader, listener, address: advertise.unwrap_or(listening) })
    }

    pub(super) fn at(rank: usize, size: usize, stand: TcpStand) -> io::Result<Self> {
        let TcpStand { leader, listener, address } = stand;
        listener.set_nonblocking(true)?;
        Ok(Self {
            rank,
            leader,
            listener,
            address,
            book: vec![None; size],
            introduction: [0; INTRODUCTION_BYTES],
            filled: 0,
        })
    }

    fn addresses(&self, rank: usize) -> io::Result<Vec<SocketAddr>> {
        match &self.leader {
            Leader::At(host) if rank == 0 => Ok(host.to_socket_addrs().map_err(not_yet)?.collect()),
            Leader::Noted(path) if rank == 0 => {
                Ok(vec![fs::read_to_string(path)?.parse().map_err(io::Error::other)?])
            }
            Leader::At(_) | Leader::Noted(_) => Ok(self.book[rank].into_iter().collect()),
        }
    }

    /// Reads one introduction, if one is there.
    fn hear(&mut self, mut leader: &TcpStream) -> io::Result<bool> {
        match leader.read(&mut self.introduction[self.filled..]) {
            Ok(0) => return Ok(false),
            Ok(read) => self.filled += read,
            Err(error) if is_transient(error.kind()) => return Ok(false),
            Err(error) => return Err(error),
        }
        if self.filled == INTRODUCTION_BYTES {
            self.filled = 0;
            let (rank, address) = self.introduction.split_first_chunk().unwrap_or((&[0; 4], &[]));
            let rank = usize::try_from(u32::from_le_bytes(*rank)).unwrap_or(usize::MAX);
            let address = address.first_chunk().and_then(decode);
            if let (Some(place), Some(address)) = (self.book.get_mut(rank), address) {
                *place = Some(address);
            }
        }
        Ok(true)
    }
}

impl Ground for TcpGround {
    type Stream = TcpStream;

    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn address(&self) -> [u8; ADDRESS_BYTES] {
        encode(self.address)
    }

    fn accept(&mut self) -> io::Result<Option<TcpStream>> {
        match self.listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if is_transient(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn connect(&mut self, rank: usize) -> io::Result<TcpStream> {
        let mut failed = ErrorKind::NotFound.into();
        for address in self.addresses(rank)? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                // A port of its own that nobody listened on yet: a stream can be connected to itself.
                Ok(stream) if stream.local_addr()? == address => failed = ErrorKind::ConnectionRefused.into(),
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn met(&mut self, rank: usize, address: &[u8; ADDRESS_BYTES], streams: &[Option<TcpStream>]) {
        let Some(stream) = streams[rank].as_ref().filter(|_| self.rank == 0) else { return };
        self.book[rank] = decode(address).map(|address| reachable(address, stream));
        for other in (1..self.book.len()).filter(|&other| other != rank) {
            let (lower, higher) = (rank.min(other), rank.max(other));
            if let (Some(address), Some(stream)) = (self.book[lower], &streams[higher]) {
                introduce(stream, lower, address);
            }
        }
    }

    fn listen_to(&mut self, leader: &TcpStream) {
        let wanted = (1..self.rank).filter(|&rank| self.book[rank].is_none()).count();
        // A leader that is gone is noticed in the group's first collective, if not by those that it should have introduced.
        for _ in 0..wanted {
            if !self.hear(leader).unwrap_or(false) {
                return;
            }
        }
    }
}

/// An address with what rank 0 sees in place of an unspecified one.
fn reachable(address: SocketAddr, stream: &TcpStream) -> SocketAddr {
    match stream.peer_addr() {
        Ok(seen) if address.ip().is_unspecified() => SocketAddr::new(seen.ip(), address.port()),
        Ok(_) | Err(_) => address,
    }
}

/// Writes the leader's address where the others look for it, whole or not at all.
fn note(path: &Path, address: SocketAddr) -> io::Result<()> {
    let draft = path.with_extension("draft");
    fs::write(&draft, address.to_string())?;
    fs::rename(draft, path)
}

fn not_yet(error: io::Error) -> io::Error {
    io::Error::new(ErrorKind::NotFound, error)
}

/// Tells a rank where a lower one is; a few bytes, which a fresh stream takes at once. One that is gone need not know.
fn introduce(mut stream: &TcpStream, rank: usize, address: SocketAddr) {
    let mut bytes = [0; INTRODUCTION_BYTES];
    bytes[..4].copy_from_slice(&u32::try_from(rank).unwrap_or(u32::MAX).to_le_bytes());
    bytes[4..].copy_from_slice(&encode(address));
    drop(stream.write_all(&bytes));
}

fn encode(address: SocketAddr) -> [u8; ADDRESS_BYTES] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; ADDRESS_BYTES]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_first_chunk::<16>()?;
    let port = u16::from_le_bytes(*port.first_chunk()?);
    (port != 0).then(|| SocketAddr::new(IpAddr::V6(Ipv6Addr::from(*ip)).to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_addresses_survive_the_wire() {
        for address in ["10.1.2.3:70", "[fe80::1]:65535"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(decode(&encode(address)), Some(address));
        }
        assert_eq!(decode(&[0; ADDRESS_BYTES]), None, "a Unix socket's hello has no address");
    }
}
