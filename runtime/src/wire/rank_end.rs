//! The rank's end of the wire, blocking: it suits the rank loop's thread and a reader thread beside it.

use std::fmt::Debug;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::lines::{LineReader, WireError, encode};
use super::{FRONT_LINE_BYTES, FrontToRank, RANK_LINE_BYTES, RankToFront, Seat};
use crate::group::Stream;

/// How the front end is called in a rank's messages.
const FRONT: &str = "the front end";

/// Longest wait for the front end to take a line.
const SEND_DEADLINE: Duration = Duration::from_secs(5);

/// Bytes taken from the socket at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Both directions of a rank's connection, to be split over its threads.
#[derive(Debug)]
pub struct RankEnd {
    /// Sends to the front end.
    pub sender: RankSender,
    /// Receives from the front end.
    pub receiver: RankReceiver,
}

impl RankEnd {
    /// Connects to the control socket and says who is there.
    ///
    /// # Errors
    /// [`WireError::Io`] when the front end is not there.
    pub fn connect(socket: &Path, Seat { epoch, name }: Seat) -> Result<Self, WireError> {
        let mut end = Self::of(UnixStream::connect(socket).map_err(broken)?)?;
        let (role, rank, pid) = (name.role, name.rank, std::process::id());
        end.sender.send(&RankToFront::Hello { epoch, role, rank, pid })?;
        Ok(end)
    }

    /// Takes a connection over on which nothing was said yet.
    ///
    /// # Errors
    /// [`WireError::Io`] with the system's reason.
    pub fn over(stream: TcpStream) -> Result<Self, WireError> {
        stream.prepare().map_err(broken)?;
        Self::of(stream)
    }

    /// The rank's end of a connection of either kind.
    pub(crate) fn of(stream: impl Stream + AsFd) -> Result<Self, WireError> {
        stream.set_write_timeout(SEND_DEADLINE).map_err(broken)?;
        let sender = RankSender { stream: Box::new(stream.duplicate().map_err(broken)?) };
        let lines = LineReader::new(FRONT, FRONT_LINE_BYTES);
        Ok(Self { sender, receiver: RankReceiver { stream: Box::new(stream), lines } })
    }
}

/// What a sender writes to.
trait Outward: Write + Debug + Send {}
impl<S: Write + Debug + Send> Outward for S {}

/// What a receiver reads from: a socket of either kind.
trait Inward: Read + AsFd + Debug + Send {}
impl<S: Read + AsFd + Debug + Send> Inward for S {}

/// The sending half of a rank's connection.
#[derive(Debug)]
pub struct RankSender {
    stream: Box<dyn Outward>,
}

impl RankSender {
    /// Sends one message; waits five seconds at most for room.
    ///
    /// # Errors
    /// [`WireError`] when the front end is gone or does not read; the rank is to end.
    pub fn send(&mut self, message: &RankToFront) -> Result<(), WireError> {
        self.say(message)
    }

    /// Sends one line of whatever kind, as [`Self::send`] does.
    pub(crate) fn say(&mut self, message: &impl Serialize) -> Result<(), WireError> {
        let line = encode(message, FRONT, RANK_LINE_BYTES)?;
        self.stream.write_all(&line).map_err(broken)
    }
}

/// The receiving half of a rank's connection.
#[derive(Debug)]
pub struct RankReceiver {
    stream: Box<dyn Inward>,
    lines: LineReader,
}

impl RankReceiver {
    /// Waits for the next message; `None` when none came within `patience` (a millisecond at least).
    ///
    /// # Errors
    /// [`WireError::Closed`] when the front end is gone, others when it broke the wire's rules; the rank is to end.
    pub fn receive(&mut self, patience: Duration) -> Result<Option<FrontToRank>, WireError> {
        self.hear(patience)
    }

    /// Waits for one line of the kind that is due, as [`Self::receive`] does.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<Option<T>, WireError> {
        if let Some(message) = self.lines.message()? {
            return Ok(Some(message));
        }
        let patience = Some(patience.max(Duration::from_millis(1)));
        set_socket_timeout(&self.stream, Timeout::Recv, patience).map_err(|error| broken(error.into()))?;
        match self.read_chunk()? {
            true => self.lines.message(),
            false => Ok(None),
        }
    }

    /// Reads once; `false` when the time passed first.
    fn read_chunk(&mut self) -> Result<bool, WireError> {
        let mut chunk = [0; CHUNK_BYTES];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(WireError::Closed { peer: FRONT.into() }),
            Ok(length) => {
                self.lines.push(&chunk[..length]);
                Ok(true)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                Ok(false)
            }
            Err(source) => Err(broken(source)),
        }
    }
}

fn broken(source: std::io::Error) -> WireError {
    WireError::Io { peer: FRONT.into(), source }
}
