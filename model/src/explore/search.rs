//! The breadth-first search: level by level, block by block, to the end of the state space or to the first fault.
//!
//! Ids are given in breadth-first order (by parent, then by action), so that the fault with the smallest id has a
//! shortest path, and the same one with any number of threads.

use std::io::Read;
use std::ops::ControlFlow;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stateright::{Expectation, Property};

use super::error::ExploreError;
use super::expand::{Harvest, Marking, View, expand};
use super::fingerprint::fingerprint;
use super::graph::Graph;
use super::level::{Level, revive};
use super::model::Explorable;
use super::notes::{MOST_NOTES, Notes};
use super::observe::{Observer, Pulse};
use super::seen::{Origin, Seen};
use super::snapshot::{Keeper, Resumed, Snapshot, Word, unfit};
use super::tally::{Spent, Tally};
use super::trail::{ROOT, Trail, Trails};

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
    /// Where the search is kept, and what it goes on from.
    pub keeper: Option<&'a dyn Keeper>,
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
    /// Somebody asked for an end.
    Stopped,
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
    /// Time from start to end, that before it was resumed included.
    pub elapsed: Duration,
    /// What it was resumed from.
    pub resumed: Option<Resumed>,
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
/// Any [`ExploreError`], before a single state is expanded.
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

/// What is left of the level that is being expanded, and what was found of the next one.
type Frontier<S> = (Level<S>, Level<S>);

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
    tally: Tally,
    resumed: Option<Resumed>,
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
            tally: Tally::default(),
            resumed: None,
        }
    }

    fn run(mut self) -> Result<Exploration, ExploreError> {
        let kept = self.settings.keeper.map_or(Ok(None), Keeper::resume)?;
        let (mut level, mut next) = match kept {
            Some(mut kept) => self.resume(&mut *kept)?,
            None => (self.roots()?, Level::default()),
        };
        let end = loop {
            level = match self.expand_level(level, next) {
                Ok(found) => found,
                Err(end) => break end,
            };
            if level.is_empty() {
                break self.exhausted();
            }
            self.tally.levels.push(level.len());
            next = Level::default();
        };
        Ok(self.finish(end))
    }

    fn roots(&mut self) -> Result<Level<M::State>, ExploreError> {
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
        self.tally.levels.push(level.len());
        if level.is_empty() { Err(ExploreError::NoInitialState) } else { Ok(level) }
    }

    /// Takes up what a [`Snapshot`] wrote: what is left of the level that was being expanded, and what was found of the next one.
    fn resume(&mut self, kept: &mut dyn Read) -> Result<Frontier<M::State>, ExploreError> {
        self.tally = Tally::load(kept)?;
        self.trails = Trails::load(kept)?;
        let known = u32::try_from(self.trails.len()).unwrap_or(u32::MAX);
        self.graph = (u32::get(kept)? != 0).then(|| Graph::load(kept, known)).transpose()?;
        self.seen = Seen::load(kept, known)?;
        let (first, level_end) = (self.tally.expanded, self.tally.level_end());
        if first >= level_end || level_end > known || self.graph.is_some() != self.marking.is_some() {
            return Err(unfit("its parts do not belong together").into());
        }
        self.resumed = Some(Resumed { states: u64::from(known), seconds: self.tally.earlier.as_secs_f64() });
        let (mut level, mut next) = (Level::default(), Level::default());
        revive(self.model, &self.trails, first, &mut |id, state| {
            if self.seen.id_of(fingerprint(&state)) != Some(id) {
                return Err(ExploreError::Nondeterministic);
            }
            if id < level_end {
                level.push(state)
            } else {
                next.push(state)
            }
            Ok(())
        })?;
        Ok((level, next))
    }

    /// Expands `level`, of whose successors `next` are found already.
    fn expand_level(
        &mut self,
        mut level: Level<M::State>,
        mut next: Level<M::State>,
    ) -> Result<Level<M::State>, End> {
        while !level.is_empty() {
            self.pause()?;
            let block = level.pop().unwrap_or_default();
            let harvests = self.expand_block(&block)?;
            self.merge(harvests, &mut next)?;
        }
        Ok(next)
    }

    /// Looks at the budget between two blocks, and has the search kept if that is due or the last chance.
    fn pause(&self) -> Result<(), End> {
        let within_budget = self.check_budget();
        if let Some(keeper) = self.settings.keeper
            && (within_budget.is_err() || keeper.is_due())
        {
            let spent = Spent(&self.tally, self.elapsed());
            keeper.keep(&Snapshot {
                counts: self.tally.counts(self.trails.len()),
                elapsed: spent.1,
                parts: [&spent, &self.trails, &self.graph, &self.seen],
            });
        }
        within_budget
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

    /// Time spent by all processes.
    fn elapsed(&self) -> Duration {
        self.tally.earlier + self.started.elapsed()
    }

    fn pulse(&self) -> Pulse<'_> {
        let graph = if self.graph.is_some() { self.tally.transitions * EDGE_BYTES } else { 0 };
        Pulse {
            counts: self.tally.counts(self.trails.len()),
            frontier: self.frontier(),
            levels: &self.tally.levels,
            elapsed: self.started.elapsed(),
            ahead: self.seen.growth() + graph,
        }
    }

    fn frontier(&self) -> u64 {
        (self.trails.len() as u64).saturating_sub(u64::from(self.tally.expanded))
    }

    /// Expands `block`, or returns the first fault in it.
    fn expand_block(&mut self, block: &[M::State]) -> Result<Vec<Harvest>, End> {
        let view = View {
            model: self.model,
            properties: &self.properties,
            marking: self.marking.as_ref(),
            seen: &self.seen,
            witnessed: self.tally.witnessed,
        };
        let mut harvests = expand(&view, block, self.tally.expanded, self.threads);
        self.tally.expanded += u32::try_from(block.len()).unwrap_or(u32::MAX);
        harvests.iter_mut().find_map(|harvest| harvest.end.take()).map_or(Ok(harvests), Err)
    }

    fn merge(&mut self, harvests: Vec<Harvest>, next: &mut Level<M::State>) -> Result<(), End> {
        let first = u32::try_from(self.trails.len()).unwrap_or(u32::MAX);
        let settled = self.seen.settle(first).ok_or(End::Unknown(Unknown::Ids))?;
        for harvest in harvests {
            self.tally.add(&harvest);
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
        let cut = self.tally.cut;
        if cut > 0 { End::Unknown(Unknown::Boundary { cut }) } else { End::Exhausted }
    }

    fn finish(self, end: End) -> Exploration {
        let (reached, missing) = self.tally.witnesses(self.model, &self.properties);
        Exploration {
            end,
            counts: self.tally.counts(self.trails.len()),
            missing,
            reached,
            frontier: self.frontier(),
            elapsed: self.elapsed(),
            resumed: self.resumed,
            levels: self.tally.levels,
            between_rounds: self.tally.between_rounds,
            notes: self.tally.notes,
            trails: self.trails,
            graph: self.graph,
        }
    }
}
