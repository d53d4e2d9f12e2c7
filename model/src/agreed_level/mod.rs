//! The agreed level of the decode group: independent of the number of ranks. It forgets each rank's memory between rounds and lets the
//! reduced vote be any that the agreed phases and the fabric's ghosts allow; the decision is the shipped function itself.
//!
//! It holds the safety behaviour of every N at the agreed level, given that (i) `agreed-equal` is shown separately; (ii) local evidence is
//! truthful and stable between decisions; (iii) what the leader knows is correlated with the vote, as here; (iv) what may still be
//! written is kept as a ghost; (v) effects may lag by any number of rounds; (vi) no rank applies half a round. It says nothing of
//! `matched`, `no-skip`, `no-stuck`: those are the N-rank world's. Fairness here reads "each fact is eventually voted".
//!
//! Reading order: this file (state and step), [`votes`] (which votes are possible), [`model`] (as a model, with its liveness); [`mutants`] and
//! [`orders`] (one rule broken at a time).

pub mod model;
pub mod mutants;
pub mod orders;
mod votes;

pub(crate) use votes::{extended, retirements};

use crate::coverage;
use crate::decode::setting::DecodeSetting;
use crate::explore::Notes;
use crate::rebase::Renaming;
use lockstep_spec::brief::Brief;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::decode::Decode;
use lockstep_spec::decode::action::Action;
use lockstep_spec::decode::evidence::Grant;
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::decode::request::Request;
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::ids::{Epoch, PageId, RequestId, SlotIndex};
use lockstep_spec::invariant::{self, kv_before_run, no_write_after_free};
use lockstep_spec::poll::KvPoll;
use lockstep_spec::role::{Decision, Inputs, Role};
use lockstep_spec::table::{Row, State};
use lockstep_spec::vote::Outcome;

/// What the fabric may still do to a slot's pages, on the slowest rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ghost {
    /// The grant.
    pub grant: Grant,
    /// The pages that it names.
    pub pages: Vec<PageId>,
    /// Whether KV is whole on every rank.
    pub whole: bool,
}

impl Ghost {
    const NONE: Self = Self { grant: Grant::None, pages: Vec::new(), whole: false };
}

/// What one slot contributes to a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotChoice {
    /// The reduced poll.
    pub poll: KvPoll,
    /// Whether the queued page list reaches the fabric before the vote.
    pub publishes: bool,
    /// Whether the last rank's fence completes before the vote.
    pub fences: bool,
    /// Whether the first tokens that the ranks were given differ.
    pub differs: bool,
}

/// A word of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// A request of this kind arrived.
    Arrival(usize),
    /// This request is aborted.
    Abort(RequestId),
}

/// One round: the vote as it may come out, and the leader's words.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    /// Forwards that every rank has retired.
    pub retired: usize,
    /// Forwards that the leader has retired and judged.
    pub judged: usize,
    /// Copies that every rank has made.
    pub copied: usize,
    /// By slot.
    pub slots: Vec<SlotChoice>,
    /// What the leader says beside its verdicts: requests in acceptance order, then aborts.
    pub words: Vec<Word>,
    /// The word on pausing.
    pub pause: Option<bool>,
    /// Whether some rank asks the group to leave.
    pub shutdown: bool,
}

/// A state of the agreed level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgreedLevel {
    /// The agreed state.
    pub state: State<Tenant>,
    /// By slot.
    pub ghosts: Vec<Ghost>,
    /// The property that does not hold, if any.
    pub violation: Option<&'static str>,
}

impl AgreedLevel {
    /// Nothing but free slots and pages.
    #[must_use]
    pub fn genesis(setting: &DecodeSetting) -> Self {
        let state = State::genesis(&setting.configuration);
        Self { ghosts: vec![Ghost::NONE; setting.slots()], state, violation: None }
    }

    /// The state after a turn.
    #[must_use]
    pub fn after<R: Rules>(&self, setting: &DecodeSetting, turn: &Turn) -> Self {
        self.after_noted::<R>(setting, turn, &mut Notes::default())
    }

    /// The state after a turn; notes what the decision covers.
    #[must_use]
    pub fn after_noted<R: Rules>(&self, setting: &DecodeSetting, turn: &Turn, notes: &mut Notes) -> Self {
        let mut next = self.clone();
        if let Err(property) = next.take::<R>(setting, turn, notes) {
            next.violation = Some(property);
        }
        next
    }

