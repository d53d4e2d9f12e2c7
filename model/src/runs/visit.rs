//! A model looked at from where a script leads: the way there, what is wrong on it, and what is possible next.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::outcome::Kind;
use super::retrace::{Script, Stop, fault_in, stepped, walk};
use super::runner::ASSERTION;
use crate::explore::{Explorable, Live, StepEvent, actions, goal_in_reach, turning_point};
use crate::report::Story;

/// Something that can happen in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its index among the actions of the state.
    pub choice: u32,
    /// Its name.
    pub action: String,
    /// What happens in the step, in order; nothing if the model panics in it.
    pub events: Vec<StepEvent>,
    /// What is wrong in the state that it leads to, if anything is: how, and by which property.
    pub fault: Option<(Kind, String)>,
}

/// What was seen along a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The way, as far as it led.
    pub story: Story,
    /// Why it ends before the script does.
    pub stop: Option<Stop>,
    /// The scenes in which something is wrong: their index, how, and by which property.
    pub faults: Vec<(usize, Kind, String)>,
    /// What can happen in the scene that was asked about, in the model's order.
    pub offers: Vec<Offer>,
    /// Whether that scene is a proper end.
    pub may_stop: bool,
}

/// What can still come of the end of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// No benign steps lead to a goal from the scene with this index on.
    LostFrom(usize),
    /// Benign steps lead to a goal.
    Open,
    /// The model has no goal, or it takes too many states to tell.
    Untold,
}

/// Follows `script` and looks around after its first `at` steps.
pub(super) fn visit<M: Explorable>(model: &M, script: &Script, at: usize) -> Visit {
    let (walk, stop) = walk(model, script);
    let wrong = |(index, (_, state)): (usize, &(_, M::State))| {
        fault_in(model, state).map(|(kind, property)| (index, kind, property))
    };
    let here = walk.get(at).map(|(_, state)| state);
    Visit {
        faults: walk.iter().enumerate().filter_map(wrong).collect(),
        offers: here.map_or_else(Vec::new, |state| offers(model, state)),
        may_stop: here.is_some_and(|state| model.may_stop(state)),
        story: Story::of(model, &walk, String::new()),
        stop,
    }
}

fn offers<M: Explorable>(model: &M, state: &M::State) -> Vec<Offer> {
    let offered = (0..).zip(actions(model, state));
    offered.filter_map(|(choice, action)| offer(model, state, choice, &action)).collect()
}

/// The action with what it leads to; `None` if it leads nowhere within the boundary.
fn offer<M: Explorable>(model: &M, state: &M::State, choice: u32, action: &M::Action) -> Option<Offer> {
    let name = model.name_of_action(action);
    match stepped(model, state, action) {
        Ok(next) => {
            let next = next.filter(|next| model.within_boundary(next))?;
            let events = model.events(state, action, &next);
            Some(Offer { choice, action: name, events, fault: fault_in(model, &next) })
        }
        Err(_) => {
            let fault = Some((Kind::Assertion, ASSERTION.to_owned()));
            Some(Offer { choice, action: name, events: Vec::new(), fault })
        }
    }
}

/// Whether the end of `script` still leads to a goal; if not, from where on.
pub(super) fn outlook<M: Live>(model: &M, script: &Script) -> Outlook {
    let look = || {
        let (walk, _) = walk(model, script);
        let (_, last) = walk.last()?;
        match goal_in_reach(model, last)? {
            true => Some(Outlook::Open),
            false => turning_point(model, &walk).map(Outlook::LostFrom),
        }
    };
    // A step beside the script may panic.
    catch_unwind(AssertUnwindSafe(look)).ok().flatten().unwrap_or(Outlook::Untold)
}
