//! Prefill's end of the line: one decode deployment at a time is attached.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{Line, LineError, LineTerms};
use crate::frontend::{Desk, Pairing, Standing};
use crate::supervisor::say;
use crate::wire::{Attachment, LEAST_WORD_INTERVAL, Room, ToDecode, ToPrefill};
use lockstep_spec::ids::Epoch;

/// Wait after a failed accept: the process is out of descriptors, and only time gives some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that may be there at once: one is attached, the others are refused.
const MOST_CALLERS: usize = 16;
/// Who is at the other end.
const PEER: &str = "decode's front end";

/// Where decode deployments attach.
pub struct LinesToDecode {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    desk: Arc<Desk>,
    pairing: Arc<Pairing>,
    terms: LineTerms,
    ties: Mutex<Ties>,
    /// Counts attachments: a line ends when a later one begins.
    latest: watch::Sender<u64>,
}

/// Who is attached, and which epochs have been.
#[derive(Debug, Default)]
struct Ties {
    attached: BTreeMap<u64, u64>,
    last: Option<(u64, Epoch)>,
    count: u64,
}

impl Ties {
    /// Ties prefill to a decode deployment in an epoch, or says why not, and which epoch would be taken. An epoch is taken again from the
    /// deployment that had it last: the line alone may have broken.
    fn tie(&mut self, deployment: u64, epoch: Epoch) -> Result<u64, (String, Option<Epoch>)> {
        if self.attached.values().any(|other| *other != deployment) {
            let why = "another decode deployment is attached: stop it first, or start a prefill for each";
            return Err((why.into(), None));
        }
        match self.last {
            Some((of, last)) if epoch < last || (epoch == last && of != deployment) => {
                let why = format!("epoch {} is over, since another decode deployment was attached", epoch.0);
                Err((why, Some(Epoch(last.0 + 1))))
            }
            Some(_) | None => {
                self.last = Some((deployment, epoch));
                self.count += 1;
                self.attached.insert(self.count, deployment);
                Ok(self.count)
            }
        }
    }
}

impl LinesToDecode {
    /// The place at `listener` where decode deployments of these terms attach to the desk's prefill group.
    pub fn new(listener: TcpListener, desk: Arc<Desk>, pairing: Arc<Pairing>, terms: LineTerms) -> Self {
        let (ties, latest) = (Mutex::default(), watch::Sender::new(0));
        Self { listener, shared: Arc::new(Shared { desk, pairing, terms, ties, latest }) }
    }

    /// Takes callers until it is dropped.
    pub async fn run(self) -> Infallible {
        let permits = Arc::new(Semaphore::new(MOST_CALLERS));
        let mut callers = JoinSet::new();
        loop {
            while callers.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
                    let shared = Arc::clone(&self.shared);
                    callers.spawn(async move {
                        shared.serve(stream).await;
                        drop(permit);
                    });
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

impl Shared {
    async fn serve(&self, stream: TcpStream) {
        let mut line = Line::new(stream, PEER);
        let Ok(ToPrefill::Attach(theirs)) = line.hear().await else { return };
        match self.admit(&theirs) {
            Ok((tie, room, epoch)) => {
                say(&format!("lockstep: a decode deployment is attached, in its epoch {}", theirs.epoch.0));
                let ended = self.talk(&mut line, (tie, epoch), room).await;
                self.ties().attached.remove(&tie);
                say(&format!("lockstep: the decode deployment is not attached any more: {ended}"));
            }
            Err((why, next)) => {
                // It comes again, if it is still there.
                line.say(&ToDecode::Refused { why, next }).await.ok();
            }
        }
    }

    /// Ties the group to a caller: what a rank can hold, and the group's epoch, with which the line ends.
    fn admit(&self, theirs: &Attachment) -> Result<(u64, Room, Epoch), (String, Option<Epoch>)> {
        if let Some(why) = self.terms.differs(theirs) {
            return Err((why, None));
        }
        let tie = self.ties().tie(theirs.deployment, theirs.epoch)?;
        match self.desk.admit(theirs.deployment, theirs.epoch) {
            Some((room, epoch)) => {
                self.latest.send_replace(tie);
                Ok((tie, room, epoch))
            }
            None => {
                self.ties().attached.remove(&tie);
                Err(("the prefill group is not ready".into(), None))
            }
        }
    }

    async fn talk(&self, line: &mut Line, (tie, epoch): (u64, Epoch), room: Room) -> LineError {
        let (mut standing, mut latest) = (self.desk.standing(), self.latest.subscribe());
        let mut ticks = interval(LEAST_WORD_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        if let Err(error) = line.say(&ToDecode::Attached(room)).await {
            return error.into();
        }
        loop {
            if *latest.borrow_and_update() != tie || !self.serves(&standing.borrow_and_update(), epoch) {
                return LineError::Over;
            }
            tokio::select! {
                heard = line.hear() => match heard {
                    Ok(word) => if let Err(error) = self.take(word) { return error },
                    Err(error) => return error.into(),
                },
                _ = ticks.tick() => if let Err(error) = line.say(&ToDecode::Alive).await { return error.into() },
                _ = standing.changed() => {}
                _ = latest.changed() => {}
            }
        }
    }

    /// Whether the prefill group of an epoch takes legs.
    fn serves(&self, standing: &Standing, epoch: Epoch) -> bool {
        matches!(standing, Standing::Ready(_) | Standing::Stopping) && self.desk.epoch() == epoch
    }

    fn take(&self, word: ToPrefill) -> Result<(), LineError> {
        match word {
            ToPrefill::Alive => {}
            ToPrefill::Attach(_) => return Err(LineError::OutOfPlace { peer: PEER, what: "attach" }),
            ToPrefill::Leg { leg, acceptance, tokens, draw } => {
                self.desk.compute(leg, acceptance, &(tokens, draw));
            }
            ToPrefill::Served { room } => self.pairing.served(room),
        }
        Ok(())
    }

    fn ties(&self) -> MutexGuard<'_, Ties> {
        self.ties.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_take_an_epoch_again_from_whom_it_is_and_no_epoch_that_is_over() {
        let mut ties = Ties::default();
        let first = ties.tie(1, Epoch(1)).unwrap();
        assert_eq!(ties.tie(2, Epoch(9)).unwrap_err().1, None, "it is tied");
        let again = ties.tie(1, Epoch(1)).unwrap();
        assert!(again > first, "the line alone may have broken, and not known to have");
        ties.tie(1, Epoch(2)).unwrap();
        ties.attached.clear();
        assert_eq!(ties.tie(2, Epoch(1)).unwrap_err().1, Some(Epoch(3)), "started anew, it has forgotten");
        assert_eq!(ties.tie(2, Epoch(2)).unwrap_err().1, Some(Epoch(3)), "that name is another's");
        ties.tie(2, Epoch(3)).unwrap();
        ties.attached.clear();
        assert_eq!(ties.tie(1, Epoch(2)).unwrap_err().1, Some(Epoch(4)), "whose legs were given up");
    }
}
