//! Two ranks and two communicators: each rank enters both collectives, one after the other.
//!
//! If the ranks differ in the order, each waits in a collective that the other will never enter.

use stateright::{Model, Property};

use crate::explore::{Collective, Explorable, Happening, Lane, StepEvent, WAITS_IN};

/// The protocol; each rank enters the collectives in its order, again and again.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// Order of the communicators 0 and 1, for each rank.
    pub orders: [[u8; 2]; 2],
}

/// How far each rank is: number of collectives behind it in this round, and whether it waits in the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Progress {
    behind: [u8; 2],
    waits: [bool; 2],
}

/// A step of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The collective on a communicator completes.
    Complete(u8),
    /// A rank enters its next collective.
    Enter(usize),
}

impl Crossing {
    /// The communicator that `rank` waits in.
    fn waits_in(&self, progress: &Progress, rank: usize) -> Option<u8> {
        progress.waits[rank].then(|| self.orders[rank][usize::from(progress.behind[rank] % 2)])
    }
}

impl Model for Crossing {
    type State = Progress;
    type Action = Step;

    fn init_states(&self) -> Vec<Progress> {
        vec![Progress { behind: [0; 2], waits: [false; 2] }]
    }

    fn actions(&self, progress: &Progress, steps: &mut Vec<Step>) {
        steps.extend((0..2).filter(|rank| !progress.waits[*rank]).map(Step::Enter));
        let waited = [self.waits_in(progress, 0), self.waits_in(progress, 1)];
        steps.extend(waited[0].filter(|_| waited[0] == waited[1]).map(Step::Complete));
    }

    fn next_state(&self, progress: &Progress, step: Step) -> Option<Progress> {
        let mut next = *progress;
        match step {
            Step::Complete(_) => {
                next.waits = [false; 2];
                next.behind = next.behind.map(|behind| (behind + 1) % 2);
            }
            Step::Enter(rank) => next.waits[rank] = true,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::sometimes("the second collective completes", |_, progress: &Progress| {
            progress.behind == [1; 2]
        })]
    }
}

impl Explorable for Crossing {
    fn may_stop(&self, _progress: &Progress) -> bool {
        false
    }

    fn lanes(&self, progress: &Progress) -> Vec<Lane> {
        let lane = |rank: usize| {
            let waits = self
                .waits_in(progress, rank)
                .map_or_else(|| "-".to_owned(), |number| format!("communicator {number}"));
            Lane::new(format!("rank {rank}")).with(WAITS_IN, waits).with("behind", progress.behind[rank])
        };
        (0..2).map(lane).collect()
    }

    fn name_of_action(&self, step: &Step) -> String {
        match step {
            Step::Complete(communicator) => format!("communicator {communicator} completes"),
            Step::Enter(rank) => format!("rank {rank} enters"),
        }
    }

    fn events(&self, _: &Progress, step: &Step, after: &Progress) -> Vec<StepEvent> {
        let collective = |number: u8| Collective::new(number.to_string(), format!("Collective{number}"));
        match step {
            Step::Complete(number) => (0..2)
                .map(|rank| StepEvent::on(rank, Happening::Complete { collective: collective(*number) }))
                .collect(),
            Step::Enter(rank) => {
                let entered = self.waits_in(after, *rank).map(collective);
                entered
                    .map(|collective| StepEvent::on(*rank, Happening::Enter { collective }))
                    .into_iter()
                    .collect()
            }
        }
    }
}
