//! The breadth-first search: level by level, block by block, to the end of the state space or to the first fault.
//!
//! Ids are given in breadth-first order (by parent, then by action), so that the fault with the smallest id has a
//! shortest path, and the same one with any number of threads.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stateright::{Expectation, Property};

use super::error::ExploreError;
use super::expand::{Harvest, Marking, View, expand};
use super::fingerprint::fingerprint;
use super::graph::Graph;
use super::model::Explorable;
use super::notes::{MOST_NOTES, Notes};
use super::observe::{Observer, Pulse};
use super::seen::{Origin, Seen};
use super::trail::{ROOT, Trail, Trails};

/// States expanded between two looks at the budget. Fixed, because the counts of a search that ends early depend on
/// it; the order of ids does not.
const BLOCK: usize = 1 << 14;
pub(super) const MOST_PROPERTIES: usize = 64;
const MOST_KINDS: usize = 128;
/// What judging progress takes for each step, beyond the recorded graph: the edges backward, and some words a state.
const EDGE_BYTES: u64 = 12;

/// How to explore. The default has no budget and uses every core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings<'a> {
    /// Number of threads; 0 means one for each core.
    pub threads: usize,
    /// Unique states after which to give up without a verdict.
    pub most_states: Option<u64>,
    /// Time after which to give up without a verdict.
    pub most_time: Option<Duration>,
    /// What looks on, and may end the search without a verdict.
    pub observer: Option<&'a dyn Observer>,
}

/// Size of what was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Distinct states.
    pub unique: u64,
    /// Steps taken, those to known states included.
    pub transitions: u64,
    /// Steps on the shortest way to the state that is farthest from the initial ones.
    pub depth: u32,
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Unknown {
    /// The model's `within_boundary` cut so many steps off.
    Boundary {
        /// Number of steps that led outside.
        cut: u64,
    },
    /// All 2³¹ state ids were used.
    Ids,
    /// The budget of memory was spent.
    Memory,
    /// The budget of states was spent.
    States,
    /// The budget of time was spent.
    Time,
}

/// What ended a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The model panicked.
    Asserted {
        /// State in which it did.
        at: u32,
        /// Index of the action it was taking; `None` while it was checking the state itself.
        action: Option<u32>,
        /// Text of the panic.
        message: String,
    },
    /// Every reachable state was expanded and none is at fault.
    Exhausted,
    /// A state has no successor and may not stop.
    Stuck {
        /// The state.
        at: u32,
    },
    /// The search was given up.
    Unknown(Unknown),
    /// A state violates an `always` property.
    Violated {
        /// The state.
        at: u32,
        /// Name of the property.
        property: &'static str,
    },
}

/// A finished search.
pub struct Exploration {
    /// What ended it.
    pub end: End,
    /// How far it came.
    pub counts: Counts,
    /// `sometimes` properties without a witness and kinds of action that never fired; meaningful once exhausted.
    pub missing: Vec<String>,
    /// `sometimes` properties with a witness and kinds of action that fired.
    pub reached: Vec<String>,
    /// Number of states at each distance from the initial ones, as far as all of them were found.
    pub levels: Vec<u64>,
    /// Expanded states that are between rounds.
    pub between_rounds: u64,
    /// States found that were not expanded; none once exhausted.
    pub frontier: u64,
    /// What the steps covered.
    pub notes: Notes,
    /// Time from start to end.
    pub elapsed: Duration,
    /// Ways back to the initial states.
    pub(crate) trails: Trails,
    /// The state graph, if it was recorded.
    pub(crate) graph: Option<Graph>,
}

impl Exploration {
    /// A shortest way to state `id`, which must be one of this exploration's.
    #[must_use]
    pub fn trail_to(&self, id: u32) -> Trail {
        self.trails.to(id)
    }

    /// A shortest way to the state at fault.
    #[must_use]
    pub fn trail_to_fault(&self) -> Option<Trail> {
        match self.end {
            End::Asserted { at, .. } | End::Stuck { at } | End::Violated { at, .. } => {
                Some(self.trail_to(at))
            }
            End::Exhausted | End::Unknown(_) => None,
        }
    }
}

/// Explores `model` until it is exhausted, at fault, or out of budget.
///
/// # Errors
/// Any [`ExploreError`] but `Nondeterministic`, before a single state is expanded.
pub fn explore<M: Explorable>(model: &M, settings: &Settings) -> Result<Exploration, ExploreError> {
    search(model, settings, None)
}

