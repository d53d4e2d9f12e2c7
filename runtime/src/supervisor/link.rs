//! One rank's control connection: who is there, then messages both ways until either end is done. How a rank of a launcher says who it is,
//! is in `recruit`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::frontend::{Desk, GroupFault};
use crate::wire::{
    FRONT_LINE_BYTES, FrontToRank, LineReader, RANK_LINE_BYTES, RankName, RankToFront, Seat, WireError,
    encode,
};

/// Longest wait for the hello of a new connection.
pub(crate) const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// Longest wait for a rank to take a line.
const WRITE_DEADLINE: Duration = Duration::from_secs(5);

/// Time left for reading once a connection takes no more writes.
const LAST_WORDS_DEADLINE: Duration = Duration::from_millis(500);

/// Bytes taken from the socket at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Why a connection is over.
#[derive(Debug, Error)]
pub(crate) enum LinkEnd {
    /// The supervisor ended it: the rank had no time left.
    #[error("{0} was cut off")]
    Cut(RankName),
    /// A rank ended while it waited for an epoch.
    #[error("waits no more: {0}")]
    Deserted(String),
    /// The rank said or did what ends its group.
    #[error(transparent)]
    Fault(#[from] GroupFault),
    /// A rank that waited was told to go; what it was told is told elsewhere.
    #[error("sent away")]
    SentAway,
    /// Somebody connected who is no rank of this run.
    #[error("a stranger on the control socket was turned away: {0}")]
    Stranger(String),
    /// The rank was cut off: it left its messages unread until its outbox was full, or its process has ended.
    #[error("{0} takes no more messages")]
    Unreachable(RankName),
    /// The connection itself failed, or was closed.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// What a finished connection leaves behind: whose it was, if it came so far.
#[derive(Debug)]
pub(crate) struct LinkReport {
    pub(crate) seat: Option<Seat>,
    pub(crate) end: LinkEnd,
}

/// Serves one connection to its end.
pub(crate) async fn serve(desk: Arc<Desk>, stream: UnixStream) -> LinkReport {
    let process = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
    let (reader, writer) = stream.into_split();
    let mut inward = Inward::new(reader);
    let (seat, outbox) = match join(&desk, &mut inward, process).await {
        Ok(joined) => joined,
        Err(end) => return LinkReport { seat: None, end },
    };
    let end = tokio::select! {
        end = read_all(&desk, seat, inward) => end,
        end = write_all(seat.name, writer, outbox) => end,
    };
    LinkReport { seat: Some(seat), end }
}

async fn join<R: AsyncRead + Unpin>(
    desk: &Desk,
    inward: &mut Inward<R>,
    process: Option<u32>,
) -> Result<(Seat, mpsc::Receiver<FrontToRank>), LinkEnd> {
    let hello = timeout(HELLO_DEADLINE, inward.next()).await;
    let hello = hello.map_err(|_| LinkEnd::Stranger("no hello came in time".into()))?;
    let RankToFront::Hello { epoch, role, rank, pid } =
        hello.map_err(|error| LinkEnd::Stranger(error.to_string()))?
    else {
        return Err(LinkEnd::Stranger("its first message was no hello".into()));
    };
    let name = RankName { role, rank };
    let seat = Seat { epoch, name };
    let joined = (process == Some(pid)).then(|| desk.join(seat, pid)).flatten();
    let stranger = || format!("it calls itself {name} of epoch {}, pid {pid}, but is not", epoch.0);
    let outbox = joined.ok_or_else(|| LinkEnd::Stranger(stranger()))?;
    inward.rename(name);
    Ok((seat, outbox))
}

/// Hands on what a rank says, until it has said its last.
pub(crate) async fn read_all<R: AsyncRead + Unpin>(
    desk: &Desk,
    seat: Seat,
    mut inward: Inward<R>,
) -> LinkEnd {
    loop {
        match inward.next().await {
            Ok(message) => match desk.hear(seat, message) {
                Ok(()) => {}
                Err(fault) => return fault.into(),
            },
            Err(error) => return error.into(),
        }
    }
}

/// Tells a rank what is put into its outbox, until that is closed.
pub(crate) async fn write_all<W: AsyncWrite + Unpin>(
    rank: RankName,
    mut writer: W,
    mut outbox: mpsc::Receiver<FrontToRank>,
) -> LinkEnd {
    let peer = rank.to_string();
    while let Some(message) = outbox.recv().await {
        if let Err(error) = write(&mut writer, &peer, &message).await {
            // A rank that has just closed may have left its last words, which are still being read.
            tokio::time::sleep(LAST_WORDS_DEADLINE).await;
            return error.into();
        }
    }
    tokio::time::sleep(LAST_WORDS_DEADLINE).await;
    LinkEnd::Unreachable(rank)
}

/// Writes one line.
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    peer: &str,
    message: &impl Serialize,
) -> Result<(), WireError> {
    let line = encode(message, peer, FRONT_LINE_BYTES)?;
    let written = timeout(WRITE_DEADLINE, writer.write_all(&line)).await;
    written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|source| broken(peer, source))
}

/// A peer that closes with messages unread resets the connection; that is a close like any other.
fn broken(peer: &str, source: io::Error) -> WireError {
    let peer = peer.to_owned();
    match matches!(source.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
        true => WireError::Closed { peer },
        false => WireError::Io { peer, source },
    }
}

/// The receiving half of a connection.
pub(crate) struct Inward<R> {
    reader: R,
    lines: LineReader,
}

impl<R: AsyncRead + Unpin> Inward<R> {
    /// That of somebody who has not said who it is.
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, lines: LineReader::new("a new control connection", RANK_LINE_BYTES) }
    }

    /// Notes who it is, for messages.
    pub(crate) fn rename(&mut self, rank: RankName) {
        self.lines.rename(rank.to_string());
    }

    /// Waits for the next message. Without a deadline: a rank that is silent for too long is the supervisor's to notice.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<T, WireError> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            if let Some(message) = self.lines.message()? {
                return Ok(message);
            }
            match self.reader.read(&mut chunk).await {
                Ok(0) => return Err(WireError::Closed { peer: self.lines.peer().into() }),
                Ok(length) => self.lines.push(&chunk[..length]),
                Err(source) => return Err(broken(self.lines.peer(), source)),
            }
        }
    }
}
