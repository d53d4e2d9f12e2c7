//! A random search, for models that are too large to be exhausted. It finds faults and can never show that there is none.
//!
//! A walk goes on from the state that it found last, and never takes the same step of a state twice. Where a step leads to a known state,
//! or nowhere, it goes back to the state found before, or, now and then, to any state that still has steps to take; how often is drawn
//! at the start, as is how much each kind of action is preferred, so that walks differ in character and not only in luck. The way to a fault
//! is that on which its states were found: it has no detours that lead back.
//!
//! Which way a walk goes is the caller's choice: there is no source of chance in here.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stateright::{Expectation, Property};

use super::error::ExploreError;
use super::expand::message_of;
use super::fingerprint::fingerprint;
use super::model::Explorable;
use super::search::{End, refuse_unsound};
use super::seen::Origin;
use super::trail::{ROOT, Trail, Trails, actions};

/// How much a kind of action may be preferred.
const WEIGHTS: [usize; 3] = [1, 4, 16];
/// A walk that goes back does so to any state once in so many times.
const ONCE_IN: [usize; 4] = [1, 4, 16, 64];

/// What random walks met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wandered {
    /// Fingerprints of the states.
    pub states: BTreeSet<u128>,
    /// Steps taken.
    pub steps: u64,
    /// Most steps from an initial state on the way on which a state was found.
    pub deepest: u64,
    /// Witnesses and kinds of action that were reached.
    pub reached: BTreeSet<String>,
}

impl Wandered {
    /// Adds what other walks met.
    pub fn merge(&mut self, other: Self) {
        self.states.extend(other.states);
        self.steps += other.steps;
        self.deepest = self.deepest.max(other.deepest);
        self.reached.extend(other.reached);
    }
}

/// The caller's choice among a number of ways.
type Choose<'a> = &'a mut dyn FnMut(usize) -> usize;

/// Walks through `model` for `steps` steps, to the first fault, or until no step is left; a fault is at the end of the trail that comes
/// with it.
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
    let weights = kinds.iter().map(|_| pick(&WEIGHTS, choose)).collect();
    let once_in = pick(&ONCE_IN, choose);
    let (trails, open, wandered) = (Trails::default(), Vec::new(), Wandered::default());
    let mut wanderer = Wanderer { model, properties, kinds, weights, once_in, trails, open, wandered };
    let fault = wanderer.begin()?.or_else(|| wanderer.walk(steps, choose));
    let fault = fault.map(|(id, end)| (end, wanderer.trails.to(id)));
    Ok((wanderer.wandered, fault))
}

struct Wanderer<'a, M: Explorable> {
    model: &'a M,
    properties: Vec<Property<M>>,
    kinds: Vec<&'static str>,
    weights: Vec<usize>,
    once_in: usize,
    trails: Trails,
    /// States with steps to take, the one found last at the end.
    open: Vec<Open<M>>,
    wandered: Wandered,
}

/// A state with steps to take.
struct Open<M: Explorable> {
    id: u32,
    depth: u32,
    state: M::State,
    /// Its actions that were not taken yet, with their indices.
    left: Vec<(u32, M::Action)>,
    /// Whether one led to a state.
    leads_on: bool,
}

/// A fault in the state with this id, or in a step out of it.
type Fault = (u32, End);

impl<M: Explorable> Wanderer<'_, M> {
    /// Finds the initial states.
    fn begin(&mut self) -> Result<Option<Fault>, ExploreError> {
        for (index, state) in (0u32..).zip(self.model.init_states()) {
            let fault = self.find(Origin { parent: ROOT, action: index }, 0, state);
            if let Some(fault) = fault {
                return Ok(Some(fault));
            }
        }
        if self.trails.len() == 0 { Err(ExploreError::NoInitialState) } else { Ok(None) }
    }

    fn walk(&mut self, steps: u64, choose: Choose<'_>) -> Option<Fault> {
        while self.wandered.steps < steps && !self.open.is_empty() {
            let known = self.trails.len();
            if let Some(fault) = self.step(choose) {
                return Some(fault);
            }
            if self.trails.len() == known && !self.open.is_empty() && choose(self.once_in) == 0 {
                let (any, last) = (choose(self.open.len()), self.open.len() - 1);
                self.open.swap(any.min(last), last);
            }
        }
        None
    }

    /// Takes a step out of the last open state, which is closed if none is left.
    fn step(&mut self, choose: Choose<'_>) -> Option<Fault> {
        let mut from = self.open.pop()?;
        let Some((index, action)) = self.take_one(&mut from.left, choose) else {
            let is_stuck = !from.leads_on && !self.model.may_stop(&from.state);
            return is_stuck.then_some((from.id, End::Stuck { at: from.depth }));
        };
        let stepped = catch_unwind(AssertUnwindSafe(|| self.model.next_state(&from.state, action.clone())));
        let (origin, depth) = (Origin { parent: from.id, action: index }, from.depth);
        let next = match stepped {
            Ok(next) => next.filter(|next| self.model.within_boundary(next)),
            Err(panic) => return Some((from.id, asserted(depth, Some(index), &*panic))),
        };
        from.leads_on |= next.is_some();
        self.open.push(from);
        let next = next?;
        self.wandered.steps += 1;
        if let Some(kind) = self.kinds.get(self.model.kind_of_action(&action)) {
            self.wandered.reached.insert(format!("action {kind}"));
        }
        self.find(origin, depth + 1, next)
    }

    /// Takes one of the actions out, those of preferred kinds rather than others.
    fn take_one(&self, left: &mut Vec<(u32, M::Action)>, choose: Choose<'_>) -> Option<(u32, M::Action)> {
        let weight = |action| self.weights.get(self.model.kind_of_action(action)).copied().unwrap_or(1);
        let weights: Vec<usize> = left.iter().map(|(_, action)| weight(action)).collect();
        let last = left.len().checked_sub(1)?;
        let mut drawn = choose(weights.iter().sum());
        let chosen = weights.iter().position(|weight| match drawn.checked_sub(*weight) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        Some(left.remove(chosen.unwrap_or(last)))
    }

    /// Notes that `state` was found, if it is new; the fault if it violates a property.
    fn find(&mut self, origin: Origin, depth: u32, state: M::State) -> Option<Fault> {
        if !self.model.within_boundary(&state) || !self.wandered.states.insert(fingerprint(&state)) {
            return None;
        }
        let id = u32::try_from(self.trails.len()).unwrap_or(ROOT - 1);
        self.trails.push(origin);
        self.wandered.deepest = self.wandered.deepest.max(u64::from(depth));
        let judged = catch_unwind(AssertUnwindSafe(|| (self.judge(&state), actions(self.model, &state))));
        match judged {
            Ok((Some(property), _)) => Some((id, End::Violated { at: depth, property })),
            Ok((None, listed)) => {
                let left = (0u32..).zip(listed).collect();
                self.open.push(Open { id, depth, state, left, leads_on: false });
                None
            }
            Err(panic) => Some((id, asserted(depth, None, &*panic))),
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
}

fn asserted(at: u32, action: Option<u32>, panic: &(dyn Any + Send)) -> End {
    End::Asserted { at, action, message: message_of(panic) }
}

fn pick(items: &[usize], choose: Choose<'_>) -> usize {
    let chosen = choose(items.len()).min(items.len() - 1);
    items[chosen]
}
