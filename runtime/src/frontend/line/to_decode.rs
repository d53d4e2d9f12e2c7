//! Prefill's end of the line: one decode deployment at a time is attached.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::{Line, LineError, LineTerms};
use crate::frontend::{Desk, Pairing, Standing};
use crate::supervisor::say;
use crate::wire::{Attachment, LEAST_WORD_INTERVAL, LONGEST_SILENCE, Leg, Room, ToDecode, ToPrefill};
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
    /// Says why prefill cannot be tied to a decode deployment in an epoch, if so, and which epoch would be taken. An epoch is taken again
    /// from the deployment that had it last: the line alone may have broken.
    fn check(&self, deployment: u64, epoch: Epoch) -> Result<(), (String, Option<Epoch>)> {
        if self.attached.values().any(|other| *other != deployment) {
            let why = "another decode deployment is attached: stop it first, or start a prefill for each";
            return Err((why.into(), None));
        }
        match self.last {
            Some((of, last)) if epoch < last || (epoch == last && of != deployment) => {
                let why = format!("epoch {} is over, since another decode deployment was attached", epoch.0);
                Err((why, Some(Epoch(last.0 + 1))))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Ties prefill to a decode deployment.
    fn tie(&mut self, deployment: u64, epoch: Epoch) -> u64 {
        self.last = Some((deployment, epoch));
        self.count += 1;
        self.attached.insert(self.count, deployment);
        self.count
    }
}

/// A decode deployment that is attached.
struct Guest {
    tie: u64,
    /// The prefill group's epoch, with which the line ends.
    epoch: Epoch,
    /// What a prefill rank can hold.
    room: Room,
    /// The decode group's epoch.
    theirs: Epoch,
}

impl Guest {
    /// Whether a leg is of its epoch, and its tokens are tokens that fit.
    fn may_want(&self, leg: Leg, tokens: &[u32], vocabulary: u32) -> bool {
        let fits = (1..=self.room.context as usize).contains(&tokens.len());
        leg.epoch == self.theirs && fits && tokens.iter().all(|token| *token < vocabulary)
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
        // In one go: who drips it would keep a place from those who say it.
        let first = timeout(LONGEST_SILENCE, line.hear()).await;
        let Ok(Ok(ToPrefill::Attach(theirs))) = first else { return };
        match self.admit(&theirs) {
            Ok((tie, room, epoch)) => {
                say(&format!("lockstep: a decode deployment is attached, in its epoch {}", theirs.epoch.0));
                let guest = Guest { tie, epoch, room, theirs: theirs.epoch };
                let ended = self.talk(&mut line, &guest).await;
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
        // Until the group has taken it, whoever was tied before comes first.
        let mut ties = self.ties();
        ties.check(theirs.deployment, theirs.epoch)?;
        let taken = self.desk.admit(theirs.deployment, theirs.epoch);
        let (room, epoch) = taken.ok_or(("the prefill group is not ready".to_owned(), None))?;
        let tie = ties.tie(theirs.deployment, theirs.epoch);
        self.latest.send_replace(tie);
        Ok((tie, room, epoch))
    }

    async fn talk(&self, line: &mut Line, guest: &Guest) -> LineError {
        let &Guest { tie, epoch, room, .. } = guest;
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
                    Ok(word) => if let Err(error) = self.take(word, guest) { return error },
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

    fn take(&self, word: ToPrefill, guest: &Guest) -> Result<(), LineError> {
        match word {
            ToPrefill::Alive => {}
            ToPrefill::Attach(_) => return Err(LineError::OutOfPlace { peer: PEER, what: "attach" }),
            ToPrefill::Leg { leg, tokens, .. }
                if !guest.may_want(leg, &tokens, self.desk.plan().vocabulary) =>
            {
                return Err(LineError::OutOfPlace { peer: PEER, what: "a leg that no rank can compute" });
            }
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
    use lockstep_spec::ids::{Attempt, Generation, SlotIndex};

    #[test]
    fn guests_want_legs_of_their_epoch_that_can_be_computed() {
        let room = Room { pages: 4, page_size: 4, slots: 1, context: 3 };
        let guest = Guest { tie: 1, epoch: Epoch(1), room, theirs: Epoch(5) };
        let leg = |epoch| {
            let (slot, generation, attempt) = (SlotIndex(0), Generation(0), Attempt(0));
            Leg { epoch: Epoch(epoch), slot, generation, attempt }
        };
        assert!(guest.may_want(leg(5), &[0, 9, 3], 10));
        assert!(!guest.may_want(leg(4), &[0], 10));
        for tokens in [&[][..], &[10], &[0, 0, 0, 0]] {
            assert!(!guest.may_want(leg(5), tokens, 10), "{tokens:?}");
        }
    }

    #[test]
    fn ties_take_an_epoch_again_from_whom_it_is_and_no_epoch_that_is_over() {
        let tie = |ties: &mut Ties, deployment, epoch| {
            ties.check(deployment, Epoch(epoch)).unwrap();
            ties.tie(deployment, Epoch(epoch))
        };
        let mut ties = Ties::default();
        let first = tie(&mut ties, 1, 1);
        assert_eq!(ties.check(2, Epoch(9)).unwrap_err().1, None, "it is tied");
        let again = tie(&mut ties, 1, 1);
        assert!(again > first, "the line alone may have broken, and not known to have");
        tie(&mut ties, 1, 2);
        ties.attached.clear();
        assert_eq!(ties.check(2, Epoch(1)).unwrap_err().1, Some(Epoch(3)), "started anew, it has forgotten");
        assert_eq!(ties.check(2, Epoch(2)).unwrap_err().1, Some(Epoch(3)), "that name is another's");
        tie(&mut ties, 2, 3);
        ties.attached.clear();
        assert_eq!(ties.check(1, Epoch(2)).unwrap_err().1, Some(Epoch(4)), "whose legs were given up");
    }
}
