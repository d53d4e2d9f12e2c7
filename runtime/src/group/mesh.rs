//! A group whose ranks are processes: a full mesh of stream sockets, Unix ones on one machine or TCP between several.
//!
//! Each peer has a reader thread that drains its socket into the mailbox. The alternatives were a
//! writer thread and non-blocking sockets under poll. Readers win twice: two ranks that send each
//! other more than a socket buffer holds can not deadlock, since somebody always reads; and poison
//! or a death is heard from any peer at once, whichever one the caller is waiting for. They cost
//! one thread wake-up a collective; poll would need unsafe code or one more dependency.

use std::io::{self, BufReader, ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::error::GroupError;
use super::forming::{Files, Forming, meet};
use super::frame::{HEADER_BYTES, Header};
use super::heard::{End, Entry};
use super::line::{Mailed, Wire};
use super::mailbox::Mailbox;
use super::member::Member;
use super::stream::Stream;
use super::tcp::{TcpGround, TcpPlace, TcpStand};
use super::transport::Transport;
use crate::socket::{WRITE_SLICE, is_hangup, is_unreachable, write_by};

/// Bytes that a reader asks for at once: a vote with its header takes one system call.
const READ_BYTES: usize = 16 * 1024;

/// One rank of a group of processes of one machine.
pub type Mesh = Member<Mailed<Sockets<UnixStream>>>;

/// One rank of a group of processes on whatever machines.
pub type TcpMesh = Member<Mailed<Sockets<TcpStream>>>;

/// The sockets to all peers of one rank.
#[derive(Debug)]
pub struct Sockets<S: Stream> {
    /// By rank; `None` at this rank's own place.
    links: Vec<Option<Link<S>>>,
    mailbox: Arc<Mailbox>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Link<S> {
    stream: S,
    /// A frame got through in part; anything that follows would be read as its payload.
    torn: bool,
}

impl Mesh {
    /// Meets all peers of `forming` and compares the configuration with each.
    ///
    /// # Errors
    /// `Differs` or `Duplicate`, on every rank that can see it; `Missing` when a peer does not come
    /// by the deadline; `Misuse` or `Io` for this rank's own part.
    pub fn form(forming: &Forming) -> Result<Self, GroupError> {
        Ok(Self::of(forming, unix_line(forming)?))
    }
}

impl TcpMesh {
    /// Meets all peers of `forming`, of which rank 0 is where `place` says, and compares the configuration with each.
    ///
    /// # Errors
    /// As [`Mesh::form`].
    pub fn form_at(forming: &Forming, place: &TcpPlace) -> Result<Self, GroupError> {
        Ok(Self::of(forming, tcp_line(forming, place)?))
    }
}

pub(super) fn unix_line(forming: &Forming) -> Result<Mailed<Sockets<UnixStream>>, GroupError> {
    start(forming, meet(forming, Files::open(forming, Transport::Unix)?)?)
}

pub(super) fn tcp_line(
    forming: &Forming,
    place: &TcpPlace,
) -> Result<Mailed<Sockets<TcpStream>>, GroupError> {
    forming.check()?;
    over(forming, TcpGround::open(forming.rank, forming.size, place))
}

pub(super) fn tcp_line_at(
    forming: &Forming,
    stand: TcpStand,
) -> Result<Mailed<Sockets<TcpStream>>, GroupError> {
    forming.check()?;
    over(forming, TcpGround::at(forming.rank, forming.size, stand))
}

fn over(forming: &Forming, ground: io::Result<TcpGround>) -> Result<Mailed<Sockets<TcpStream>>, GroupError> {
    let ground = ground.map_err(|error| GroupError::io("listening for the other ranks", &error))?;
    start(forming, meet(forming, ground)?)
}

fn start<S: Stream>(forming: &Forming, streams: Vec<Option<S>>) -> Result<Mailed<Sockets<S>>, GroupError> {
    let mailbox = Arc::new(Mailbox::new(forming.rank, forming.size));
    let wire = Sockets::start(streams, &mailbox, forming.payload_limit)
        .map_err(|error| GroupError::io("starting a reader for a peer", &error))?;
    Ok(Mailed::new(forming.rank, forming.size, wire, mailbox))
}

impl<S: Stream> Sockets<S> {
    fn start(streams: Vec<Option<S>>, mailbox: &Arc<Mailbox>, limit: usize) -> io::Result<Self> {
        let mut wire = Self { links: Vec::new(), mailbox: Arc::clone(mailbox), readers: Vec::new() };
        for (rank, stream) in streams.into_iter().enumerate() {
            let link = stream.map(|stream| wire.start_link(rank, stream, limit)).transpose()?;
            wire.links.push(link);
        }
        Ok(wire)
    }

    fn start_link(&mut self, rank: usize, stream: S, limit: usize) -> io::Result<Link<S>> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(WRITE_SLICE)?;
        let mut reader = Reader {
            rank,
            input: BufReader::with_capacity(READ_BYTES, stream.duplicate()?),
            mailbox: Arc::clone(&self.mailbox),
            limit,
        };
        let name = format!("group-reader-{rank}");
        self.readers.push(thread::Builder::new().name(name).spawn(move || reader.run())?);
        Ok(Link { stream, torn: false })
    }
}

impl<S: Stream> Wire for Sockets<S> {
    fn send(&mut self, rank: usize, frame: &[u8], deadline: Instant) -> bool {
        match self.links.get_mut(rank) {
            Some(Some(link)) => link.send(frame, deadline),
            Some(None) | None => true,
        }
    }

    fn close(&mut self) {
        self.mailbox.close();
        for link in self.links.drain(..).flatten() {
            // Fails only if the peer closed first, which is as good.
            drop(link.stream.end());
        }
        for reader in self.readers.drain(..) {
            // A reader that panicked has nothing to hand over.
            drop(reader.join());
        }
    }
}

impl<S: Stream> Drop for Sockets<S> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<S: Stream> Link<S> {
    fn send(&mut self, frame: &[u8], deadline: Instant) -> bool {
        if self.torn {
            return true;
        }
        match write_by(&mut self.stream, frame, deadline) {
            Err((written, error)) if error.kind() == ErrorKind::TimedOut => {
                self.torn = written > 0;
                false
            }
            Ok(()) | Err(_) => true,
        }
    }
}

/// The loop that drains one peer's socket.
struct Reader<S> {
    rank: usize,
    input: BufReader<S>,
    mailbox: Arc<Mailbox>,
    limit: usize,
}

impl<S: Stream> Reader<S> {
    fn run(&mut self) {
        loop {
            if let Err(end) = self.read_frame() {
                return self.mailbox.end(self.rank, end);
            }
        }
    }

    fn read_frame(&mut self) -> Result<(), End> {
        let mut header = [0; HEADER_BYTES];
        self.input.read_exact(&mut header).map_err(|error| ended(&error))?;
        match Header::decode(&header) {
            Some(Header::Entry { operation, tag, length }) => {
                let payload = self.read_payload(length)?;
                self.mailbox
                    .deliver(self.rank, Entry { operation, tag, payload }, None)
                    .map_err(|_| End::Closed)
            }
            Some(Header::Poison { culprit, last }) => {
                let culprit = usize::try_from(culprit).unwrap_or(usize::MAX);
                Err(End::Poison { culprit, last })
            }
            None => Err(End::Failed(GroupError::Malformed { rank: self.rank })),
        }
    }

    fn read_payload(&mut self, length: u32) -> Result<Vec<u8>, End> {
        let (rank, limit) = (self.rank, self.limit);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > limit {
            return Err(End::Failed(GroupError::Oversize { rank, length, limit }));
        }
        let mut payload = self.mailbox.spare(rank);
        payload.reserve(length);
        let wanted = u64::try_from(length).unwrap_or(u64::MAX);
        let read = self.input.by_ref().take(wanted).read_to_end(&mut payload);
        match read {
            Ok(read) if read == length => Ok(payload),
            Ok(_) => Err(End::Closed),
            Err(error) => Err(ended(&error)),
        }
    }
}

fn ended(error: &io::Error) -> End {
    if is_hangup(error.kind()) || is_unreachable(error.kind()) || error.kind() == ErrorKind::Interrupted {
        return End::Closed;
    }
    End::Failed(GroupError::io("reading from a peer", error))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::socket::after;

    #[test]
    fn link_sends_nothing_behind_a_torn_frame() {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        stream.set_write_timeout(Some(WRITE_SLICE)).unwrap();
        let mut link = Link { stream, torn: false };
        let soon = || after(Duration::from_millis(1));
        assert!(!link.send(&[1; 8 << 20], soon()), "nobody reads");
        let drain = thread::spawn(move || {
            let mut read = Vec::new();
            peer.read_to_end(&mut read).map(|_| read)
        });
        assert!(link.send(&[2; 8], soon()));
        drop(link);
        let read = drain.join().unwrap().unwrap();
        assert!(!read.is_empty() && read.iter().all(|&byte| byte == 1));
    }
}
