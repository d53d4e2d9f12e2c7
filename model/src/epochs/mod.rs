//! The decode group across epochs: ranks crash between any two steps, the group is formed again, and streams go on.
//!
//! ```text
//!             ┌───────────── one epoch: a World of N real machines ─────────────┐
//!  clients ─▶ front end ── submits, aborts ─▶ leader ── says tokens, ends, legs ─▶ its line ─▶ front end ─▶ clients
//!             (journal)                                      │ a rank crashes      may be cut off, or late
//!                 ▲                                          ▼
//!                 └── raises the epoch, reads the journal ── all ranks are gone
//! ```
//! When a rank of the prefill group crashes instead, the front end raises the epoch and dismisses this group, which lives on for a while. When
//! the server stops, ranks are asked to leave; a crash meanwhile ends all streams, and no epoch follows.
//!
//! The front end holds the [`Journal`](lockstep_spec::journal::Journal) that the runtime executes. A rank that wrongly believes another
//! one dead gives up as if it had crashed itself, and counts as such.
//!
//! Assumptions. Before the next group forms, every process of the last one is gone, and its memory with it: its grants, posted writes and
//! forwards have nothing to land in. What a leader said is heard in order, and up to some point: the rest of a line may be lost once the
//! epoch is over. What the front end says reaches the leader in order and at once; it waits there until the leader's next vote.
//!
//! Reductions, beside those of [`crate::world`]:
//! * *doomed groups*: once no collective can complete any more, survivors are taken as dead. All that they could still say is the end of
//!   a request that was given up before it was briefed, and the end of the epoch says that as well.
//! * *two epochs late*: words of the epoch before the last are lost. Words that are late by one epoch change nothing; nor do these.
//! * *accepted at once*: between two moments in which all ranks are between rounds, one request more is accepted than may be open.
//!
//! Reading order: [`setting`], [`front_end`], [`surroundings`], [`Epochs`] here, then [`model`]; [`mutants`] and [`witnesses`].

pub mod front_end;
pub mod model;
pub mod mutants;
pub mod setting;
pub mod surroundings;
pub mod witnesses;

use crate::decode::DecodeFact;
use crate::epochs::front_end::{Conduct, FrontEnd};
use crate::epochs::setting::EpochsSetting;
use crate::epochs::surroundings::Lasting;
use crate::explore::Notes;
use crate::traces;
use crate::world::{self, Environment, World};
use lockstep_spec::decode::DecodeMachine;
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::ids::{Epoch, RankIndex, RequestId};
use lockstep_spec::machine::Fact;
use lockstep_spec::program::Event;
use std::sync::Arc;

/// One step across epochs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A step of the current group.
    Group(world::Action<DecodeFact>),
    /// A request of the kind with this index is accepted.
    Accept(usize),
    /// A client leaves.
    Leave(RequestId),
    /// The front end hears the next of what the leader of this epoch said.
    Hear(Epoch),
    /// The rest of what the leader of this epoch said is lost.
    Lose(Epoch),
    /// A rank crashes, or gives up because it believes that another one has.
    Crash(usize),
    /// A rank of the prefill group crashes, and the supervisor sees it.
    LosePeer,
    /// The server is to stop.
    Stop,
    /// A deadline passes or an exit is seen, or all have left; every rank is ended, and the front end's epoch with them.
    EndEpoch,
    /// The next group forms and is told what is open.
    BeginEpoch,
}

/// A state across epochs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Epochs<R: Rules, C: Conduct> {
    /// The current group, and what surrounds it. Between epochs it has no ranks.
    pub world: World<Lasting<R, C>>,
    /// Ranks that crashed.
    pub crashes: u32,
    /// Requests accepted since all ranks were between rounds.
    accepted: usize,
}

impl<R: Rules, C: Conduct> Epochs<R, C> {
    /// The first group has formed.
    #[must_use]
    pub fn genesis(setting: &EpochsSetting) -> Self {
        Self { world: World::genesis(setting), crashes: 0, accepted: 0 }
    }

    /// Whether a group exists.
    #[must_use]
    pub fn has_group(&self) -> bool {
        !self.world.group.ranks.is_empty()
    }

    /// Whether the group has this rank, and it lives.
    #[must_use]
    pub fn has_living(&self, rank: usize) -> bool {
        rank < self.world.group.ranks.len() && self.world.group.lives(rank)
    }

    /// Steps that may come next.
    pub fn steps(&self, setting: &EpochsSetting, steps: &mut Vec<Step>) {
        if self.world.violation.is_some() {
            return;
        }
        if self.has_group() {
            self.group_steps(setting, steps);
        } else if !self.world.environment.front_end.stops {
            steps.push(Step::BeginEpoch);
        }
        self.front_end_steps(setting, steps);
    }

    fn group_steps(&self, setting: &EpochsSetting, steps: &mut Vec<Step>) {
        let mut actions = Vec::new();
        self.world.actions(setting, &mut actions);
        steps.extend(actions.into_iter().map(Step::Group));
        let group = &self.world.group;
        let FrontEnd { stops, dismisses, .. } = self.world.environment.front_end;
        if self.crashes < setting.crashes {
            let living = (0..group.ranks.len()).filter(|rank| group.lives(*rank));
            steps.extend(living.map(Step::Crash));
            steps.extend((setting.dismissals && !dismisses).then_some(Step::LosePeer));
        }
        let lost = setting.noticed && (dismisses || !group.is_whole());
        if lost || (stops && self.has_left()) {
            steps.push(Step::EndEpoch);
        }
    }

