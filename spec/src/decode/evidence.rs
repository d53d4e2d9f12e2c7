//! What one decode rank saw of each slot, and how the raw facts fold into a vote. The driver feeds raw facts, never a ready-made poll;
//! nothing is read again after the reduction.

use crate::configuration::GroupConfiguration;
use crate::counters::{Counter, Counters};
use crate::decode::phase::{Phase, Tenant};
use crate::decode::rules::Rules;
use crate::ids::{Epoch, Leg, TokenId};
use crate::poll::KvPoll;
use crate::table::{Slot, State};
use crate::vote::SlotVote;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The row that prefill writes behind a leg's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MetadataRow {
    /// The leg that the writer believes in.
    pub echo: Leg,
    /// The token sampled after the last position written.
    pub token: TokenId,
    /// Whether the row and its pages match their checksums.
    pub sound: bool,
}

/// What reaches one decode rank about a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LegFact {
    /// The prefill side answered the handshake.
    HandshakeDone,
    /// The prefill side cannot be reached; retries are exhausted.
    HandshakeFailed,
    /// The page list was handed to the fabric: remote writes may begin.
    Published,
    /// All pages were written.
    PagesLanded,
    /// The metadata row was written.
    RowLanded(MetadataRow),
    /// The transfer broke.
    TransferFailed,
    /// No write of this leg can reach this rank any more.
    Fenced,
}

/// Handshake of a slot's current attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Handshake {
    /// None was asked for.
    None,
    /// Under way.
    Resolving,
    /// Done.
    Done,
    /// Failed for good.
    Failed,
}

/// The permission to write into a slot's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Grant {
    /// None: no remote write can reach the slot's pages.
    None,
    /// Decided, and queued for the fabric.
    Queued,
    /// The prefill side may write.
    Published,
    /// The attempt ended before the page list was handed over: being cancelled.
    Cancelling,
    /// The attempt ended after the prefill side might write: being revoked.
    Revoking,
}

/// What this rank received of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Receipt {
    /// Neither all pages nor the row.
    Nothing,
    /// All pages.
    Pages,
    /// The row, with its token.
    Row(TokenId),
    /// Pages and row.
    Whole(TokenId),
    /// It broke, and how.
    Broken(KvPoll),
}

/// What an attempt that ends leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A grant is to be revoked.
    Granted,
    /// A handshake is to be stopped.
    Shaking,
    /// Nothing.
    Nothing,
}

/// What one rank saw of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotEvidence {
    /// The handshake.
    pub handshake: Handshake,
    /// The grant.
    pub grant: Grant,
    /// The transfer.
    pub receipt: Receipt,
    /// Ticks since the handshake or the transfer began, up to the deadline.
    pub age_ticks: u32,
}

impl SlotEvidence {
    const UNSEEN: Self =
        Self { handshake: Handshake::None, grant: Grant::None, receipt: Receipt::Nothing, age_ticks: 0 };

    /// Starts the handshake of an attempt.
    pub(crate) fn begin_handshake(&mut self) {
        *self = Self { handshake: Handshake::Resolving, grant: self.grant, ..Self::UNSEEN };
    }

    /// Notes that the decision publishes the slot's pages.
    pub(crate) fn begin_transfer(&mut self) {
        self.grant = Grant::Queued;
        self.receipt = Receipt::Nothing;
        self.age_ticks = 0;
    }

    /// Notes that the decision ends the attempt.
    pub(crate) fn end_attempt(&mut self) -> Ended {
        let shaking = self.handshake != Handshake::None && self.grant == Grant::None;
        let granted = self.open();
        self.handshake = Handshake::None;
        self.grant = match self.grant {
            Grant::Queued => Grant::Cancelling,
            Grant::Published => Grant::Revoking,
            kept @ (Grant::None | Grant::Cancelling | Grant::Revoking) => kept,
        };
        match (granted, shaking) {
            (true, _) => Ended::Granted,
            (false, true) => Ended::Shaking,
            (false, false) => Ended::Nothing,
        }
    }

    /// Forgets an occupant that left.
    pub(crate) fn forget(&mut self) {
        *self = Self::UNSEEN;
    }

    fn take<R: Rules>(&mut self, fact: LegFact, leg: Leg) {
        match fact {
            LegFact::HandshakeDone => self.resolve(Handshake::Done),
            LegFact::HandshakeFailed => self.resolve(Handshake::Failed),
            LegFact::Published => {
                if self.grant == Grant::Queued {
                    self.grant = Grant::Published;
                }
            }
            LegFact::PagesLanded if self.open() => self.receive_pages(),
            LegFact::RowLanded(row) if self.open() => self.receive_row::<R>(row, leg),
            LegFact::TransferFailed if self.open() => self.break_with(KvPoll::TransferFailed),
            LegFact::PagesLanded | LegFact::RowLanded(_) | LegFact::TransferFailed => {}
            LegFact::Fenced => {
                if matches!(self.grant, Grant::Cancelling | Grant::Revoking) {
                    self.grant = Grant::None;
                }
            }
        }
    }

    /// Whether a transfer is under way: what lands after the attempt's end is nobody's.
    fn open(&self) -> bool {
        matches!(self.grant, Grant::Queued | Grant::Published)
    }

    fn resolve(&mut self, to: Handshake) {
        if self.handshake == Handshake::Resolving {
            self.handshake = to;
        }
    }

