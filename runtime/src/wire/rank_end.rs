//! The rank's end of the wire, blocking: it suits the rank loop's thread and a reader thread beside it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::lines::{LineReader, WireError, encode};
use super::{FRONT_LINE_BYTES, FrontToRank, RANK_LINE_BYTES, RankToFront, Seat};

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
        let stream = UnixStream::connect(socket).map_err(broken)?;
        stream.set_write_timeout(Some(SEND_DEADLINE)).map_err(broken)?;
        let mut sender = RankSender { stream: stream.try_clone().map_err(broken)? };
        let (role, rank, pid) = (name.role, name.rank, std::process::id());
        sender.send(&RankToFront::Hello { epoch, role, rank, pid })?;
        Ok(Self {
            sender,
            receiver: RankReceiver { stream, lines: LineReader::new(FRONT, FRONT_LINE_BYTES) },
        })
    }
}

/// The sending half of a rank's connection.
#[derive(Debug)]
pub struct RankSender {
    stream: UnixStream,
}

impl RankSender {
    /// Sends one message; waits five seconds at most for room.
    ///
    /// # Errors
    /// [`WireError`] when the front end is gone or does not read; the rank is to end.
    pub fn send(&mut self, message: &RankToFront) -> Result<(), WireError> {
        let line = encode(message, FRONT, RANK_LINE_BYTES)?;
        self.stream.write_all(&line).map_err(broken)
    }
}

/// The receiving half of a rank's connection.
#[derive(Debug)]
pub struct RankReceiver {
    stream: UnixStream,
    lines: LineReader,
}

impl RankReceiver {
    /// Waits for the next message; `None` when none came within `patience` (a millisecond at least).
    ///
    /// # Errors
    /// [`WireError::Closed`] when the front end is gone, others when it broke the wire's rules; the rank is to end.
    pub fn receive(&mut self, patience: Duration) -> Result<Option<FrontToRank>, WireError> {
        if let Some(message) = self.lines.message()? {
            return Ok(Some(message));
        }
        self.stream.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).map_err(broken)?;
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