    /// Whether every rank has left in order.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.has_group() && self.world.group.ranks.iter().all(Lasting::<R, C>::left)
    }

    /// Whether the server has stopped and nothing is left of the groups.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let front_end = &self.world.environment.front_end;
        front_end.stops && !self.has_group() && front_end.lines.is_empty()
    }

    /// Whether no collective can complete on a living rank any more: one that died has not entered it.
    fn is_doomed(&self) -> bool {
        let group = &self.world.group;
        let mut ranks = 0..group.ranks.len();
        let completes = ranks.clone().any(|rank| group.lives(rank) && group.takes(rank));
        !completes && ranks.any(|rank| !group.lives(rank) && !group.control.has_entered(rank))
    }

    fn front_end_steps(&self, setting: &EpochsSetting, steps: &mut Vec<Step>) {
        let front_end = &self.world.environment.front_end;
        let accepts = !front_end.stops && self.accepted <= setting.open;
        if accepts && front_end.journal.open().len() < setting.open {
            steps.extend((0..setting.group(front_end.epoch).kinds.len()).map(Step::Accept));
        }
        steps.extend((setting.stops && !front_end.stops).then_some(Step::Stop));
        if setting.leaves {
            let staying = front_end.clients.iter().filter(|(_, guest)| !guest.left);
            steps.extend(staying.map(|(request, _)| Step::Leave(*request)));
        }
        for epoch in front_end.lines.keys().copied() {
            steps.push(Step::Hear(epoch));
            if epoch < front_end.epoch {
                steps.push(Step::Lose(epoch));
            }
        }
    }

    /// The state after a step.
    #[must_use]
    pub fn after(&self, setting: &EpochsSetting, step: &Step) -> Self {
        self.after_noted(setting, step, &mut Notes::default())
    }

    /// The state after a step; notes what it covers.
    #[must_use]
    pub fn after_noted(&self, setting: &EpochsSetting, step: &Step, notes: &mut Notes) -> Self {
        let mut next = self.clone();
        next.take_as_counted(setting, step, notes);
        if next.world.violation.is_none() && next.world.between_rounds() {
            next.world.rebase();
        }
        next
    }

    /// Takes a step and leaves the counters as the ranks count them; notes what it covers. A group that is doomed and will be ended is taken
    /// as dead: states that differ in nothing that matters are one.
    pub fn take_as_counted(&mut self, setting: &EpochsSetting, step: &Step, notes: &mut Notes) {
        if let Err(property) = self.take(setting, step, notes) {
            self.world.violation = Some(property);
            return;
        }
        if self.world.between_rounds() {
            self.accepted = 0;
        }
        if setting.noticed && self.is_doomed() {
            let blank = self.world.environment.form(setting);
            self.world.regroup(blank.clone());
            blank.into_iter().enumerate().for_each(|(rank, blank)| self.world.group.kill(rank, blank));
        }
    }

    /// The traces that the ranks of the current group write to which this happens; none where there is no group.
    pub(crate) fn written(&mut self, setting: &EpochsSetting) -> Vec<String> {
        let configuration = &setting.group(self.world.environment.front_end.epoch).configuration;
        let happened = self.world.group.take_log();
        if self.has_group() { traces::written(configuration, happened) } else { Vec::new() }
    }

    fn take(&mut self, setting: &EpochsSetting, step: &Step, notes: &mut Notes) -> Result<(), &'static str> {
        let front_end = &mut self.world.environment.front_end;
        match step {
            Step::Group(action) => self.world.take_as_counted(setting, action, notes),
            Step::Accept(kind) => {
                let request = front_end.accept(setting.group(front_end.epoch).kinds[*kind]);
                self.accepted += 1;
                self.tell_leader(setting, Fact::Submitted(request))
            }
            Step::Leave(request) => {
                let group = !self.world.group.ranks.is_empty() && !front_end.dismisses;
                if front_end.leave(*request, group) {
                    return self.tell_leader(setting, Fact::AbortWanted(*request));
                }
                Ok(())
            }
            Step::Hear(epoch) => match front_end.hear(*epoch)? {
                Some(request) => self.tell_leader(setting, Fact::Submitted(request)),
                None => Ok(()),
            },
            Step::Lose(epoch) => {
                front_end.lose(*epoch);
                Ok(())
            }
            Step::Crash(rank) => {
                self.crash(setting, *rank);
                Ok(())
            }
            Step::LosePeer => {
                self.crashes += 1;
                front_end.dismiss()
            }
            Step::Stop => front_end.stop(!self.world.group.ranks.is_empty()),
            Step::EndEpoch => {
                front_end.end_epoch()?;
                self.world.environment.form(setting);
                self.world.regroup(Vec::new());
                Ok(())
            }
            Step::BeginEpoch => self.begin_epoch(setting),
        }
    }

    /// Says something to the leader; it is lost if there is none, or its epoch is over.
    fn tell_leader(&mut self, setting: &EpochsSetting, fact: DecodeFact) -> Result<(), &'static str> {
        if self.has_group() && self.world.group.lives(0) && !self.world.environment.front_end.dismisses {
            self.world.step(setting, 0, Event::Fact(fact))?;
        }
        Ok(())
    }

    fn crash(&mut self, setting: &EpochsSetting, rank: usize) {
        let configuration = &setting.group(self.world.environment.front_end.epoch).configuration;
        let index = RankIndex(u32::try_from(rank).unwrap_or_default());
        if let Ok(blank) = DecodeMachine::new(Arc::clone(configuration), index) {
            self.world.group.kill(rank, blank);
            self.crashes += 1;
        }
    }

    fn begin_epoch(&mut self, setting: &EpochsSetting) -> Result<(), &'static str> {
        let ranks = self.world.environment.form(setting);
        self.world.regroup(ranks);
        let open = self.world.environment.front_end.begin_epoch();
        open.into_iter().try_for_each(|request| self.tell_leader(setting, Fact::Submitted(request)))
    }
}