    fn receive_pages(&mut self) {
        self.receipt = match self.receipt {
            Receipt::Nothing => Receipt::Pages,
            Receipt::Row(token) => Receipt::Whole(token),
            kept @ (Receipt::Pages | Receipt::Whole(_) | Receipt::Broken(_)) => kept,
        };
    }

    fn receive_row<R: Rules>(&mut self, row: MetadataRow, leg: Leg) {
        if let Some(failure) = R::row_failure(&row, leg) {
            return self.break_with(failure);
        }
        self.receipt = match self.receipt {
            Receipt::Nothing => Receipt::Row(row.token),
            Receipt::Pages => Receipt::Whole(row.token),
            kept @ (Receipt::Row(_) | Receipt::Whole(_) | Receipt::Broken(_)) => kept,
        };
    }

    /// A whole receipt cannot be undone by what comes later: a vote that is posted early may be late, but never wrong.
    fn break_with(&mut self, poll: KvPoll) {
        self.receipt = match self.receipt {
            Receipt::Nothing | Receipt::Pages | Receipt::Row(_) => Receipt::Broken(poll),
            kept @ (Receipt::Whole(_) | Receipt::Broken(_)) => kept,
        };
    }

    /// The poll of a slot in `phase`: folded with every local fact that could spoil it.
    fn poll<R: Rules>(&self, phase: Phase, deadline_ticks: u32) -> KvPoll {
        let late = R::late(self.age_ticks, deadline_ticks);
        match phase {
            Phase::Bootstrapping | Phase::Retracted => match self.handshake {
                Handshake::Failed => KvPoll::HandshakeFailed,
                Handshake::Done => KvPoll::WaitingForInput,
                Handshake::None | Handshake::Resolving if late => KvPoll::DeadlinePassed,
                Handshake::None | Handshake::Resolving => KvPoll::Bootstrapping,
            },
            Phase::Handshaken => KvPoll::WaitingForInput,
            Phase::Transferring => match self.receipt {
                Receipt::Whole(_) => KvPoll::Success,
                Receipt::Broken(poll) => poll,
                Receipt::Nothing | Receipt::Pages | Receipt::Row(_) if late => KvPoll::DeadlinePassed,
                Receipt::Nothing | Receipt::Pages | Receipt::Row(_) => KvPoll::Transferring,
            },
            Phase::Ready
            | Phase::Running
            | Phase::Retracting
            | Phase::Stored
            | Phase::Restoring
            | Phase::Draining(_) => KvPoll::Success,
        }
    }

    fn first_token(&self, phase: Phase) -> Option<TokenId> {
        if let (Phase::Transferring, Receipt::Whole(token)) = (phase, self.receipt) {
            Some(token)
        } else {
            None
        }
    }

    /// Whether the clock of this slot runs.
    fn waits(&self, phase: Phase) -> bool {
        match phase {
            Phase::Bootstrapping | Phase::Retracted => self.handshake == Handshake::Resolving,
            Phase::Transferring => {
                matches!(self.receipt, Receipt::Nothing | Receipt::Pages | Receipt::Row(_))
            }
            Phase::Handshaken
            | Phase::Ready
            | Phase::Running
            | Phase::Retracting
            | Phase::Stored
            | Phase::Restoring
            | Phase::Draining(_) => false,
        }
    }
}

/// What one rank saw of all slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// By slot.
    pub slots: Vec<SlotEvidence>,
}

impl Evidence {
    pub(crate) fn new(configuration: &GroupConfiguration) -> Self {
        Self { slots: vec![SlotEvidence::UNSEEN; configuration.slots as usize] }
    }

    /// Takes a fact of a leg. Facts of another leg than the slot's current one are late, and change nothing.
    pub(crate) fn absorb<R: Rules>(&mut self, epoch: Epoch, state: &State<Tenant>, leg: Leg, fact: LegFact) {
        let current = state.leg(epoch, leg.slot).filter(|_| state.occupant(leg.slot).is_some());
        if let Some(evidence) = self.slots.get_mut(leg.slot.index())
            && (current == Some(leg) || R::takes_late_facts())
        {
            evidence.take::<R>(fact, leg);
        }
    }

    pub(crate) fn tick(&mut self, configuration: &GroupConfiguration, state: &State<Tenant>) {
        for (evidence, slot) in self.slots.iter_mut().zip(&state.slots) {
            let waits = slot.occupant.as_ref().is_some_and(|tenant| evidence.waits(tenant.phase));
            if waits && evidence.age_ticks < configuration.deadline_ticks {
                evidence.age_ticks += 1;
            }
        }
    }
}

impl SlotEvidence {
    /// This rank's vote on a slot.
    pub(crate) fn sample<R: Rules>(
        &self,
        configuration: &GroupConfiguration,
        slot: &Slot<Tenant>,
    ) -> SlotVote {
        let drained = R::drained(self.grant);
        match &slot.occupant {
            None => SlotVote { drained, ..SlotVote::NEUTRAL },
            Some(tenant) => SlotVote {
                poll: self.poll::<R>(tenant.phase, configuration.deadline_ticks),
                first_token: self.first_token(tenant.phase),
                drained,
            },
        }
    }
}

impl Counters for Evidence {
    fn visit(&mut self, _: &mut dyn FnMut(Counter, &mut u64)) {}
}
