//! A counterexample as data: drawn states with the actions between them, free of the model's types.

use serde::Serialize;

use crate::explore::{Explorable, Happening, Lane, StepEvent, Walk, actions};

/// One state of a story and the action that led to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scene {
    /// Name of the action; `None` for the initial state.
    pub action: Option<String>,
    /// Index of the action among those of the state before, or of the initial state among those of the model.
    pub choice: u32,
    /// What happened in the step, in order.
    pub events: Vec<StepEvent>,
    /// The drawn state; the same titles in each scene.
    pub lanes: Vec<Lane>,
}

/// A run of a model that ends in a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Story {
    /// Initial state first.
    pub scenes: Vec<Scene>,
    /// Index of the first scene from which no benign steps lead to a goal, if known.
    pub point_of_no_return: Option<usize>,
    /// Index of the scene to which the last one returns, if the fault is a cycle.
    pub cycle_from: Option<usize>,
    /// What is wrong in the end, as a clause.
    pub ending: String,
}

impl Scene {
    /// What happens in a lane, in order.
    pub(crate) fn events_of(&self, lane: usize) -> impl Iterator<Item = &StepEvent> {
        self.events.iter().filter(move |event| event.lane == Some(lane))
    }

    /// Whether a lane ends in the step: then nothing is left of it that could be drawn as changed.
    pub(crate) fn ends(&self, lane: usize) -> bool {
        self.events.iter().any(|event| event.lane == Some(lane) && event.what == Happening::End)
    }
}

impl Story {
    /// The story of a walk through `model`.
    #[must_use]
    pub fn of<M: Explorable>(model: &M, walk: &Walk<M>, ending: impl Into<String>) -> Self {
        let start = walk.first().map(|(_, state)| Scene {
            action: None,
            choice: place(&model.init_states(), state),
            events: Vec::new(),
            lanes: model.lanes(state),
        });
        let steps = walk.windows(2).filter_map(|pair| {
            let [(_, before), (Some(action), after)] = pair else { return None };
            Some(scene(model, before, action, after))
        });
        Self {
            scenes: start.into_iter().chain(steps).collect(),
            point_of_no_return: None,
            cycle_from: None,
            ending: ending.into(),
        }
    }

    /// Number of steps.
    #[must_use]
    pub fn steps(&self) -> u32 {
        u32::try_from(self.scenes.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Titles of the lanes.
    pub fn titles(&self) -> impl Iterator<Item = &str> {
        self.scenes.first().into_iter().flat_map(|scene| &scene.lanes).map(|lane| lane.title.as_str())
    }

    /// What changes in each lane in step `index`; everything in the initial state.
    #[must_use]
    pub fn changes(&self, index: usize) -> Vec<Vec<Change>> {
        let before = index.checked_sub(1).and_then(|index| self.scenes.get(index));
        let old = |number: usize| before.and_then(|scene| scene.lanes.get(number));
        let lanes = self.scenes.get(index).into_iter().flat_map(|scene| &scene.lanes).enumerate();
        lanes.map(|(number, lane)| changes(old(number), lane)).collect()
    }
}

fn scene<M: Explorable>(model: &M, before: &M::State, action: &M::Action, after: &M::State) -> Scene {
    Scene {
        action: Some(model.name_of_action(action)),
        choice: place(&actions(model, before), action),
        events: model.events(before, action, after),
        lanes: model.lanes(after),
    }
}

/// Where `item` is in `items`.
fn place<T: PartialEq>(items: &[T], item: &T) -> u32 {
    items.iter().position(|other| other == item).and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX)
}

/// A cell of a lane that differs from the state before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The cell's field.
    pub field: String,
    /// Its value before; `None` if it was not there.
    pub from: Option<String>,
    /// Its value now; `None` if it is gone.
    pub to: Option<String>,
}

/// The cells of `lane` that differ from `before`, in the order of `lane`, then those that are gone.
fn changes(before: Option<&Lane>, lane: &Lane) -> Vec<Change> {
    let old = |field: &str| before.and_then(|before| before.value(field));
    let changed = lane.cells.iter().filter(|(field, value)| old(field) != Some(value));
    let changed = changed.map(|(field, value)| Change {
        field: field.clone(),
        from: old(field).map(str::to_owned),
        to: Some(value.clone()),
    });
    let gone = before.into_iter().flat_map(|before| &before.cells);
    let gone = gone.filter(|(field, _)| lane.value(field).is_none());
    let gone =
        gone.map(|(field, value)| Change { field: field.clone(), from: Some(value.clone()), to: None });
    changed.chain(gone).collect()
}
