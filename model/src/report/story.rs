//! A counterexample as data: drawn states with the actions between them, free of the model's types.

use serde::Serialize;

use crate::explore::{Explorable, Lane, Walk};

/// One state of a story and the action that led to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scene {
    /// Name of the action; `None` for the initial state.
    pub action: Option<String>,
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

impl Story {
    /// The story of a walk through `model`.
    #[must_use]
    pub fn of<M: Explorable>(model: &M, walk: &Walk<M>, ending: impl Into<String>) -> Self {
        let scene = |(action, state): &(Option<M::Action>, M::State)| Scene {
            action: action.as_ref().map(|action| model.name_of_action(action)),
            lanes: model.lanes(state),
        };
        Self {
            scenes: walk.iter().map(scene).collect(),
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
}