/// As [`explore`], and records the graph if there is a `marking`.
pub(crate) fn search<M: Explorable>(
    model: &M,
    settings: &Settings<'_>,
    marking: Option<Marking<M>>,
) -> Result<Exploration, ExploreError> {
    let properties = model.properties();
    refuse_unsound(&properties)?;
    limit("properties", properties.len(), MOST_PROPERTIES)?;
    limit("kinds of action", model.kinds().len(), MOST_KINDS)?;
    limit("points", model.points().len(), MOST_NOTES)?;
    Search::new(model, settings, properties, marking).run()
}

/// Refuses a list that is longer than its bit set.
pub(crate) const fn limit(what: &'static str, listed: usize, limit: usize) -> Result<(), ExploreError> {
    if listed > limit { Err(ExploreError::TooMany { what, listed, limit }) } else { Ok(()) }
}

/// `eventually` is judged along single paths by Stateright and misses cycles and joins: no answer is better.
pub(crate) fn refuse_unsound<M: Explorable>(properties: &[Property<M>]) -> Result<(), ExploreError> {
    let eventually =
        properties.iter().find(|property| matches!(property.expectation, Expectation::Eventually));
    eventually.map_or(Ok(()), |property| Err(ExploreError::Eventually { name: property.name }))
}

struct Search<'a, M: Explorable> {
    model: &'a M,
    settings: &'a Settings<'a>,
    properties: Vec<Property<M>>,
    marking: Option<Marking<M>>,
    threads: usize,
    started: Instant,
    seen: Seen<M::State>,
    trails: Trails,
    graph: Option<Graph>,
    counts: Counts,
    levels: Vec<u64>,
    expanded: u32,
    between_rounds: u64,
    cut: u64,
    witnessed: u64,
    fired: u128,
    notes: Notes,
}

