//! A model whose type is not known: the explorer and all that stands on it are built once for every design that is only explored for its
//! fault, and not anew for each. Its states, fingerprints and counts are those of the model within; each step costs a few calls more.

use std::any::Any;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use stateright::{Expectation, Model, Property};

use super::event::StepEvent;
use super::model::{Explorable, Lane, Live, Obligation, StateMarks, StepMarks};
use super::notes::Notes;

/// A model of any type.
pub struct Erased(Box<dyn AnyModel>);

impl Erased {
    /// The model without its type.
    pub fn new<M>(model: M) -> Self
    where
        M: Live<State: 'static, Action: 'static> + Send + 'static,
    {
        let properties = model.properties();
        Self(Box::new(Within { model, properties }))
    }
}

/// A state of any type.
#[derive(Clone)]
pub struct AnyState(Arc<dyn Value + Send + Sync>);

/// An action of any type.
#[derive(Clone)]
pub struct AnyAction(Arc<dyn Value>);

/// What states and actions have in common.
trait Value: Any + Debug {
    fn equals(&self, other: &dyn Any) -> bool;
    fn feed(&self, hasher: &mut dyn Hasher);
}

/// A state, which is hashed.
#[derive(PartialEq)]
struct Hashed<T>(T);

/// An action, which never is.
#[derive(PartialEq)]
struct Plain<T>(T);

impl<T: Debug> Debug for Hashed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<T: Debug> Debug for Plain<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<T: Eq + Hash + Debug + 'static> Value for Hashed<T> {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn feed(&self, mut hasher: &mut dyn Hasher) {
        self.0.hash(&mut hasher);
    }
}

impl<T: PartialEq + Debug + 'static> Value for Plain<T> {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn feed(&self, _: &mut dyn Hasher) {}
}

impl PartialEq for AnyState {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Eq for AnyState {}

impl Hash for AnyState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.feed(state);
    }
}

impl Debug for AnyState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl PartialEq for AnyAction {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Debug for AnyAction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What [`Live`] and what it stands on offer, by states and actions of any type.
trait AnyModel: Send + Sync {
    fn init_states(&self) -> Vec<AnyState>;
    fn actions(&self, state: &AnyState, actions: &mut Vec<AnyAction>);
    fn next_noted(&self, state: &AnyState, action: &AnyAction, notes: &mut Notes) -> Option<AnyState>;
    fn properties(&self) -> Vec<(Expectation, &'static str)>;
    fn holds(&self, property: usize, state: &AnyState) -> bool;
    fn within_boundary(&self, state: &AnyState) -> bool;
    fn may_stop(&self, state: &AnyState) -> bool;
    fn lanes(&self, state: &AnyState) -> Vec<Lane>;
    fn name_of_action(&self, action: &AnyAction) -> String;
    fn events(&self, before: &AnyState, action: &AnyAction, after: &AnyState) -> Vec<StepEvent>;
    fn stuck_property(&self) -> &'static str;
    fn between_rounds(&self, state: &AnyState) -> bool;
    fn reductions(&self) -> Vec<&'static str>;
    fn kinds(&self) -> Vec<&'static str>;
    fn points(&self) -> Vec<String>;
    fn traces(&self, choices: &[u32]) -> Vec<String>;
    fn kind_of_action(&self, action: &AnyAction) -> usize;
    fn goal_property(&self) -> &'static str;
    fn obligations(&self) -> Vec<Obligation>;
    fn fairness(&self) -> Vec<String>;
    fn mark_state(&self, state: &AnyState) -> StateMarks;
    fn mark_step(&self, from: &AnyState, action: &AnyAction, to: &AnyState) -> StepMarks;
}

struct Within<M: Model> {
    model: M,
    properties: Vec<Property<M>>,
}

fn any_state<T: Eq + Hash + Debug + Send + Sync + 'static>(state: T) -> AnyState {
    AnyState(Arc::new(Hashed(state)))
}

/// The value within: states and actions come back to the model that made them.
fn within<T: 'static>(value: &dyn Any) -> &T {
    value.downcast_ref().unwrap_or_else(|| unreachable!("a model was given what another model made"))
}

fn state_of<T: 'static>(state: &AnyState) -> &T {
    let value: &dyn Any = &*state.0;
    &within::<Hashed<T>>(value).0
}

fn action_of<T: 'static>(action: &AnyAction) -> &T {
    let value: &dyn Any = &*action.0;
    &within::<Plain<T>>(value).0
}

