//! Expansion of a block of the frontier on all threads.
//!
//! A block is cut into chunks of a fixed size and the harvests come back in the order of the chunks; new states go
//! into `seen`, which puts them in order. Nothing downstream can tell how many threads there were.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use stateright::{Expectation, Property};

use super::fingerprint::fingerprint;
use super::model::Explorable;
use super::notes::Notes;
use super::search::End;
use super::seen::{Claim, Origin, Seen};
use super::trail::actions;

const CHUNK: usize = 256;

/// Functions that compute the marks of states and steps, packed.
pub(crate) struct Marking<M: Explorable> {
    /// Marks of a state.
    pub(crate) state: fn(&M, &M::State) -> u64,
    /// Marks of a step.
    pub(crate) step: fn(&M, &M::State, &M::Action, &M::State) -> u64,
}

/// What all workers share while a block is expanded.
pub(crate) struct View<'a, M: Explorable> {
    /// The model.
    pub(crate) model: &'a M,
    /// Its properties.
    pub(crate) properties: &'a [Property<M>],
    /// Its marks, if the graph is recorded.
    pub(crate) marking: Option<&'a Marking<M>>,
    /// The states seen, to which successors are added.
    pub(crate) seen: &'a Seen<M::State>,
    /// Bit k: property k is a `sometimes` that needs no further witness.
    pub(crate) witnessed: u64,
}

/// Edges out of consecutive states.
#[derive(Default)]
pub(crate) struct Edges {
    /// Out-degree of each state.
    pub(crate) degrees: Vec<u32>,
    /// Marks of each state.
    pub(crate) states: Vec<u64>,
    /// Target and marks of each edge.
    pub(crate) steps: Vec<(Claim, u64)>,
}

/// What the expansion of one chunk yields.
#[derive(Default)]
pub(crate) struct Harvest {
    /// Edges, if the graph is recorded.
    pub(crate) edges: Edges,
    /// Number of successors inside the boundary.
    pub(crate) transitions: u64,
    /// Number of successors outside the boundary.
    pub(crate) cut: u64,
    /// Number of expanded states that are between rounds.
    pub(crate) between_rounds: u64,
    /// Bit k: `sometimes` property k was witnessed.
    pub(crate) witnessed: u64,
    /// Bit k: an action of kind k was taken.
    pub(crate) fired: u128,
    /// What the steps covered.
    pub(crate) notes: Notes,
    /// What ends the search in this chunk; nothing after it was expanded.
    pub(crate) end: Option<End>,
    attempt: Option<u32>,
}

/// Expands `block`, whose first state has the id `first`; the harvests are in the order of the states.
pub(crate) fn expand<M: Explorable>(
    view: &View<'_, M>,
    block: &[M::State],
    first: u32,
    threads: usize,
) -> Vec<Harvest> {
    let chunks: Vec<(u32, &[M::State])> = (first..).step_by(CHUNK).zip(block.chunks(CHUNK)).collect();
    let workers = threads.min(chunks.len());
    if workers <= 1 {
        return chunks.iter().map(|(id, states)| expand_chunk(view, *id, states)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let claim = || chunks.get(next.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(claim)
            .map(|(id, states)| (*id, expand_chunk(view, *id, states)))
            .collect::<Vec<_>>()
    };
    let mut harvests = thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    harvests.sort_unstable_by_key(|(id, _)| *id);
    harvests.into_iter().map(|(_, harvest)| harvest).collect()
}

fn expand_chunk<M: Explorable>(view: &View<'_, M>, first: u32, states: &[M::State]) -> Harvest {
    let mut harvest = Harvest::default();
    for (id, state) in (first..).zip(states) {
        harvest.attempt = None;
        let expanded = catch_unwind(AssertUnwindSafe(|| expand_state(view, id, state, &mut harvest)));
        harvest.end = match expanded {
            Ok(end) => end,
            Err(panic) => {
                Some(End::Asserted { at: id, action: harvest.attempt, message: message_of(&*panic) })
            }
        };
        if harvest.end.is_some() {
            break;
        }
    }
    harvest
}

fn expand_state<M: Explorable>(
    view: &View<'_, M>,
    id: u32,
    state: &M::State,
    harvest: &mut Harvest,
) -> Option<End> {
    if let Some(property) = judge(view, state, harvest) {
        return Some(End::Violated { at: id, property });
    }
    harvest.between_rounds += u64::from(view.model.between_rounds(state));
    let before = (harvest.transitions, harvest.cut);
    for (index, action) in (0u32..).zip(actions(view.model, state)) {
        harvest.attempt = Some(index);
        take(view, (id, state), (index, action), harvest);
    }
    harvest.attempt = None;
    if let Some(marking) = view.marking {
        let degree = harvest.transitions - before.0;
        harvest.edges.degrees.push(u32::try_from(degree).unwrap_or(u32::MAX));
        harvest.edges.states.push((marking.state)(view.model, state));
    }
    let stuck = before == (harvest.transitions, harvest.cut) && !view.model.may_stop(state);
    stuck.then_some(End::Stuck { at: id })
}

/// Checks the properties in `state` and returns the first that is violated.
fn judge<M: Explorable>(view: &View<'_, M>, state: &M::State, harvest: &mut Harvest) -> Option<&'static str> {
    for (index, property) in view.properties.iter().enumerate() {
        let bit = 1u64 << index;
        match property.expectation {
            Expectation::Always if !(property.condition)(view.model, state) => return Some(property.name),
            Expectation::Sometimes if (view.witnessed | harvest.witnessed) & bit == 0 => {
                harvest.witnessed |= if (property.condition)(view.model, state) { bit } else { 0 };
            }
            Expectation::Always | Expectation::Sometimes | Expectation::Eventually => {}
        }
    }
    None
}

/// Takes one action of one state and harvests where it leads.
fn take<M: Explorable>(
    view: &View<'_, M>,
    (parent, from): (u32, &M::State),
    (index, action): (u32, M::Action),
    harvest: &mut Harvest,
) {
    let kind = u32::try_from(view.model.kind_of_action(&action)).unwrap_or(u32::MAX);
    let marked = view.marking.map(|marking| (marking, action.clone()));
    let Some(state) = view.model.next_noted(from, action, &mut harvest.notes) else { return };
    if !view.model.within_boundary(&state) {
        harvest.cut += 1;
        return;
    }
    harvest.transitions += 1;
    harvest.fired |= 1u128.checked_shl(kind).unwrap_or(0);
    let marks = marked.map(|(marking, action)| (marking.step)(view.model, from, &action, &state));
    let claim = view.seen.claim(fingerprint(&state), Origin { parent, action: index }, state);
    harvest.edges.steps.extend(marks.map(|marks| (claim, marks)));
}

/// The text of a panic.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
