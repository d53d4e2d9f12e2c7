//! Random walks, for models that are too large to be exhausted. They find faults and can never show that there is none.
//!
//! Which way a walk goes is the caller's choice: there is no source of chance in here. When a walk meets a state that it has passed, the
//! loop is forgotten, so that a counterexample has no detours that lead back.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use stateright::{Expectation, Property};

use super::error::ExploreError;
use super::expand::message_of;
use super::fingerprint::fingerprint;
use super::model::Explorable;
use super::search::{End, refuse_unsound};
use super::trail::{Trail, actions};

/// What random walks met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wandered {
    /// Fingerprints of the states.
    pub states: BTreeSet<u128>,
    /// Steps taken.
    pub steps: u64,
    /// Most steps without a loop from an initial state.
    pub deepest: u64,
    /// Walks that came to a proper end; each is followed by another one.
    pub ended: u64,
    /// Witnesses and kinds of action that were reached.
    pub reached: BTreeSet<String>,
}

impl Wandered {
    /// Adds what other walks met.
    pub fn merge(&mut self, other: Self) {
        self.states.extend(other.states);
        self.steps += other.steps;
        self.deepest = self.deepest.max(other.deepest);
        self.ended += other.ended;
        self.reached.extend(other.reached);
    }
}

/// Walks through `model` for `steps` steps or to the first fault, which is at the end of the trail that comes with it.
///
/// `choose` is given a number of ways, at least one, and names one of them; what is too large is taken as the last.
///
/// # Errors
/// [`ExploreError`] when the model cannot be judged in single states or has no initial state.
pub fn wander<M: Explorable>(
    model: &M,
    steps: u64,
    choose: &mut dyn FnMut(usize) -> usize,
) -> Result<(Wandered, Option<(End, Trail)>), ExploreError> {
    let properties = model.properties();
    refuse_unsound(&properties)?;
    let kinds = model.kinds();
    let mut wanderer = Wanderer { model, properties, kinds, wandered: Wandered::default() };
    while wanderer.wandered.steps < steps {
        let before = wanderer.wandered.steps;
        let (root, start) = wanderer.start(choose)?;
        let mut path = Path::new(root, &start);
        if let Some(end) = wanderer.walk(start, &mut path, steps, choose) {
            return Ok((wanderer.wandered, Some((end, path.trail()))));
        }
        wanderer.wandered.ended += u64::from(wanderer.wandered.steps < steps);
        if wanderer.wandered.steps == before {
            break;
        }
    }
    Ok((wanderer.wandered, None))
}

struct Wanderer<'a, M: Explorable> {
    model: &'a M,
    properties: Vec<Property<M>>,
    kinds: Vec<&'static str>,
    wandered: Wandered,
}

/// A way out of a state: the action's index, and the action if that is what a panic is to be blamed on.
type Step<M> = (u32, <M as stateright::Model>::Action, <M as stateright::Model>::State);