    fn take<R: Rules>(
        &mut self,
        setting: &DecodeSetting,
        turn: &Turn,
        notes: &mut Notes,
    ) -> Result<(), &'static str> {
        self.environment_moves(turn);
        let (outcome, brief) = self.vote::<R>(setting, turn);
        let decision = self.decide::<R>(setting, outcome, brief)?;
        coverage::decode::note_agreed(&self.state, &decision, notes);
        self.state = decision.state;
        decision.actions.iter().try_for_each(|action| self.perform(action))?;
        self.check(decision.flight.is_some())?;
        self.rebase();
        Ok(())
    }

    /// What the fabric does before the vote is sampled.
    fn environment_moves(&mut self, turn: &Turn) {
        for (ghost, choice) in self.ghosts.iter_mut().zip(&turn.slots) {
            if choice.publishes && ghost.grant == Grant::Queued {
                ghost.grant = Grant::Published;
            }
            if choice.fences && matches!(ghost.grant, Grant::Cancelling | Grant::Revoking) {
                *ghost = Ghost { whole: ghost.whole, ..Ghost::NONE };
            }
            if choice.poll == KvPoll::Success && ghost.grant == Grant::Published {
                ghost.whole = true;
            }
        }
    }

    fn decide<R: Rules>(
        &self,
        setting: &DecodeSetting,
        outcome: Outcome,
        brief: Brief<Request>,
    ) -> Result<Decision<Tenant, Action>, &'static str> {
        let inputs = Inputs { epoch: Epoch(0), state: self.state.clone(), outcome, brief };
        Decode::<R>::decide(&setting.configuration, inputs)
            .and_then(|decision| {
                invariant::check_decision(&setting.configuration, &self.state, &decision).map(|()| decision)
            })
            .map_err(|fault| invariant::violated_by(&fault))
    }

    fn perform(&mut self, action: &Action) -> Result<(), &'static str> {
        match action {
            Action::Publish { leg, pages } => {
                let ghost = &mut self.ghosts[leg.slot.index()];
                if ghost.grant != Grant::None {
                    return Err(no_write_after_free::PROPERTY.id);
                }
                *ghost = Ghost { grant: Grant::Queued, pages: pages.clone(), whole: false };
            }
            Action::EndAttempt { leg } => {
                let ghost = &mut self.ghosts[leg.slot.index()];
                ghost.grant = match ghost.grant {
                    Grant::Queued => Grant::Cancelling,
                    Grant::Published => Grant::Revoking,
                    kept @ (Grant::None | Grant::Cancelling | Grant::Revoking) => kept,
                };
            }
            Action::Handshake { leg, .. } | Action::Release { leg } => {
                self.ghosts[leg.slot.index()].whole = false;
            }
            Action::Accept { .. } | Action::End { .. } | Action::Copy(_) => {}
        }
        Ok(())
    }

    /// What may still be written or copied is held; what was just launched has its KV whole and here, and no remote write can reach it.
    fn check(&self, launched: bool) -> Result<(), &'static str> {
        let mut ghosts = (0..).map(SlotIndex).zip(&self.ghosts);
        let held = self.state.held();
        let mut copied = self.state.host.copies().iter().map(|copy| copy.page);
        if !ghosts.all(|(slot, ghost)| no_write_after_free::holds_for(&self.state, slot, &ghost.pages))
            || !copied.all(|page| held.contains(&page))
        {
            return Err(no_write_after_free::PROPERTY.id);
        }
        let newest = self.state.flights.queue.last().filter(|_| launched);
        let mut rows = newest.into_iter().flat_map(|flight| &flight.rows);
        let ready = |ghost: &Ghost| ghost.whole && ghost.grant == Grant::None;
        let here = |row: &Row| !self.state.host.loading(&row.pages);
        if rows.all(|row| ready(&self.ghosts[row.slot.index()]) && here(row)) {
            Ok(())
        } else {
            Err(kv_before_run::PROPERTY.id)
        }
    }

    fn rebase(&mut self) {
        let mut renaming = Renaming::default();
        renaming.collect(self);
        renaming.rename(self);
    }
}

impl Counters for AgreedLevel {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.state.visit(visit);
    }
}