impl<'a, M: Explorable> Search<'a, M> {
    fn new(
        model: &'a M,
        settings: &'a Settings<'a>,
        properties: Vec<Property<M>>,
        marking: Option<Marking<M>>,
    ) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            model,
            settings,
            properties,
            threads: if settings.threads == 0 { cores } else { settings.threads },
            started: Instant::now(),
            seen: Seen::new(),
            trails: Trails::default(),
            graph: marking.is_some().then(Graph::default),
            marking,
            counts: Counts::default(),
            levels: Vec::new(),
            expanded: 0,
            between_rounds: 0,
            cut: 0,
            witnessed: 0,
            fired: 0,
            notes: Notes::default(),
        }
    }

    fn run(mut self) -> Result<Exploration, ExploreError> {
        let mut level = self.roots();
        if level.blocks.is_empty() {
            return Err(ExploreError::NoInitialState);
        }
        let end = loop {
            self.levels.push(level.len());
            level = match self.expand_level(level) {
                Ok(next) => next,
                Err(end) => break end,
            };
            if level.blocks.is_empty() {
                break self.exhausted();
            }
            self.counts.depth += 1;
        };
        Ok(self.finish(end))
    }

    fn roots(&mut self) -> Level<M::State> {
        let mut level = Level::default();
        for (index, state) in (0u32..).zip(self.model.init_states()) {
            if self.model.within_boundary(&state) {
                self.seen.claim(fingerprint(&state), Origin { parent: ROOT, action: index }, state);
            }
        }
        let settled = self.seen.settle(0);
        for (origin, state) in settled.into_iter().flat_map(|settled| settled.states) {
            self.trails.push(origin);
            level.push(state);
        }
        level
    }

    fn expand_level(&mut self, mut level: Level<M::State>) -> Result<Level<M::State>, End> {
        let mut next = Level::default();
        while let Some(block) = level.blocks.pop_front() {
            self.check_budget()?;
            let harvests = self.expand_block(&block)?;
            self.merge(harvests, &mut next)?;
        }
        Ok(next)
    }

    fn check_budget(&self) -> Result<(), End> {
        if self.settings.most_states.is_some_and(|most| self.trails.len() as u64 > most) {
            return Err(End::Unknown(Unknown::States));
        }
        if self.settings.most_time.is_some_and(|most| self.started.elapsed() > most) {
            return Err(End::Unknown(Unknown::Time));
        }
        match self.settings.observer.map(|observer| observer.observe(&self.pulse())) {
            Some(ControlFlow::Break(unknown)) => Err(End::Unknown(unknown)),
            Some(ControlFlow::Continue(())) | None => Ok(()),
        }
    }

    fn pulse(&self) -> Pulse<'_> {
        let graph = if self.graph.is_some() { self.counts.transitions * EDGE_BYTES } else { 0 };
        Pulse {
            counts: Counts { unique: self.trails.len() as u64, ..self.counts },
            frontier: self.frontier(),
            levels: &self.levels,
            elapsed: self.started.elapsed(),
            ahead: self.seen.growth() + graph,
        }
    }

    fn frontier(&self) -> u64 {
        (self.trails.len() as u64).saturating_sub(u64::from(self.expanded))
    }

    /// Expands `block`, or returns the first fault in it.
    fn expand_block(&mut self, block: &[M::State]) -> Result<Vec<Harvest>, End> {
        let view = View {
            model: self.model,
            properties: &self.properties,
            marking: self.marking.as_ref(),
            seen: &self.seen,
            witnessed: self.witnessed,
        };
        let mut harvests = expand(&view, block, self.expanded, self.threads);
        self.expanded += u32::try_from(block.len()).unwrap_or(u32::MAX);
        harvests.iter_mut().find_map(|harvest| harvest.end.take()).map_or(Ok(harvests), Err)
    }

    fn merge(&mut self, harvests: Vec<Harvest>, next: &mut Level<M::State>) -> Result<(), End> {
        let first = u32::try_from(self.trails.len()).unwrap_or(u32::MAX);
        let settled = self.seen.settle(first).ok_or(End::Unknown(Unknown::Ids))?;
        for harvest in harvests {
            self.counts.transitions += harvest.transitions;
            self.cut += harvest.cut;
            self.between_rounds += harvest.between_rounds;
            self.witnessed |= harvest.witnessed;
            self.fired |= harvest.fired;
            self.notes.join(&harvest.notes);
            if let Some(graph) = &mut self.graph {
                graph.extend(harvest.edges, |claim| settled.id_of(claim));
            }
        }
        for (origin, state) in settled.states {
            self.trails.push(origin);
            next.push(state);
        }
        Ok(())
    }

    const fn exhausted(&self) -> End {
        if self.cut > 0 { End::Unknown(Unknown::Boundary { cut: self.cut }) } else { End::Exhausted }
    }

    /// The witnesses and kinds of action that were reached, and those that were not.
    fn witnesses(&self) -> (Vec<String>, Vec<String>) {
        let sometimes = |(index, property): (usize, &Property<M>)| {
            let witnessed = self.witnessed & (1 << index) != 0;
            matches!(property.expectation, Expectation::Sometimes)
                .then(|| (property.name.to_owned(), witnessed))
        };
        let fired = |(index, kind): (usize, &str)| (format!("action {kind}"), self.fired & (1 << index) != 0);
        let witnesses = self.properties.iter().enumerate().filter_map(sometimes);
        let all = witnesses.chain(self.model.kinds().into_iter().enumerate().map(fired));
        let (reached, missing): (Vec<_>, Vec<_>) = all.partition(|(_, reached)| *reached);
        let names = |named: Vec<(String, bool)>| named.into_iter().map(|(name, _)| name).collect();
        (names(reached), names(missing))
    }

    fn finish(mut self, end: End) -> Exploration {
        self.counts.unique = self.trails.len() as u64;
        let (reached, missing) = self.witnesses();
        Exploration {
            end,
            counts: self.counts,
            missing,
            reached,
            frontier: self.frontier(),
            levels: self.levels,
            between_rounds: self.between_rounds,
            notes: self.notes,
            elapsed: self.started.elapsed(),
            trails: self.trails,
            graph: self.graph,
        }
    }
}

/// States at one distance from the initial ones, in blocks that are dropped as soon as they are expanded.
struct Level<S> {
    blocks: VecDeque<Vec<S>>,
}

impl<S> Default for Level<S> {
    fn default() -> Self {
        Self { blocks: VecDeque::new() }
    }
}

impl<S> Level<S> {
    fn len(&self) -> u64 {
        self.blocks.iter().map(|block| block.len() as u64).sum()
    }

    fn push(&mut self, state: S) {
        match self.blocks.back_mut() {
            Some(block) if block.len() < BLOCK => block.push(state),
            Some(_) | None => self.blocks.push_back(vec![state]),
        }
    }
}
