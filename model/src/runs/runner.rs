//! Running a model: from an exploration to an outcome with its story.

use crate::explore::{
    End, Explorable, Exploration, ExploreError, Live, Settings, Stall, Tours, Trail, Walk, explore,
    explore_live, idle_marks, stall, tours, turning_point, wander, ways_to_points,
};
use crate::report::Story;
use stateright::Expectation;
use std::collections::BTreeSet;

use super::outcome::{Kind, Outcome, Sampled, Scope, Verdict};
use super::retrace::{Retraced, Script, retrace, stalled_at_end};
use super::visit::{Outlook, Visit, outlook, visit};

/// The property under which a panic of the model is reported.
pub const ASSERTION: &str = "assertion";

/// A model of whatever type, ready to be run.
pub trait Runner: Send + Sync {
    /// Ids of the properties that are checked.
    fn properties(&self) -> Vec<&'static str>;

    /// Names of the witnesses and kinds of action that must be reached.
    fn witnesses(&self) -> Vec<String>;

    /// Explores the model and judges it.
    ///
    /// # Errors
    /// [`ExploreError`] when the model cannot be judged soundly.
    fn run(&self, settings: &Settings<'_>) -> Result<Outcome, ExploreError>;

    /// Walks through the model at random for `steps` steps or to the first fault. Progress is not judged.
    ///
    /// # Errors
    /// [`ExploreError`] when the model cannot be judged soundly.
    fn sample(&self, steps: u64, choose: &mut dyn FnMut(usize) -> usize) -> Result<Sampled, ExploreError>;

    /// Takes recorded steps again, without exploring, and says what is wrong where they end.
    fn retrace(&self, script: &Script) -> Retraced;

    /// Follows `script`, without judging progress, and says what is possible after its first `at` steps.
    fn visit(&self, script: &Script, at: usize) -> Visit;

    /// Whether the end of `script` still leads to a goal.
    fn outlook(&self, script: &Script) -> Outlook;

    /// Ways that take every edge of the boundary graph, which must fit into memory.
    fn tours(&self) -> Tours;

    /// For each of `wanted` that is reached, a shortest way to it; it is taken out of `wanted`.
    fn ways_to_points(&self, wanted: &mut BTreeSet<String>) -> Vec<(String, Vec<u32>)>;

    /// The traces that ranks write on the way of these actions, as [`Explorable::traces`] says; none where the ranks are not the runtime's.
    fn traces(&self, choices: &[u32]) -> Vec<String>;
}

/// Runs a model for safety: properties, witnesses, stuck states.
pub struct Safety<M>(pub M);

/// Runs a model for safety and then for progress.
pub struct Progress<M>(pub M);

impl<M: Explorable + Send> Runner for Safety<M> {
    fn properties(&self) -> Vec<&'static str> {
        checked_in_states(&self.0)
    }

    fn witnesses(&self) -> Vec<String> {
        demanded(&self.0)
    }

    fn run(&self, settings: &Settings<'_>) -> Result<Outcome, ExploreError> {
        let exploration = explore(&self.0, settings)?;
        let fault = found_fault(&self.0, &exploration)?;
        let properties = checked_in_states(&self.0);
        Ok(outcome(&self.0, properties, exploration, fault.map(|fault| fault.tell(&self.0))))
    }

    fn sample(&self, steps: u64, choose: &mut dyn FnMut(usize) -> usize) -> Result<Sampled, ExploreError> {
        sample(&self.0, steps, choose)
    }

    fn retrace(&self, script: &Script) -> Retraced {
        retrace(&self.0, script, |_| None)
    }

    fn visit(&self, script: &Script, at: usize) -> Visit {
        visit(&self.0, script, at)
    }

    fn outlook(&self, _: &Script) -> Outlook {
        Outlook::Untold
    }

    fn tours(&self) -> Tours {
        tours(&self.0)
    }

    fn ways_to_points(&self, wanted: &mut BTreeSet<String>) -> Vec<(String, Vec<u32>)> {
        ways_to_points(&self.0, wanted)
    }

    fn traces(&self, choices: &[u32]) -> Vec<String> {
        self.0.traces(choices)
    }
}

