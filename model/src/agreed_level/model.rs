//! The agreed level as a model: its properties, and what must go on for ever.

use crate::agreed_level::{AgreedLevel, Ghost, SlotChoice, Turn};
use crate::coverage;
use crate::decode::facts::{copies, waits_for_prefill};
use crate::decode::setting::DecodeSetting;
use crate::explore::{
    Collective, Explorable, Happening, Lane, Live, Notes, Obligation, StateMarks, StepEvent, StepMarks,
};
use lockstep_spec::decode::evidence::Grant;
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::invariant::{self, admission_fair, ends};
use lockstep_spec::poll::KvPoll;
use stateright::{Model, Property};
use std::marker::PhantomData;

/// A situation that a run must reach.
pub type Witness<R> = (&'static str, fn(&AgreedModel<R>, &AgreedLevel) -> bool);

/// The agreed level under a setting, with the rules `R`.
#[derive(Debug)]
pub struct AgreedModel<R> {
    /// Bounds and choices.
    pub setting: DecodeSetting,
    /// What must be reached.
    pub witnesses: Vec<Witness<R>>,
    rules: PhantomData<fn() -> R>,
}

impl<R: Rules> AgreedModel<R> {
    /// The agreed level under a setting.
    pub fn new(setting: DecodeSetting) -> Self {
        Self { setting, witnesses: Vec::new(), rules: PhantomData }
    }

    /// The same with witnesses.
    #[must_use]
    pub fn witnessing(mut self, witnesses: Vec<Witness<R>>) -> Self {
        self.witnesses = witnesses;
        self
    }
}

/// A state of an agreed level, of either group.
pub(crate) trait Judged {
    /// The property that does not hold in it, if any.
    fn violation(&self) -> Option<&'static str>;
}

impl Judged for AgreedLevel {
    fn violation(&self) -> Option<&'static str> {
        self.violation
    }
}

/// A property of [`invariant::ALL`], by its index.
fn always<M: Model<State: Judged>, const PROPERTY: usize>() -> Property<M> {
    let id = invariant::ALL[PROPERTY].id;
    Property::always(id, |_, state: &M::State| state.violation() != Some(invariant::ALL[PROPERTY].id))
}

/// The properties that single states of an agreed level show.
pub(crate) fn shown<M: Model<State: Judged>>() -> Vec<Property<M>> {
    vec![always::<M, 4>(), always::<M, 5>(), always::<M, 6>(), always::<M, 7>(), always::<M, 8>()]
}

impl<R: Rules> Model for AgreedModel<R> {
    type State = AgreedLevel;
    type Action = Turn;

    fn init_states(&self) -> Vec<AgreedLevel> {
        vec![AgreedLevel::genesis(&self.setting)]
    }

    fn actions(&self, state: &AgreedLevel, actions: &mut Vec<Turn>) {
        if state.violation.is_none() && !state.state.leaving() {
            state.turns(&self.setting, actions);
        }
    }

    fn next_state(&self, state: &AgreedLevel, turn: Turn) -> Option<AgreedLevel> {
        Some(state.after::<R>(&self.setting, &turn))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = shown();
        properties.extend(self.witnesses.iter().map(|(name, reached)| Property::sometimes(name, *reached)));
        properties
    }
}

impl<R: Rules> Explorable for AgreedModel<R> {
    fn may_stop(&self, state: &AgreedLevel) -> bool {
        state.state.leaving()
    }

    fn points(&self) -> Vec<String> {
        coverage::decode::POINTS.names()
    }

    fn next_noted(&self, state: &AgreedLevel, turn: Turn, notes: &mut Notes) -> Option<AgreedLevel> {
        Some(state.after_noted::<R>(&self.setting, &turn, notes))
    }

    fn between_rounds(&self, _: &AgreedLevel) -> bool {
        true
    }

    fn reductions(&self) -> Vec<&'static str> {
        vec!["agreed-level", "rebasing"]
    }

    fn lanes(&self, state: &AgreedLevel) -> Vec<Lane> {
        let mut lane = Lane::new("agreed by all ranks");
        for ((slot, entry), ghost) in state.state.enumerate().zip(&state.ghosts) {
            let occupant = entry.occupant.as_ref().map_or("free".to_string(), describe);
            lane.cells.push((slot.to_string(), occupant));
            lane.cells.push((format!("{slot} fabric"), fabric(ghost)));
        }
        let flights: Vec<String> =
            state.state.flights.queue.iter().map(|flight| flight.id.to_string()).collect();
        lane.cells.push(("free pages".to_string(), format!("{:?}", state.state.pool.free())));
        lane.cells.push(("in flight".to_string(), flights.join(" ")));
        lane.cells.push(("copies".to_string(), copies(&state.state.host)));
        vec![lane]
    }

    fn name_of_action(&self, turn: &Turn) -> String {
        let polls: Vec<String> = turn
            .slots
            .iter()
            .map(|choice| {
                let publishes = if choice.publishes { " published" } else { "" };
                let fences = if choice.fences { " fenced" } else { "" };
                let differs = if choice.differs { " differing" } else { "" };
                format!("{:?}{publishes}{fences}{differs}", choice.poll)
            })
            .collect();
        format!(
            "{} retired, {} judged; {} copied; {}; {:?}",
            turn.retired,
            turn.judged,
            turn.copied,
            polls.join(", "),
            said(turn)
        )
    }

    /// One round: what reached the fabric, the vote, and the leader's word.
    fn events(&self, _: &AgreedLevel, turn: &Turn, _: &AgreedLevel) -> Vec<StepEvent> {
        let fact = |fact: String| Happening::Fact { fact };
        let slots = turn.slots.iter().enumerate();
        let mut all: Vec<Happening> =
            slots.flat_map(|(slot, choice)| at_the_fabric(slot, choice)).map(fact).collect();
        all.extend((turn.retired > 0).then(|| fact(format!("{} retired on every rank", turn.retired))));
        all.extend((turn.copied > 0).then(|| fact(format!("{} copied on every rank", turn.copied))));
        all.extend(turn.words.iter().map(|word| fact(format!("the leader says {word:?}"))));
        all.extend(directions(turn).map(fact));
        all.push(Happening::Complete { collective: Collective::new("control", "Vote") });
        all.into_iter().map(|what| StepEvent::on(0, what)).collect()
    }
}

