//! Data-parallel engines that share their experts: each has requests of its own, and every step needs all engines.
//!
//! An engine without requests therefore runs *dummy batches* until all are idle. Then the *wave* is over and all pause; a request that
//! finds its engine paused starts the next wave, by a message to the others. Two rules that real engines had:
//! * `OwnQueue`: an engine steps iff it has requests. The others wait for it in the step for ever.
//! * `NoRestart`: dummy batches, but nobody looks again when a wave is over. A request that came after its engine's last vote and
//!   before the outcome, when the engine still ran, waits in a paused group.

use std::collections::BTreeSet;

use lockstep_model::protocol::{self, prelude::*};

/// The one collective: a forward, with the vote whether anybody has a request left after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Step;

blocking_sites!(Step);

impl Meeting for Step {
    fn collective(self) -> Collective {
        Collective::of(Operation::Maximum)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fact {
    /// A request reaches this engine.
    Request,
    /// Another engine's message: this wave is to start.
    Start(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    OwnQueue,
    NoRestart,
    Waves,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Engine {
    rule: Rule,
    arrived: u8,
    queued: u8,
    /// The wave that this engine is in, or waits for: one more than those that are over.
    wave: u8,
    /// The latest wave that it knows somebody to have started.
    started: u8,
}

impl Engine {
    /// Starts the wave for a request that waits for it, and tells the others.
    fn start(&mut self) -> Option<Effect<Posted<Step>, u8>> {
        let wanted = self.queued > 0 && self.started < self.wave;
        wanted.then(|| {
            self.started = self.wave;
            Effect::Local(self.wave)
        })
    }
}

impl RankProgram for Engine {
    type Site = Step;
    type Fact = Fact;
    type Entry = Posted<Step>;
    /// A message to all others: this wave is to start.
    type Local = u8;

    fn step(&mut self, event: Event<Fact, Step>, effects: &mut Vec<Effect<Posted<Step>, u8>>) {
        match event {
            Event::Fact(Fact::Request) => {
                (self.arrived, self.queued) = (self.arrived + 1, self.queued + 1);
                effects.extend(self.start());
            }
            Event::Fact(Fact::Start(wave)) => self.started = self.started.max(wave),
            Event::Turn if self.rule != Rule::OwnQueue && self.started < self.wave => {}
            Event::Turn if self.rule == Rule::OwnQueue && self.queued == 0 => {}
            Event::Turn => {
                self.queued = self.queued.saturating_sub(1);
                effects.push(Effect::Enter(Step.bring([u64::from(self.queued > 0)])));
            }
            Event::Completed { payload, .. } => {
                self.wave += u8::from(payload == [0]);
                effects.extend(if self.rule == Rule::NoRestart { None } else { self.start() });
            }
        }
    }
}

no_counters!(Engine);

/// A rule, and so many engines, to which so many requests come.
#[derive(Debug)]
struct DataParallel(Rule, usize, u8);

impl Protocol for DataParallel {
    type Rank = Engine;
    /// Messages under way: to whom, and which wave is to start.
    type Around = BTreeSet<(usize, u8)>;

    fn ranks(&self) -> Vec<Engine> {
        vec![Engine { rule: self.0, arrived: 0, queued: 0, wave: 1, started: 0 }; self.1]
    }

    fn facts(&self, state: &StateOf<Self>, rank: usize) -> Vec<Fact> {
        let starts = state.around.iter().filter(|(to, _)| *to == rank).map(|(_, wave)| Fact::Start(*wave));
        let arrived: u8 = state.ranks.iter().map(|engine| engine.arrived).sum();
        let request = (arrived < self.2).then_some(Fact::Request);
        request.into_iter().chain(starts).collect()
    }

    fn delivered(&self, around: &mut Self::Around, rank: usize, fact: &Fact) {
        if let Fact::Start(wave) = fact {
            around.remove(&(rank, *wave));
        }
    }

    fn perform(&self, around: &mut Self::Around, rank: usize, wave: &u8) {
        around.extend((0..self.1).filter(|other| *other != rank).map(|other| (other, *wave)));
    }

    fn rested(&self, state: &StateOf<Self>) -> bool {
        state.ranks.iter().all(|engine| engine.queued == 0)
    }

    fn benign(&self, fact: &Fact) -> bool {
        *fact != Fact::Request
    }

    fn claims(&self, claims: &mut Claims<Self>) {
        claims.reaches("a start is older than the wave", |_, state| {
            state.around.iter().any(|(to, wave)| *wave < state.ranks[*to].wave)
        });
    }
}

fn main() -> std::process::ExitCode {
    protocol::main([
        protocol::violates("own-queue", "no-stuck", DataParallel(Rule::OwnQueue, 2, 1)),
        protocol::violates("no-restart", "no-stuck", DataParallel(Rule::NoRestart, 2, 2)),
        protocol::holds("waves", DataParallel(Rule::Waves, 2, 4)),
        protocol::holds("waves-of-three", DataParallel(Rule::Waves, 3, 3)),
    ])
}
