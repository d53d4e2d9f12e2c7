//! Two pipeline stages with two expert-parallel ranks each, and a health check of all four.
//!
//! The ranks of a stage exchange tokens with each other, each sends its rows to its partner in the next stage, and now and then all four
//! meet in a barrier, so that whoever is gone is noticed. Each of the three runs on a communicator of its own. When is the barrier due?
//! * `OwnTimer`: a rank enters it with its next microbatch once its own timer has fired. Nothing mismatches, since the communicators
//!   differ: the ranks wait for each other in a circle.
//! * `AskedAlong`: the first stage's exchange also carries whose timers have fired, and the rows tell the second stage what came out.

use lockstep_model::protocol::{self, prelude::*};

const STAGES: usize = 2;
const EXPERTS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Site {
    /// All-to-all of the ranks of this stage.
    Exchange(usize),
    /// Barrier of all.
    Health,
    /// Rows of a microbatch, from this rank to its partner in the next stage.
    Rows(usize),
}

blocking_sites!(Site);

impl Meeting for Site {
    fn collective(self) -> Collective {
        match self {
            Self::Exchange(stage) => {
                let first = stage * EXPERTS;
                Collective::of(Operation::Maximum).among(Members::of(&[first, first + 1])).on("experts")
            }
            Self::Health => Collective::of(Operation::Barrier).on("health"),
            Self::Rows(from) => Collective::message(from, from + EXPERTS).on("pipeline"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    OwnTimer,
    AskedAlong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TimerFired;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rank {
    rule: Rule,
    number: usize,
    next: Site,
    /// Local: the timer has fired and no barrier came since.
    timer_fired: bool,
    /// Agreed: it has on some rank of the first stage.
    check_due: bool,
}

impl Rank {
    fn stage(&self) -> usize {
        self.number / EXPERTS
    }

    fn due(&self) -> bool {
        if self.rule == Rule::OwnTimer { self.timer_fired } else { self.check_due }
    }

    fn enter(&self) -> Posted<Site> {
        match self.next {
            Site::Exchange(_) => self.next.bring([u64::from(self.timer_fired)]),
            Site::Rows(from) if from == self.number => self.next.bring([u64::from(self.check_due)]),
            Site::Health | Site::Rows(_) => self.next.enter(1),
        }
    }

    /// The end of a microbatch is where a barrier may come; the second stage receives before it exchanges.
    fn after(&self, site: Site) -> Site {
        let (exchange, rows) = (Site::Exchange(self.stage()), Site::Rows(self.number % EXPERTS));
        match (site, self.stage()) {
            (Site::Exchange(_), 0) => rows,
            (Site::Rows(_), 0) | (Site::Exchange(_), _) if self.due() => Site::Health,
            (Site::Rows(_) | Site::Health, 0) => exchange,
            (Site::Exchange(_) | Site::Health, _) => rows,
            (Site::Rows(_), _) => exchange,
        }
    }
}

impl RankProgram for Rank {
    type Site = Site;
    type Fact = TimerFired;
    type Entry = Posted<Site>;
    type Local = ();

    fn step(&mut self, event: Event<TimerFired, Site>, effects: &mut Vec<Effect<Posted<Site>, ()>>) {
        match event {
            Event::Fact(TimerFired) => self.timer_fired = true,
            Event::Turn => effects.push(Effect::Enter(self.enter())),
            Event::Completed { ticket, payload } => {
                match ticket.site {
                    Site::Exchange(0) => self.check_due = payload == [1],
                    Site::Rows(_) if self.stage() > 0 => self.check_due = payload == [1],
                    Site::Health => (self.timer_fired, self.check_due) = (false, false),
                    Site::Exchange(_) | Site::Rows(_) => {}
                }
                self.next = self.after(ticket.site);
            }
        }
    }
}

no_counters!(Rank);

/// The ranks under a rule.
#[derive(Debug)]
struct Pipeline(Rule);

impl Protocol for Pipeline {
    type Rank = Rank;
    type Around = ();

    fn ranks(&self) -> Vec<Rank> {
        let rank = |number| {
            let next = if number < EXPERTS { Site::Exchange(0) } else { Site::Rows(number - EXPERTS) };
            Rank { rule: self.0, number, next, timer_fired: false, check_due: false }
        };
        (0..STAGES * EXPERTS).map(rank).collect()
    }

    fn facts(&self, state: &StateOf<Self>, rank: usize) -> Vec<TimerFired> {
        (!state.ranks[rank].timer_fired).then_some(TimerFired).into_iter().collect()
    }

    fn claims(&self, claims: &mut Claims<Self>) {
        // Not `entered`: with its last entry a collective is over, and no state shows all of its members in it.
        claims.reaches("all in the barrier", |_, state| {
            state.ranks.iter().all(|rank| rank.next == Site::Health)
        });
    }
}

fn main() -> std::process::ExitCode {
    protocol::main([
        protocol::violates("own-timer", "no-stuck", Pipeline(Rule::OwnTimer)),
        protocol::holds("asked-along", Pipeline(Rule::AskedAlong)),
    ])
}