impl<M: Live + Send> Runner for Progress<M> {
    fn properties(&self) -> Vec<&'static str> {
        checked_with_progress(&self.0)
    }

    fn witnesses(&self) -> Vec<String> {
        demanded(&self.0)
    }

    fn run(&self, settings: &Settings<'_>) -> Result<Outcome, ExploreError> {
        let model = &self.0;
        let properties = checked_with_progress(model);
        let mut exploration = explore_live(model, settings)?;
        exploration.missing.extend(idle_marks(model, &exploration));
        if let Some(fault) = found_fault(model, &exploration)? {
            let point_of_no_return = turning_point(model, &fault.walk);
            let (verdict, story) = fault.tell(model);
            let told = Some((verdict, Story { point_of_no_return, ..story }));
            return Ok(outcome(model, properties, exploration, told));
        }
        let stalled =
            stall(model, &exploration).map(|stall| tell_stall(model, &exploration, stall)).transpose()?;
        Ok(outcome(model, properties, exploration, stalled))
    }

    fn sample(&self, steps: u64, choose: &mut dyn FnMut(usize) -> usize) -> Result<Sampled, ExploreError> {
        sample(&self.0, steps, choose)
    }

    fn retrace(&self, script: &Script) -> Retraced {
        retrace(&self.0, script, |walk| stalled_at_end(&self.0, walk, script.cycle_from))
    }

    fn visit(&self, script: &Script, at: usize) -> Visit {
        visit(&self.0, script, at)
    }

    fn outlook(&self, script: &Script) -> Outlook {
        outlook(&self.0, script)
    }

    fn tours(&self) -> Tours {
        tours(&self.0)
    }

    fn ways_to_points(&self, wanted: &mut BTreeSet<String>) -> Vec<(String, Vec<u32>)> {
        ways_to_points(&self.0, wanted)
    }

    fn traces(&self, choices: &[u32]) -> Vec<String> {
        self.0.traces(choices)
    }
}

fn sample<M: Explorable>(
    model: &M,
    steps: u64,
    choose: &mut dyn FnMut(usize) -> usize,
) -> Result<Sampled, ExploreError> {
    let (wandered, fault) = wander(model, steps, choose)?;
    let fault = fault.map(|(end, trail)| fault_of(model, &end, &trail)).transpose()?.flatten();
    Ok(Sampled { wandered, fault: fault.map(|fault| fault.tell(model)) })
}

/// The properties that single states show, and that of a stuck one.
fn checked_in_states<M: Explorable>(model: &M) -> Vec<&'static str> {
    let always = |property: &stateright::Property<M>| {
        matches!(property.expectation, Expectation::Always).then_some(property.name)
    };
    let properties = model.properties().iter().filter_map(always).collect::<Vec<_>>();
    with_others(properties, [model.stuck_property()])
}

fn checked_with_progress<M: Live>(model: &M) -> Vec<&'static str> {
    let owed = model.obligations().into_iter().map(|owed| owed.property);
    with_others(checked_in_states(model), std::iter::once(model.goal_property()).chain(owed))
}

/// What must be reached, in the order in which certificates list it.
fn demanded<M: Explorable>(model: &M) -> Vec<String> {
    let sometimes = |property: &stateright::Property<M>| {
        matches!(property.expectation, Expectation::Sometimes).then(|| property.name.to_owned())
    };
    let witnesses: Vec<String> = model.properties().iter().filter_map(sometimes).collect();
    witnesses.into_iter().chain(model.kinds().into_iter().map(|kind| format!("action {kind}"))).collect()
}

/// The list with those of `others` that are not in it.
fn with_others(
    mut list: Vec<&'static str>,
    others: impl IntoIterator<Item = &'static str>,
) -> Vec<&'static str> {
    for other in others {
        if !list.contains(&other) {
            list.push(other);
        }
    }
    list
}

/// A fault of the search with the way to it.
struct Fault<M: Explorable> {
    kind: Kind,
    property: &'static str,
    walk: Walk<M>,
    ending: String,
}

impl<M: Explorable> Fault<M> {
    fn tell(self, model: &M) -> (Verdict, Story) {
        let verdict = Verdict::Fault { kind: self.kind, property: self.property.to_owned() };
        (verdict, Story::of(model, &self.walk, self.ending))
    }
}

fn found_fault<M: Explorable>(
    model: &M,
    exploration: &Exploration,
) -> Result<Option<Fault<M>>, ExploreError> {
    let trail = exploration.trail_to_fault();
    trail.map_or(Ok(None), |trail| fault_of(model, &exploration.end, &trail))
}

