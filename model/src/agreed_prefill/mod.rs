//! The agreed level of the prefill group: independent of the number of ranks, as [`crate::agreed_level`] is for the decode group, and on the
//! same premises. What is forgotten besides: what pages that are kept hold (the N-rank worlds watch that), and who asks a group to leave.
//!
//! Reading order: this file (state and step), `votes` (which votes are possible), [`model`] (as a model, with its liveness).

pub mod model;
mod votes;

use crate::coverage;
use crate::explore::Notes;
use crate::prefill::setting::PrefillSetting;
use crate::rebase::Renaming;
use lockstep_spec::brief::Brief;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::ids::{Epoch, PageId, SlotIndex};
use lockstep_spec::invariant::{self, kv_before_run, no_write_after_free};
use lockstep_spec::poll::KvPoll;
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::action::Action;
use lockstep_spec::prefill::leg::{LegPhase, LegTenant, PrefillLeg};
use lockstep_spec::prefill::rules::Rules;
use lockstep_spec::role::{Decision, Inputs, Role};
use lockstep_spec::table::State;
use lockstep_spec::vote::Outcome;

/// What surrounds a slot, on the slowest rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Ghost {
    /// Whether the leg's page list has come to every rank.
    pub listed: bool,
    /// Pages that an outstanding write may read.
    pub reads: Vec<PageId>,
}

/// What one slot contributes to a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotChoice {
    /// The reduced poll.
    pub poll: KvPoll,
    /// Whether the last rank's write completes before the vote.
    pub completes: bool,
}

/// A leg that the leader briefs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked {
    /// The slot of the decode group.
    pub slot: SlotIndex,
    /// What it is to compute: an index into the setting's prompts.
    pub prompt: usize,
    /// Legs here that were accepted before it: it may have waited for its list behind later ones.
    pub older: usize,
}

/// One round: the vote as it may come out, and what the leader says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    /// Forwards that every rank has retired.
    pub retired: usize,
    /// Forwards that the leader has retired and judged.
    pub judged: usize,
    /// Copies that every rank has completed.
    pub copied: usize,
    /// By slot.
    pub slots: Vec<SlotChoice>,
    /// Legs that are ready, in the order of acceptance.
    pub asked: Vec<Asked>,
    /// The word on pausing.
    pub pause: Option<bool>,
}

/// A state of the agreed level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgreedPrefill {
    /// The agreed state.
    pub state: State<LegTenant>,
    /// By slot.
    pub ghosts: Vec<Ghost>,
    /// The property that does not hold, if any.
    pub violation: Option<&'static str>,
}

impl AgreedPrefill {
    /// Nothing but free slots and pages.
    #[must_use]
    pub fn genesis(setting: &PrefillSetting) -> Self {
        let slots = setting.configuration.slots as usize;
        let state = State::genesis(&setting.configuration);
        Self { ghosts: vec![Ghost::default(); slots], state, violation: None }
    }

    /// The state after a turn; notes what the decision covers.
    #[must_use]
    pub fn after<R: Rules>(&self, setting: &PrefillSetting, turn: &Turn, notes: &mut Notes) -> Self {
        let mut next = self.clone();
        if let Err(property) = next.take::<R>(setting, turn, notes) {
            next.violation = Some(property);
        }
        next
    }

    fn take<R: Rules>(
        &mut self,
        setting: &PrefillSetting,
        turn: &Turn,
        notes: &mut Notes,
    ) -> Result<(), &'static str> {
        self.environment_moves(turn);
        let outcome = self.vote::<R>(setting, turn);
        let brief = self.brief(setting, turn);
        let decision = self.decide::<R>(setting, outcome, brief)?;
        coverage::prefill::note_agreed(&self.state, &decision, notes);
        self.state = decision.state;
        decision.actions.iter().try_for_each(|action| self.perform(action))?;
        self.check(decision.flight.is_some())?;
        self.rebase();
        Ok(())
    }

    /// What decode peers and writes do before the vote is sampled.
    fn environment_moves(&mut self, turn: &Turn) {
        for ((slot, ghost), choice) in self.state.slots.iter().zip(&mut self.ghosts).zip(&turn.slots) {
            let waiting = slot.occupant.as_ref().is_some_and(|tenant| tenant.phase == LegPhase::Waiting);
            ghost.listed |= waiting && choice.poll == KvPoll::WaitingForInput;
            if choice.completes {
                ghost.reads.clear();
            }
        }
    }

    fn decide<R: Rules>(
        &self,
        setting: &PrefillSetting,
        outcome: Outcome,
        brief: Brief<PrefillLeg>,
    ) -> Result<Decision<LegTenant, Action>, &'static str> {
        let inputs = Inputs { epoch: Epoch(0), state: self.state.clone(), outcome, brief };
        Prefill::<R>::decide(&setting.configuration, inputs)
            .and_then(|decision| {
                invariant::check_decision(&setting.configuration, &self.state, &decision).map(|()| decision)
            })
            .map_err(|fault| invariant::violated_by(&fault))
    }

    fn perform(&mut self, action: &Action) -> Result<(), &'static str> {
        match action {
            Action::Write { slot, pages, .. } => {
                let computed = self.state.occupant(*slot).is_some_and(|tenant| {
                    tenant.launched == tenant.arrival.tokens && self.state.flights.naming(*slot) == 0
                });
                let ghost = &mut self.ghosts[slot.index()];
                ghost.reads = pages.clone();
                if computed { Ok(()) } else { Err(kv_before_run::PROPERTY.id) }
            }
            Action::Release { slot, .. } => {
                let ghost = std::mem::take(&mut self.ghosts[slot.index()]);
                if ghost.reads.is_empty() { Ok(()) } else { Err(no_write_after_free::PROPERTY.id) }
            }
            Action::End { .. } | Action::Copy(_) => Ok(()),
        }
    }

    /// What may still be read is held by its slot; what was just launched is listed on every rank, and all of it is on the devices.
    fn check(&self, launched: bool) -> Result<(), &'static str> {
        let mut ghosts = (0..).map(SlotIndex).zip(&self.ghosts);
        if !ghosts.all(|(slot, ghost)| no_write_after_free::holds_for(&self.state, slot, &ghost.reads)) {
            return Err(no_write_after_free::PROPERTY.id);
        }
        let newest = self.state.flights.queue.last().filter(|_| launched);
        let mut rows = newest.into_iter().flat_map(|flight| &flight.rows);
        if rows.all(|row| self.ghosts[row.slot.index()].listed && !self.state.host.loading(&row.pages)) {
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

impl Counters for AgreedPrefill {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.state.visit(visit);
    }
}