impl<M: Explorable> Wanderer<'_, M> {
    fn start(&self, choose: &mut dyn FnMut(usize) -> usize) -> Result<(u32, M::State), ExploreError> {
        let inside = |(_, state): &(u32, M::State)| self.model.within_boundary(state);
        let starts = (0u32..).zip(self.model.init_states()).filter(inside);
        take_one(&mut starts.collect(), choose).ok_or(ExploreError::NoInitialState)
    }

    /// Walks on from `state` until `steps` steps were taken, to a proper end, or to a fault.
    fn walk(
        &mut self,
        mut state: M::State,
        path: &mut Path,
        steps: u64,
        choose: &mut dyn FnMut(usize) -> usize,
    ) -> Option<End> {
        loop {
            if let Some(end) = self.look(&state, path) {
                return Some(end);
            }
            if self.wandered.steps >= steps {
                return None;
            }
            match self.step(&state, path.length(), choose) {
                Ok(Some((index, action, next))) => {
                    self.note_kind(&action);
                    self.wandered.steps += 1;
                    path.enter(index, fingerprint(&next));
                    state = next;
                }
                Ok(None) if self.model.may_stop(&state) => return None,
                Ok(None) => return Some(End::Stuck { at: path.length() }),
                Err(end) => return Some(end),
            }
        }
    }

    /// Notes that `state` was met; the fault if it violates a property.
    fn look(&mut self, state: &M::State, path: &Path) -> Option<End> {
        self.wandered.states.insert(path.here);
        self.wandered.deepest = self.wandered.deepest.max(u64::from(path.length()));
        let judged = catch_unwind(AssertUnwindSafe(|| self.judge(state)));
        match judged {
            Ok(violated) => violated.map(|property| End::Violated { at: path.length(), property }),
            Err(panic) => {
                Some(End::Asserted { at: path.length(), action: None, message: message_of(&*panic) })
            }
        }
    }

    fn judge(&mut self, state: &M::State) -> Option<&'static str> {
        for property in &self.properties {
            match property.expectation {
                Expectation::Always if !(property.condition)(self.model, state) => {
                    return Some(property.name);
                }
                Expectation::Sometimes if !self.wandered.reached.contains(property.name) => {
                    if (property.condition)(self.model, state) {
                        self.wandered.reached.insert(property.name.to_owned());
                    }
                }
                Expectation::Always | Expectation::Sometimes | Expectation::Eventually => {}
            }
        }
        None
    }

    /// One step out of `state`, if there is any; the fault if the model panics on the way.
    fn step(
        &self,
        state: &M::State,
        at: u32,
        choose: &mut dyn FnMut(usize) -> usize,
    ) -> Result<Option<Step<M>>, End> {
        let asserted = |action, panic: Box<dyn std::any::Any + Send>| End::Asserted {
            at,
            action,
            message: message_of(&*panic),
        };
        let listed = catch_unwind(AssertUnwindSafe(|| actions(self.model, state)));
        let mut open: Vec<_> = (0u32..).zip(listed.map_err(|panic| asserted(None, panic))?).collect();
        while let Some((index, action)) = take_one(&mut open, choose) {
            let stepped = catch_unwind(AssertUnwindSafe(|| self.model.next_state(state, action.clone())));
            let next = stepped.map_err(|panic| asserted(Some(index), panic))?;
            if let Some(next) = next.filter(|next| self.model.within_boundary(next)) {
                return Ok(Some((index, action, next)));
            }
        }
        Ok(None)
    }

    fn note_kind(&mut self, action: &M::Action) {
        if let Some(kind) = self.kinds.get(self.model.kind_of_action(action)) {
            self.wandered.reached.insert(format!("action {kind}"));
        }
    }
}

fn take_one<T>(open: &mut Vec<T>, choose: &mut dyn FnMut(usize) -> usize) -> Option<T> {
    let last = open.len().checked_sub(1)?;
    Some(open.swap_remove(choose(open.len()).min(last)))
}

/// The way to where a walk is, without loops.
struct Path {
    root: u32,
    here: u128,
    steps: Vec<(u128, u32)>,
    passed: BTreeMap<u128, usize>,
}

impl Path {
    fn new<S: std::hash::Hash>(root: u32, start: &S) -> Self {
        let here = fingerprint(start);
        Self { root, here, steps: Vec::new(), passed: BTreeMap::from([(here, 0)]) }
    }

    fn length(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    /// Goes on to a state, and forgets the loop if it was passed before.
    fn enter(&mut self, action: u32, state: u128) {
        self.here = state;
        match self.passed.get(&state) {
            Some(length) => {
                let forgotten = self.steps.split_off(*length);
                forgotten.iter().filter(|(passed, _)| *passed != state).for_each(|(passed, _)| {
                    self.passed.remove(passed);
                });
            }
            None => {
                self.steps.push((state, action));
                self.passed.insert(state, self.steps.len());
            }
        }
    }

    fn trail(&self) -> Trail {
        Trail { root: self.root, actions: self.steps.iter().map(|(_, action)| *action).collect() }
    }
}