/// The fault at the end of `trail`, if `end` is one.
fn fault_of<M: Explorable>(model: &M, end: &End, trail: &Trail) -> Result<Option<Fault<M>>, ExploreError> {
    let walk = trail.walk(model)?;
    let (kind, property, ending) = match end {
        End::Exhausted | End::Unknown(_) => return Ok(None),
        End::Asserted { action, message, .. } => {
            (Kind::Assertion, ASSERTION, asserted(model, &walk, *action, message))
        }
        End::Stuck { .. } => {
            (Kind::Stuck, model.stuck_property(), "nothing can happen, and this is no proper end".to_owned())
        }
        End::Violated { property, .. } => (Kind::Safety, *property, "the property is violated".to_owned()),
    };
    Ok(Some(Fault { kind, property, walk, ending }))
}

fn asserted<M: Explorable>(model: &M, walk: &Walk<M>, action: Option<u32>, message: &str) -> String {
    let mut actions = Vec::new();
    if let (Some(_), Some((_, state))) = (action, walk.last()) {
        model.actions(state, &mut actions);
    }
    let taken = action.and_then(|index| actions.get(index as usize));
    let step =
        taken.map_or_else(String::new, |action| format!(" in the step `{}`", model.name_of_action(action)));
    format!("the model panics{step}: {message}")
}

fn tell_stall<M: Live>(
    model: &M,
    exploration: &Exploration,
    stall: Stall,
) -> Result<(Verdict, Story), ExploreError> {
    let fault = |property: &str| Verdict::Fault { kind: Kind::Liveness, property: property.to_owned() };
    match stall {
        Stall::Trapped { at, states } => {
            let walk = exploration.trail_to(at).walk(model)?;
            let ending = format!(
                "point of no return: no benign steps lead to a goal from here ({states} such states)"
            );
            let story = Story::of(model, &walk, ending);
            Ok((fault(model.goal_property()), Story { point_of_no_return: Some(walk.len() - 1), ..story }))
        }
        Stall::Starved { obligation, at, cycle } => {
            let stem = exploration.trail_to(at);
            let walk = stem.walk_on(model, &cycle)?;
            let owed = model.obligations().swap_remove(obligation);
            let ending = if cycle.is_empty() { "the run is over" } else { "the steps since then repeat" };
            let story = Story::of(model, &walk, format!("{ending}, and {} is still pending", owed.subject));
            let cycle_from = (!cycle.is_empty()).then_some(stem.actions.len());
            Ok((fault(owed.property), Story { cycle_from, ..story }))
        }
    }
}

fn outcome<M: Explorable>(
    model: &M,
    properties: Vec<&'static str>,
    exploration: Exploration,
    fault: Option<(Verdict, Story)>,
) -> Outcome {
    let (counts, elapsed, notes) = (exploration.counts, exploration.elapsed, exploration.notes);
    let resumed = exploration.resumed;
    let scope = Scope {
        properties,
        reductions: model.reductions(),
        reached: exploration.reached,
        missing: exploration.missing.clone(),
        between_rounds: exploration.between_rounds,
        frontier: exploration.frontier,
        levels: exploration.levels,
        exhausted: exploration.end == End::Exhausted,
    };
    let points = model.points().into_iter().enumerate();
    let (covered, uncovered): (Vec<_>, Vec<_>) = points.partition(|(point, _)| notes.noted(*point));
    let [covered, uncovered] =
        [covered, uncovered].map(|points| points.into_iter().map(|(_, name)| name).collect());
    let (verdict, story) = match fault {
        Some((verdict, story)) => (verdict, Some(story)),
        None => (verdict_without_fault(exploration.end, exploration.missing), None),
    };
    Outcome { verdict, counts, elapsed, resumed, story, scope, covered, uncovered }
}

/// Only an exhausted search from which nothing is missing holds.
fn verdict_without_fault(end: End, missing: Vec<String>) -> Verdict {
    match end {
        End::Exhausted if missing.is_empty() => Verdict::Holds,
        End::Unknown(unknown) => Verdict::Unknown(unknown),
        End::Asserted { .. } | End::Exhausted | End::Stuck { .. } | End::Violated { .. } => {
            Verdict::Vacuous { missing }
        }
    }
}