impl<M> AnyModel for Within<M>
where
    M: Live<State: 'static, Action: 'static> + Send,
{
    fn init_states(&self) -> Vec<AnyState> {
        self.model.init_states().into_iter().map(any_state).collect()
    }

    fn actions(&self, state: &AnyState, actions: &mut Vec<AnyAction>) {
        let mut own = Vec::new();
        self.model.actions(state_of(state), &mut own);
        actions.extend(own.into_iter().map(|action| AnyAction(Arc::new(Plain(action)))));
    }

    fn next_noted(&self, state: &AnyState, action: &AnyAction, notes: &mut Notes) -> Option<AnyState> {
        let action: &M::Action = action_of(action);
        self.model.next_noted(state_of(state), action.clone(), notes).map(any_state)
    }

    fn properties(&self) -> Vec<(Expectation, &'static str)> {
        self.properties.iter().map(|property| (property.expectation.clone(), property.name)).collect()
    }

    fn holds(&self, property: usize, state: &AnyState) -> bool {
        (self.properties[property].condition)(&self.model, state_of(state))
    }

    fn within_boundary(&self, state: &AnyState) -> bool {
        self.model.within_boundary(state_of(state))
    }

    fn may_stop(&self, state: &AnyState) -> bool {
        self.model.may_stop(state_of(state))
    }

    fn lanes(&self, state: &AnyState) -> Vec<Lane> {
        self.model.lanes(state_of(state))
    }

    fn name_of_action(&self, action: &AnyAction) -> String {
        self.model.name_of_action(action_of(action))
    }

    fn events(&self, before: &AnyState, action: &AnyAction, after: &AnyState) -> Vec<StepEvent> {
        self.model.events(state_of(before), action_of(action), state_of(after))
    }

    fn stuck_property(&self) -> &'static str {
        self.model.stuck_property()
    }

    fn between_rounds(&self, state: &AnyState) -> bool {
        self.model.between_rounds(state_of(state))
    }

    fn reductions(&self) -> Vec<&'static str> {
        self.model.reductions()
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.model.kinds()
    }

    fn points(&self) -> Vec<String> {
        self.model.points()
    }

    fn traces(&self, choices: &[u32]) -> Vec<String> {
        self.model.traces(choices)
    }

    fn kind_of_action(&self, action: &AnyAction) -> usize {
        self.model.kind_of_action(action_of(action))
    }

    fn goal_property(&self) -> &'static str {
        self.model.goal_property()
    }

    fn obligations(&self) -> Vec<Obligation> {
        self.model.obligations()
    }

    fn fairness(&self) -> Vec<String> {
        self.model.fairness()
    }

    fn mark_state(&self, state: &AnyState) -> StateMarks {
        self.model.mark_state(state_of(state))
    }

    fn mark_step(&self, from: &AnyState, action: &AnyAction, to: &AnyState) -> StepMarks {
        self.model.mark_step(state_of(from), action_of(action), state_of(to))
    }
}

/// The condition of the property at an index. Stateright's properties hold plain functions, which can capture none.
const fn condition<const INDEX: usize>() -> fn(&Erased, &AnyState) -> bool {
    |model, state| model.0.holds(INDEX, state)
}

macro_rules! conditions {
    ($($index:literal)*) => { [$(condition::<$index>()),*] };
}

/// By index; as many as the explorer takes.
const CONDITIONS: [fn(&Erased, &AnyState) -> bool; super::search::MOST_PROPERTIES] = conditions!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
);

impl Model for Erased {
    type State = AnyState;
    type Action = AnyAction;

    fn init_states(&self) -> Vec<AnyState> {
        self.0.init_states()
    }

    fn actions(&self, state: &AnyState, actions: &mut Vec<AnyAction>) {
        self.0.actions(state, actions);
    }

    fn next_state(&self, state: &AnyState, action: AnyAction) -> Option<AnyState> {
        self.0.next_noted(state, &action, &mut Notes::default())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let own = self.0.properties().into_iter().zip(CONDITIONS);
        own.map(|((expectation, name), condition)| Property { expectation, name, condition }).collect()
    }

    fn within_boundary(&self, state: &AnyState) -> bool {
        self.0.within_boundary(state)
    }
}

impl Explorable for Erased {
    fn may_stop(&self, state: &AnyState) -> bool {
        self.0.may_stop(state)
    }

    fn lanes(&self, state: &AnyState) -> Vec<Lane> {
        self.0.lanes(state)
    }

    fn name_of_action(&self, action: &AnyAction) -> String {
        self.0.name_of_action(action)
    }

    fn events(&self, before: &AnyState, action: &AnyAction, after: &AnyState) -> Vec<StepEvent> {
        self.0.events(before, action, after)
    }

    fn stuck_property(&self) -> &'static str {
        self.0.stuck_property()
    }

    fn between_rounds(&self, state: &AnyState) -> bool {
        self.0.between_rounds(state)
    }

    fn reductions(&self) -> Vec<&'static str> {
        self.0.reductions()
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.0.kinds()
    }

    fn points(&self) -> Vec<String> {
        self.0.points()
    }

    fn next_noted(&self, state: &AnyState, action: AnyAction, notes: &mut Notes) -> Option<AnyState> {
        self.0.next_noted(state, &action, notes)
    }

    fn traces(&self, choices: &[u32]) -> Vec<String> {
        self.0.traces(choices)
    }

    fn kind_of_action(&self, action: &AnyAction) -> usize {
        self.0.kind_of_action(action)
    }
}

impl Live for Erased {
    fn goal_property(&self) -> &'static str {
        self.0.goal_property()
    }

    fn obligations(&self) -> Vec<Obligation> {
        self.0.obligations()
    }

    fn fairness(&self) -> Vec<String> {
        self.0.fairness()
    }

    fn mark_state(&self, state: &AnyState) -> StateMarks {
        self.0.mark_state(state)
    }

    fn mark_step(&self, from: &AnyState, action: &AnyAction, to: &AnyState) -> StepMarks {
        self.0.mark_step(from, action, to)
    }
}
