//! Small models with known answers.

use stateright::{Model, Property};

use crate::explore::{Explorable, Lane, Live, Obligation, StateMarks, StepMarks};

/// A jug of three and a jug of five; four units can be measured in six pourings.
#[derive(Clone)]
pub(super) struct Jugs;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pour {
    Fill(usize),
    Empty(usize),
    Over(usize),
}

impl Model for Jugs {
    type State = [u8; 2];
    type Action = Pour;

    fn init_states(&self) -> Vec<[u8; 2]> {
        vec![[0, 0]]
    }

    fn actions(&self, _state: &[u8; 2], actions: &mut Vec<Pour>) {
        actions
            .extend([0, 1].into_iter().flat_map(|jug| [Pour::Fill(jug), Pour::Empty(jug), Pour::Over(jug)]));
    }

    fn next_state(&self, state: &[u8; 2], action: Pour) -> Option<[u8; 2]> {
        let size = [3, 5];
        let mut next = *state;
        match action {
            Pour::Fill(jug) => next[jug] = size[jug],
            Pour::Empty(jug) => next[jug] = 0,
            Pour::Over(jug) => {
                let moved = state[jug].min(size[1 - jug] - state[1 - jug]);
                next[jug] -= moved;
                next[1 - jug] += moved;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("not four", |_, state: &[u8; 2]| state[1] != 4)]
    }
}

impl Explorable for Jugs {
    fn may_stop(&self, _state: &[u8; 2]) -> bool {
        false
    }

    fn lanes(&self, state: &[u8; 2]) -> Vec<Lane> {
        vec![Lane::new("small").with("water", state[0]), Lane::new("large").with("water", state[1])]
    }
}

/// Two counters up to `most`; the first must stay below `limit`. With an unmet `sometimes`, Stateright 0.31 reports
/// one of the longest counterexamples.
#[derive(Clone)]
pub(super) struct Counters {
    pub(super) most: u8,
    pub(super) properties: fn() -> Vec<Property<Counters>>,
}

impl Model for Counters {
    type State = [u8; 2];
    type Action = usize;

    fn init_states(&self) -> Vec<[u8; 2]> {
        vec![[0, 0]]
    }

    fn actions(&self, state: &[u8; 2], actions: &mut Vec<usize>) {
        actions.extend((0..2).filter(|counter| state[*counter] < self.most));
    }

    fn next_state(&self, state: &[u8; 2], counter: usize) -> Option<[u8; 2]> {
        let mut next = *state;
        next[counter] += 1;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        (self.properties)()
    }
}

impl Explorable for Counters {
    fn may_stop(&self, _state: &[u8; 2]) -> bool {
        true
    }

    fn lanes(&self, _state: &[u8; 2]) -> Vec<Lane> {
        Vec::new()
    }
}

/// Wheels of `teeth` positions that turn one at a time: `teeth` to the power of `WHEELS` states.
#[derive(Clone)]
pub(super) struct Wheels {
    pub(super) teeth: u8,
    pub(super) forbidden: [u8; WHEELS],
}

pub(super) const WHEELS: usize = 6;

impl Model for Wheels {
    type State = [u8; WHEELS];
    type Action = usize;

    fn init_states(&self) -> Vec<[u8; WHEELS]> {
        vec![[0; WHEELS]]
    }

    fn actions(&self, _state: &[u8; WHEELS], actions: &mut Vec<usize>) {
        actions.extend(0..WHEELS);
    }

    fn next_state(&self, state: &[u8; WHEELS], wheel: usize) -> Option<[u8; WHEELS]> {
        let mut next = *state;
        next[wheel] = (next[wheel] + 1) % self.teeth;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("forbidden sum", |model: &Self, state: &[u8; WHEELS]| {
            let sum = |wheels: &[u8; WHEELS]| wheels.iter().map(|wheel| u32::from(*wheel)).sum::<u32>();
            sum(state) < sum(&model.forbidden)
        })]
    }
}

impl Explorable for Wheels {
    fn may_stop(&self, _state: &[u8; WHEELS]) -> bool {
        false
    }

    fn lanes(&self, _state: &[u8; WHEELS]) -> Vec<Lane> {
        Vec::new()
    }
}

/// A graph given by its edges; node 0 is the initial one.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) edges: &'static [(u8, u8)],
    pub(super) stops: &'static [u8],
    pub(super) properties: fn() -> Vec<Property<Table>>,
    pub(super) state: fn(u8) -> StateMarks,
    pub(super) step: fn(u8, u8) -> StepMarks,
    pub(super) fairness: usize,
}

/// A table in which every state is a goal, every step benign, and nothing is pending.
pub(super) fn table(edges: &'static [(u8, u8)]) -> Table {
    Table {
        edges,
        stops: &[],
        properties: Vec::new,
        state: |_| StateMarks { goal: true, ..StateMarks::default() },
        step: |_, _| StepMarks { benign: true, ..StepMarks::default() },
        fairness: 0,
    }
}

impl Model for Table {
    type State = u8;
    type Action = u8;

    fn init_states(&self) -> Vec<u8> {
        vec![0]
    }

    fn actions(&self, state: &u8, actions: &mut Vec<u8>) {
        actions.extend(self.edges.iter().filter(|(from, _)| from == state).map(|(_, to)| *to));
    }

    fn next_state(&self, _state: &u8, to: u8) -> Option<u8> {
        assert!(to != u8::MAX, "the last node must not be entered");
        Some(to)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        (self.properties)()
    }
}

impl Explorable for Table {
    fn may_stop(&self, state: &u8) -> bool {
        self.stops.contains(state)
    }

    fn lanes(&self, state: &u8) -> Vec<Lane> {
        vec![Lane::new("table").with("node", state)]
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["even", "odd"]
    }

    fn kind_of_action(&self, to: &u8) -> usize {
        usize::from(to % 2)
    }
}

impl Live for Table {
    fn goal_property(&self) -> &'static str {
        "ends"
    }

    fn obligations(&self) -> Vec<Obligation> {
        vec![Obligation { property: "admission-fair", subject: "the visitor".to_owned() }]
    }

    fn fairness(&self) -> Vec<String> {
        (0..self.fairness).map(|index| format!("constraint {index}")).collect()
    }

    fn mark_state(&self, state: &u8) -> StateMarks {
        (self.state)(*state)
    }

    fn mark_step(&self, from: &u8, _action: &u8, to: &u8) -> StepMarks {
        (self.step)(*from, *to)
    }
}
