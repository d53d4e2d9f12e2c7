//! An elastic group: ranks 0 and 1 train, rank 2 wants to join, and the group forms again, in the next epoch, with three.
//!
//! That somebody wants to join reaches each rank at a time of its own. Rules:
//! * `Own`: a rank that hears of it goes to the rendezvous of the next epoch. Another still waits for it in a step of this one.
//! * `Abort`: a rank that hears of it while it waits aborts its communicator and follows. Nobody is stuck, but a step may have completed
//!   on one rank and not on the other, and the group goes on with two different models.
//! * `Vote`: each step also says who has heard of it. A rank goes when the step's outcome says that all have.
//!
//! Steps never end. Ranks that show their `Counters` are explored to the end all the same.

use lockstep_model::protocol::{self, prelude::*};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Site {
    /// The rendezvous of the next epoch; rank 0 says how many steps are done.
    Join,
    /// A step of an epoch with so many ranks: whether all of them have heard.
    Step(usize),
}

blocking_sites!(Site);

impl Meeting for Site {
    fn collective(self) -> Collective {
        match self {
            Self::Join => Collective::of(Operation::Broadcast { root: 0 }),
            Self::Step(2) => Collective::of(Operation::Minimum).among(Members::of(&[0, 1])),
            Self::Step(_) => Collective::of(Operation::Minimum),
        }
    }

    fn visit(self, payload: &mut [u64], visit: &mut dyn FnMut(Counter, &mut u64)) {
        payload.iter_mut().filter(|_| self == Self::Join).for_each(|steps| visit(Counter::Round, steps));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HeardOfNewcomer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    Own,
    Abort,
    Vote,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Trainer {
    rule: Rule,
    epoch: u64,
    /// It is past the rendezvous of this epoch.
    joined: bool,
    heard: bool,
    steps: u64,
}

impl Trainer {
    fn go_on(&mut self) {
        (self.epoch, self.joined) = (self.epoch + 1, false);
    }

    fn next(&self) -> Posted<Site> {
        let step = Site::Step(if self.epoch == 0 { 2 } else { 3 });
        let entry = step.bring([u64::from(self.heard)]).in_round(self.steps);
        if self.joined { entry } else { Site::Join.bring([self.steps]) }.in_epoch(self.epoch)
    }
}

impl RankProgram for Trainer {
    type Site = Site;
    type Fact = HeardOfNewcomer;
    type Entry = Posted<Site>;
    /// It aborts its communicator.
    type Local = ();

    fn step(&mut self, event: Event<HeardOfNewcomer, Site>, effects: &mut Vec<Effect<Posted<Site>, ()>>) {
        match event {
            Event::Fact(HeardOfNewcomer) => {
                self.heard = true;
                if self.rule == Rule::Abort {
                    self.go_on();
                    effects.push(Effect::Local(()));
                }
            }
            Event::Turn => {
                if self.rule == Rule::Own && self.heard && self.epoch == 0 {
                    self.go_on();
                }
                effects.push(Effect::Enter(self.next()));
            }
            Event::Completed { ticket, payload } => match ticket.site {
                Site::Join => (self.joined, self.steps) = (true, payload[0]),
                Site::Step(ranks) => {
                    self.steps += 1;
                    if ranks == 2 && self.rule == Rule::Vote && payload == [1] {
                        self.go_on();
                    }
                }
            },
        }
    }
}

impl Counters for Trainer {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Round, &mut self.steps);
    }
}

#[derive(Debug)]
struct Elastic(Rule);

impl Protocol for Elastic {
    type Rank = Trainer;
    type Around = ();

    fn ranks(&self) -> Vec<Trainer> {
        let trainer = Trainer { rule: self.0, epoch: 0, joined: true, heard: false, steps: 0 };
        let newcomer = Trainer { epoch: 1, joined: false, heard: true, ..trainer.clone() };
        vec![trainer.clone(), trainer, newcomer]
    }

    fn facts(&self, state: &StateOf<Self>, rank: usize) -> Vec<HeardOfNewcomer> {
        (!state.ranks[rank].heard).then_some(HeardOfNewcomer).into_iter().collect()
    }

    fn abandons(&self, (): &()) -> bool {
        true
    }

    fn rested(&self, state: &StateOf<Self>) -> bool {
        state.ranks.iter().all(|trainer| trainer.joined && trainer.epoch == 1)
    }

    fn claims(&self, claims: &mut Claims<Self>) {
        claims.always("same-step", "Ranks that go on together have done the same steps.", |_, state| {
            let [one, other, ..] = &state.ranks[..] else { return false };
            one.joined || other.joined || one.steps == other.steps
        });
    }
}

fn main() -> std::process::ExitCode {
    protocol::main([
        protocol::violates("own-decision", "no-stuck", Elastic(Rule::Own)),
        protocol::violates("abort-and-follow", "same-step", Elastic(Rule::Abort)),
        protocol::holds("vote", Elastic(Rule::Vote)),
    ])
}
