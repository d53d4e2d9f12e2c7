//! What surrounds the group of one epoch: its fabric, which goes with it, and the front end, which stays.

use crate::decode::{DecodeFact, Surroundings};
use crate::epochs::front_end::{Conduct, FrontEnd};
use crate::epochs::setting::EpochsSetting;
use crate::explore::Notes;
use crate::world::{Completion, Environment, Interleaving, Standing};
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::decode::DecodeMachine;
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::ids::Epoch;
use lockstep_spec::machine::{Fact, Local};

/// Fabric of the current group, and front end of all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lasting<R, C> {
    /// What surrounds the current group alone.
    pub fabric: Surroundings<R>,
    /// What outlives it.
    pub front_end: FrontEnd<C>,
}

impl<R: Rules, C: Conduct> Lasting<R, C> {
    /// A group that has just formed for the front end's epoch, and its surroundings in the place of the last one's.
    pub fn form(&mut self, setting: &EpochsSetting) -> Vec<DecodeMachine<R>> {
        let (ranks, fabric) = Surroundings::genesis(setting.group(self.front_end.epoch));
        self.fabric = fabric;
        ranks
    }
}

impl<R: Rules, C: Conduct> Environment for Lasting<R, C> {
    type Program = DecodeMachine<R>;
    type Setting = EpochsSetting;

    fn genesis(setting: &EpochsSetting) -> (Vec<DecodeMachine<R>>, Self) {
        let epoch = Epoch(0);
        let (ranks, fabric) = Surroundings::genesis(setting.group(epoch));
        (ranks, Self { fabric, front_end: FrontEnd::new(epoch) })
    }

    fn interleaving(setting: &EpochsSetting) -> Interleaving {
        setting.group(Epoch(0)).interleaving
    }

    fn completion(setting: &EpochsSetting) -> Completion {
        setting.group(Epoch(0)).completion
    }

    /// What the fabric says, and the word to leave; what else the front end says is a step of its own.
    fn facts(
        &self,
        setting: &EpochsSetting,
        ranks: &[DecodeMachine<R>],
        rank: usize,
        facts: &mut Vec<DecodeFact>,
    ) {
        self.fabric.fabric_facts(setting.group(self.front_end.epoch), &ranks[rank], rank, facts);
        facts.extend(self.front_end.asks(rank).then_some(Fact::ShutdownWanted));
    }

    fn delivered(&mut self, setting: &EpochsSetting, rank: usize, fact: &DecodeFact) {
        match fact {
            Fact::ShutdownWanted => self.front_end.asked(rank),
            // Its clients outlive this group.
            Fact::Submitted(_) => {}
            Fact::Role(_)
            | Fact::Retired { .. }
            | Fact::Copied(_)
            | Fact::AbortWanted(_)
            | Fact::PauseWanted(_)
            | Fact::Broken
            | Fact::Tick => self.fabric.delivered(setting.group(self.front_end.epoch), rank, fact),
        }
    }

    fn completed(&mut self, setting: &EpochsSetting, ranks: &[DecodeMachine<R>], rank: usize) -> DecodeFact {
        self.fabric.completed(setting.group(self.front_end.epoch), ranks, rank)
    }

    fn perform(
        &mut self,
        setting: &EpochsSetting,
        ranks: &[DecodeMachine<R>],
        rank: usize,
        local: &Local<Do>,
    ) -> Result<(), &'static str> {
        if let (0, Local::Role(done)) = (rank, local) {
            self.front_end.say(done);
        }
        if matches!(local, Local::Role(Do::Emit { .. } | Do::End { .. })) {
            return Ok(());
        }
        self.fabric.perform(setting.group(self.front_end.epoch), ranks, rank, local)
    }

    fn check(&self, setting: &EpochsSetting, ranks: &[DecodeMachine<R>]) -> Result<(), &'static str> {
        self.fabric.check(setting.group(self.front_end.epoch), ranks)
    }

    fn agreed_digest(rank: &DecodeMachine<R>) -> u64 {
        Surroundings::<R>::agreed_digest(rank)
    }

    fn outside(rank: &DecodeMachine<R>) -> bool {
        Surroundings::<R>::outside(rank)
    }

    fn left(rank: &DecodeMachine<R>) -> bool {
        Surroundings::<R>::left(rank)
    }

    /// The group rests, no request is open, and everything said is heard; or the server has stopped, and no request is open.
    fn rested(&self, setting: &EpochsSetting, ranks: &[DecodeMachine<R>]) -> bool {
        let front_end = &self.front_end;
        let heard = !front_end.lines.contains_key(&front_end.epoch);
        let rests = self.fabric.rested(setting.group(front_end.epoch), ranks);
        let over = if ranks.is_empty() { front_end.stops } else { rests && heard };
        over && front_end.journal.open().is_empty()
    }

    fn benign(fact: &DecodeFact) -> bool {
        Surroundings::<R>::benign(fact)
    }

    fn points() -> Vec<String> {
        Surroundings::<R>::points()
    }

    fn note_fact(fact: &DecodeFact, notes: &mut Notes) {
        Surroundings::<R>::note_fact(fact, notes);
    }

    fn standings(rank: &DecodeMachine<R>) -> Vec<Standing> {
        Surroundings::<R>::standings(rank)
    }

    fn note_decision(before: &[Standing], rank: &DecodeMachine<R>, locals: &[Local<Do>], notes: &mut Notes) {
        Surroundings::<R>::note_decision(before, rank, locals, notes);
    }

    fn describe(&self, rank: &DecodeMachine<R>, index: usize) -> Vec<(String, String)> {
        self.fabric.describe(rank, index)
    }
}

impl<R: Rules, C: Conduct> Counters for Lasting<R, C> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.fabric.visit(visit);
        self.front_end.visit(visit);
    }
}
