//! What reaches the rank loop, from whichever thread, in one queue.
//!
//! The queue is unbounded, and bounded by what feeds it: a report for each forward in flight, each copy under way and each leg in a slot, and the front end's
//! own bound on requests. A bound of its own would let a sink wait for the loop while the loop waits for the sink's lock.

use super::error::RankError;
use super::recorder::Recorder;
use crate::fabric::PrefillInbound;
use crate::wire::{FrontToRank, WireError};
use lockstep_spec::agreed::Words;
use lockstep_spec::decode::evidence::LegFact;
use lockstep_spec::ids::{CopyId, ForwardId, Leg, TokenId};
use lockstep_spec::ticket::Ticket;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// One input of the rank loop.
#[derive(Debug)]
pub(super) enum Input {
    /// The front end said something.
    Front(FrontToRank),
    /// The connection to the front end ended.
    FrontGone(WireError),
    /// The decode side's fabric or device saw something of a leg.
    Leg(Leg, LegFact),
    /// The prefill side's fabric saw something.
    Prefill(PrefillInbound),
    /// A write of a leg failed on the prefill side.
    WriteFailed(Leg),
    /// The device finished a forward.
    Retired {
        /// Which.
        forward: ForwardId,
        /// One token a row.
        tokens: Vec<TokenId>,
        /// Time on the device, in microseconds.
        micros: u64,
        /// Time for which the device had no forward before it, although requests were in decode, in microseconds.
        gap_micros: u64,
    },
    /// The device finished a copy between a page of its own and one of the host.
    Copied(CopyId),
    /// A vote in the device's queue came out so.
    Voted {
        /// Which.
        ticket: Ticket,
        /// What came out.
        payload: Words,
    },
    /// The device failed.
    DeviceFailed(RankError),
}

/// The sending end, for any thread. What is sent is recorded in the order in which it will be received.
#[derive(Clone)]
pub(super) struct Inbox {
    sender: Sender<Input>,
    recorder: Arc<Recorder>,
}

impl Inbox {
    /// Puts an input into the queue, behind all others.
    pub(super) fn send(&self, input: Input) -> Result<(), RankError> {
        self.recorder
            .while_seen(input, |input| self.sender.send(input))
            .map_err(|_| RankError::ThreadGone("rank loop"))
    }
}

/// The receiving end, for the rank loop.
pub(super) struct Inputs {
    receiver: Receiver<Input>,
    recorder: Arc<Recorder>,
}

impl Inputs {
    /// The queue's two ends.
    pub(super) fn new(recorder: &Arc<Recorder>) -> (Inbox, Self) {
        let (sender, receiver) = channel();
        let recorder = || Arc::clone(recorder);
        (Inbox { sender, recorder: recorder() }, Self { receiver, recorder: recorder() })
    }

    /// Where it is recorded what comes.
    pub(super) fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(&self.recorder)
    }

    /// The next input that is there already.
    pub(super) fn next(&self) -> Option<Input> {
        self.recorder.unless_drained(|| self.receiver.try_recv().ok())
    }

    /// The next input, waited for.
    pub(super) fn wait(&self, patience: Duration) -> Result<Option<Input>, RankError> {
        match self.receiver.recv_timeout(patience) {
            Ok(input) => {
                self.recorder.received();
                Ok(Some(input))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(RankError::ThreadGone("input queue")),
        }
    }
}
