//! Decode's end of the line: it attaches, says what is wanted, and attaches again whenever the line ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{Line, LineError, LineTerms};
use crate::bootstrap::find_line;
use crate::frontend::Desk;
use crate::supervisor::say;
use crate::wire::{LEAST_WORD_INTERVAL, LONGEST_SILENCE, Room, ToDecode, ToPrefill, WireError};
use lockstep_spec::ids::Epoch;

/// The pause after the first failure; each later one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Who is at the other end.
const PEER: &str = "prefill's front end";

/// A decode deployment's way to its prefill deployment.
pub struct LineToPrefill {
    desk: Arc<Desk>,
    /// Prefill's bootstrap server.
    prefill: SocketAddr,
    deployment: u64,
    terms: LineTerms,
}

/// A line over which nothing is said yet.
pub struct Fresh {
    line: Line,
    words: mpsc::Receiver<ToPrefill>,
}

impl LineToPrefill {
    /// The way of the decode deployment with this number to the prefill side whose bootstrap server is at `prefill`.
    pub fn new(desk: Arc<Desk>, prefill: SocketAddr, deployment: u64, terms: LineTerms) -> Self {
        Self { desk, prefill, deployment, terms }
    }

    /// Attaches for the first time, however long that takes, and settles in which epoch this deployment begins.
    pub async fn attach_first(&self) -> Fresh {
        let mut pauses = Pauses::new();
        loop {
            match self.attach().await {
                Ok(fresh) => return fresh,
                Err(LineError::Refused { next: Some(next), .. }) => self.desk.start_at(next),
                Err(error) => pauses.after(&error).await,
            }
        }
    }

    /// Keeps a line for as long as this deployment lives. It ends when there can be none any more.
    pub async fn keep(self, first: Fresh) -> LineError {
        let mut pauses = Pauses::new();
        let mut fresh = Some(first);
        loop {
            let ended = match fresh.take() {
                Some(fresh) => self.talk(fresh).await,
                None => match self.attach().await {
                    Ok(attached) => {
                        say("lockstep: attached to prefill again");
                        pauses = Pauses::new();
                        fresh = Some(attached);
                        continue;
                    }
                    Err(error) => error,
                },
            };
            match ended {
                LineError::Refused { next: Some(_), .. } => return ended,
                LineError::Over => {}
                LineError::Bootstrap(_)
                | LineError::OutOfPlace { .. }
                | LineError::Refused { next: None, .. }
                | LineError::Wire(_) => pauses.after(&ended).await,
            }
        }
    }

    /// One try.
    async fn attach(&self) -> Result<Fresh, LineError> {
        let epoch = self.desk.decode_epoch();
        let (line, room) = self.ask(epoch).await?;
        let words = self.desk.attach(epoch, room).ok_or(LineError::Over)?;
        Ok(Fresh { line, words })
    }

    async fn ask(&self, epoch: Epoch) -> Result<(Line, Room), LineError> {
        let address = find_line(self.prefill).await?;
        let broken = |source| WireError::Io { peer: PEER.into(), source };
        let connected = tokio::time::timeout(LONGEST_SILENCE, TcpStream::connect(address)).await;
        let stream =
            connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())).map_err(broken)?;
        let mut line = Line::new(stream, PEER);
        line.say(&ToPrefill::Attach(self.terms.attachment(self.deployment, epoch))).await?;
        match line.hear().await? {
            ToDecode::Attached(room) => Ok((line, room)),
            ToDecode::Refused { why, next } => Err(LineError::Refused { why, next }),
            ToDecode::Alive => Err(LineError::OutOfPlace { peer: PEER, what: "alive" }),
        }
    }

    /// Says what is to be said until the line ends, and has the desk know that it has.
    async fn talk(&self, fresh: Fresh) -> LineError {
        let ended = exchange(fresh).await;
        self.desk.detach();
        ended
    }
}

async fn exchange(Fresh { mut line, mut words }: Fresh) -> LineError {
    let mut ticks = interval(LEAST_WORD_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let word = tokio::select! {
            word = words.recv() => match word {
                Some(word) => word,
                None => return LineError::Over,
            },
            heard = line.hear() => match heard {
                Ok(ToDecode::Alive) => continue,
                Ok(ToDecode::Attached(_)) => return LineError::OutOfPlace { peer: PEER, what: "attached" },
                Ok(ToDecode::Refused { why, .. }) => return LineError::Refused { why, next: None },
                Err(error) => return error.into(),
            },
            _ = ticks.tick() => ToPrefill::Alive,
        };
        if let Err(error) = line.say(&word).await {
            return error.into();
        }
    }
}

/// Longer and longer pauses after failures, of which the first is told.
struct Pauses(Duration);

impl Pauses {
    fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    async fn after(&mut self, error: &LineError) {
        if self.0 == FIRST_PAUSE {
            say(&format!("lockstep: no line to prefill, and tries again: {error}"));
        }
        sleep(self.0).await;
        self.0 = self.0.saturating_mul(2).min(LONGEST_PAUSE);
    }
}