fn said(turn: &Turn) -> String {
    let words: Vec<String> =
        turn.words.iter().map(|word| format!("{word:?}")).chain(directions(turn)).collect();
    if words.is_empty() { "Nothing".to_string() } else { words.join(", ") }
}

/// What is said of the group as a whole.
fn directions(turn: &Turn) -> impl Iterator<Item = String> {
    let pauses = turn.pause.map(|pause| if pause { "the group pauses" } else { "the group goes on" });
    let leaves = turn.shutdown.then_some("a rank asks the group to leave");
    pauses.into_iter().chain(leaves).map(str::to_string)
}

/// What a slot's fabric does before the vote is sampled.
fn at_the_fabric(slot: usize, choice: &SlotChoice) -> impl Iterator<Item = String> {
    let texts = [(choice.publishes, "page list published"), (choice.fences, "fence done")];
    texts.into_iter().filter(|(happens, _)| *happens).map(move |(_, text)| format!("s{slot} {text}"))
}

fn describe(tenant: &Tenant) -> String {
    let Tenant { request, phase, pages, host_pages, generated } = tenant;
    format!("{} {phase:?} {pages:?} {host_pages:?} +{generated}", request.id)
}

fn fabric(ghost: &Ghost) -> String {
    format!("{:?}{}", ghost.grant, if ghost.whole { " whole" } else { "" })
}

/// Whether a slot waits for a fact that is voted sooner or later.
fn waits(tenant: &Tenant, ghost: &Ghost) -> bool {
    let fabric = matches!(ghost.grant, Grant::Queued | Grant::Cancelling | Grant::Revoking);
    waits_for_prefill(tenant.phase) || fabric
}

/// Forwards, copies, pauses, and then each slot.
const FIRST_SLOT: u32 = 3;

impl<R: Rules> Live for AgreedModel<R> {
    fn goal_property(&self) -> &'static str {
        ends::PROPERTY.id
    }

    fn obligations(&self) -> Vec<Obligation> {
        let subject = |slot| Obligation {
            property: admission_fair::PROPERTY.id,
            subject: format!("the request in slot {slot}"),
        };
        (0..self.setting.slots()).map(subject).collect()
    }

    fn fairness(&self) -> Vec<String> {
        let slots = (0..self.setting.slots()).map(|slot| format!("what slot {slot} waits for is voted"));
        ["forwards retire", "copies are made", "the group goes on"]
            .map(str::to_string)
            .into_iter()
            .chain(slots)
            .collect()
    }

    fn mark_state(&self, state: &AgreedLevel) -> StateMarks {
        let mut marks =
            StateMarks { goal: state.violation.is_none() && state.state.idle(), ..StateMarks::default() };
        marks.enabled |= u32::from(!state.state.flights.queue.is_empty());
        marks.enabled |= u32::from(!state.state.host.copies().is_empty()) << 1;
        marks.enabled |= u32::from(state.state.paused) << 2;
        for ((slot, entry), ghost) in state.state.enumerate().zip(&state.ghosts) {
            if let Some(tenant) = &entry.occupant {
                marks.pending |= 1 << slot.0;
                marks.enabled |= u32::from(waits(tenant, ghost)) << (FIRST_SLOT + slot.0);
            }
        }
        marks
    }

    fn mark_step(&self, from: &AgreedLevel, turn: &Turn, to: &AgreedLevel) -> StepMarks {
        let fails = turn.slots.iter().any(|choice| choice.differs || choice.poll.failure().is_some());
        let says = !turn.words.is_empty() || turn.pause == Some(true) || turn.shutdown;
        let mut marks = StepMarks { benign: !says && !fails, ..StepMarks::default() };
        marks.taken |= u32::from(turn.retired > 0);
        marks.taken |= u32::from(turn.copied > 0) << 1;
        marks.taken |= u32::from(!to.state.paused) << 2;
        for ((slot, entry), (ghost, choice)) in
            from.state.enumerate().zip(from.ghosts.iter().zip(&turn.slots))
        {
            if let Some(tenant) = &entry.occupant {
                marks.taken |= u32::from(voted(tenant, ghost, choice)) << (FIRST_SLOT + slot.0);
                marks.discharged |= u32::from(to.state.occupant(slot).is_none()) << slot.0;
            }
        }
        marks
    }
}

/// Whether a turn brings what a slot waits for.
fn voted(tenant: &Tenant, ghost: &Ghost, choice: &SlotChoice) -> bool {
    let polled = waits_for_prefill(tenant.phase)
        && !matches!(choice.poll, KvPoll::Bootstrapping | KvPoll::Transferring);
    match ghost.grant {
        Grant::Queued => choice.publishes || polled,
        Grant::Cancelling | Grant::Revoking => choice.fences,
        Grant::None | Grant::Published => polled,
    }
}
