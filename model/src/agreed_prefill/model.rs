//! The agreed level of the prefill group as a model: its properties, and what must go on for ever.

use crate::agreed_level::model::{Judged, shown};
use crate::agreed_prefill::{AgreedPrefill, Ghost, SlotChoice, Turn};
use crate::coverage;
use crate::explore::{
    Collective, Explorable, Happening, Lane, Live, Notes, Obligation, StateMarks, StepEvent, StepMarks,
};
use crate::prefill::setting::PrefillSetting;
use lockstep_spec::invariant::{admission_fair, ends};
use lockstep_spec::poll::KvPoll;
use lockstep_spec::prefill::leg::{LegPhase, LegTenant};
use lockstep_spec::prefill::rules::Rules;
use stateright::{Model, Property};
use std::marker::PhantomData;

/// The agreed level under a setting, with the rules `R`.
#[derive(Debug)]
pub struct AgreedPrefillModel<R> {
    /// Bounds and choices.
    pub setting: PrefillSetting,
    /// Whether legs come in any order of acceptance: one may have waited for its list behind later ones. Each is overtaken by as many as the
    /// decode group has slots, and no more; as that is not counted here, nobody is held to be fair then.
    pub any_order: bool,
    rules: PhantomData<fn() -> R>,
}

impl<R: Rules> AgreedPrefillModel<R> {
    /// The agreed level under a setting, with legs in any order; how many ranks that has does not matter.
    pub fn new(setting: PrefillSetting) -> Self {
        Self { setting, any_order: true, rules: PhantomData }
    }

    /// With legs in the order of acceptance.
    pub fn in_order(setting: PrefillSetting) -> Self {
        Self { any_order: false, ..Self::new(setting) }
    }
}

impl Judged for AgreedPrefill {
    fn violation(&self) -> Option<&'static str> {
        self.violation
    }
}

impl<R: Rules> Model for AgreedPrefillModel<R> {
    type State = AgreedPrefill;
    type Action = Turn;

    fn init_states(&self) -> Vec<AgreedPrefill> {
        vec![AgreedPrefill::genesis(&self.setting)]
    }

    fn actions(&self, state: &AgreedPrefill, actions: &mut Vec<Turn>) {
        if state.violation.is_none() {
            state.turns(&self.setting, self.any_order, actions);
        }
    }

    fn next_state(&self, state: &AgreedPrefill, turn: Turn) -> Option<AgreedPrefill> {
        self.next_noted(state, turn, &mut Notes::default())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        shown()
    }
}

impl<R: Rules> Explorable for AgreedPrefillModel<R> {
    fn may_stop(&self, _: &AgreedPrefill) -> bool {
        false
    }

    fn points(&self) -> Vec<String> {
        coverage::prefill::POINTS.names()
    }

    fn next_noted(&self, state: &AgreedPrefill, turn: Turn, notes: &mut Notes) -> Option<AgreedPrefill> {
        Some(state.after::<R>(&self.setting, &turn, notes))
    }

    fn between_rounds(&self, _: &AgreedPrefill) -> bool {
        true
    }

    fn reductions(&self) -> Vec<&'static str> {
        vec!["agreed-level", "rebasing"]
    }

    fn lanes(&self, state: &AgreedPrefill) -> Vec<Lane> {
        let mut lane = Lane::new("agreed by all ranks");
        for ((slot, entry), ghost) in state.state.enumerate().zip(&state.ghosts) {
            lane.cells.push((slot.to_string(), entry.occupant.as_ref().map_or("free".to_string(), describe)));
            lane.cells.push((format!("{slot} writing"), format!("{:?}", ghost.reads)));
        }
        let flights: Vec<String> =
            state.state.flights.queue.iter().map(|flight| flight.id.to_string()).collect();
        lane.cells.push(("free pages".to_string(), format!("{:?}", state.state.pool.free())));
        lane.cells.push(("in flight".to_string(), flights.join(" ")));
        vec![lane]
    }

    fn name_of_action(&self, turn: &Turn) -> String {
        let polls: Vec<String> = turn.slots.iter().map(polled).collect();
        let Turn { retired, judged, copied, .. } = turn;
        let said = said(turn).join(", ");
        let said = if said.is_empty() { "nothing" } else { &said };
        format!("{retired} retired, {judged} judged, {copied} copied; {}; {said}", polls.join(", "))
    }

    /// One round: what reached the ranks, the vote, and the leader's word.
    fn events(&self, _: &AgreedPrefill, turn: &Turn, _: &AgreedPrefill) -> Vec<StepEvent> {
        let fact = |fact: String| Happening::Fact { fact };
        let completed = turn.slots.iter().enumerate().filter(|(_, choice)| choice.completes);
        let mut all: Vec<Happening> =
            completed.map(|(slot, _)| fact(format!("s{slot} written on every rank"))).collect();
        all.extend((turn.retired > 0).then(|| fact(format!("{} retired on every rank", turn.retired))));
        all.extend(said(turn).into_iter().map(|said| fact(format!("the leader says {said}"))));
        all.push(Happening::Complete { collective: Collective::new("control", "Vote") });
        all.into_iter().map(|what| StepEvent::on(0, what)).collect()
    }
}

fn said(turn: &Turn) -> Vec<String> {
    let pauses = turn.pause.map(|pause| if pause { "pause" } else { "go on" }.to_string());
    turn.asked.iter().map(|asked| format!("{asked:?}")).chain(pauses).collect()
}

fn polled(choice: &SlotChoice) -> String {
    format!("{:?}{}", choice.poll, if choice.completes { " written" } else { "" })
}

fn describe(tenant: &LegTenant) -> String {
    let LegTenant { arrival, phase, pages, launched } = tenant;
    format!("{} {} {phase:?} {launched}/{} {pages:?}", arrival.id, arrival.leg, arrival.tokens)
}

/// Whether a slot waits for a fact that is voted sooner or later.
fn waits(tenant: &LegTenant, ghost: &Ghost) -> bool {
    match tenant.phase {
        LegPhase::Waiting => !ghost.listed,
        LegPhase::Running => false,
        LegPhase::Inflight | LegPhase::Draining(_) => !ghost.reads.is_empty(),
    }
}

/// Whether a turn brings what a slot waits for.
fn voted(tenant: &LegTenant, choice: &SlotChoice) -> bool {
    match tenant.phase {
        LegPhase::Waiting => choice.poll != KvPoll::Bootstrapping,
        LegPhase::Running => false,
        LegPhase::Inflight | LegPhase::Draining(_) => choice.completes,
    }
}

/// Forwards, copies, and then each slot.
const FIRST_SLOT: u32 = 2;

impl<R: Rules> Live for AgreedPrefillModel<R> {
    fn goal_property(&self) -> &'static str {
        ends::PROPERTY.id
    }

    fn obligations(&self) -> Vec<Obligation> {
        let subject = |slot| Obligation {
            property: admission_fair::PROPERTY.id,
            subject: format!("the leg in slot {slot}"),
        };
        let fair = if self.any_order { 0 } else { self.setting.configuration.slots };
        (0..fair).map(subject).collect()
    }

    fn fairness(&self) -> Vec<String> {
        let slots =
            (0..self.setting.configuration.slots).map(|slot| format!("what slot {slot} waits for is voted"));
        ["forwards retire", "copies complete"].map(String::from).into_iter().chain(slots).collect()
    }

    fn mark_state(&self, state: &AgreedPrefill) -> StateMarks {
        let mut marks =
            StateMarks { goal: state.violation.is_none() && state.state.idle(), ..StateMarks::default() };
        marks.enabled |= u32::from(!state.state.flights.queue.is_empty());
        marks.enabled |= u32::from(!state.state.host.copies().is_empty()) << 1;
        for ((slot, entry), ghost) in state.state.enumerate().zip(&state.ghosts) {
            if let Some(tenant) = &entry.occupant {
                marks.pending |= u32::from(!self.any_order) << slot.0;
                marks.enabled |= u32::from(waits(tenant, ghost)) << (FIRST_SLOT + slot.0);
            }
        }
        marks
    }

    fn mark_step(&self, from: &AgreedPrefill, turn: &Turn, to: &AgreedPrefill) -> StepMarks {
        // A leg that a later one overtakes is given up by nobody's choice.
        let overtaken = |tenant: &LegTenant| from.overtaken(tenant.arrival.leg);
        let fails = from.state.slots.iter().zip(&turn.slots).any(|(slot, choice)| {
            let given_up = choice.poll == KvPoll::Revoked && slot.occupant.as_ref().is_some_and(overtaken);
            choice.poll.failure().is_some() && !given_up
        });
        let says = !turn.asked.is_empty() || turn.pause == Some(true);
        let mut marks = StepMarks { benign: !says && !fails, ..StepMarks::default() };
        marks.taken |= u32::from(turn.retired > 0) | u32::from(turn.copied > 0) << 1;
        for ((slot, entry), choice) in from.state.enumerate().zip(&turn.slots) {
            if let Some(tenant) = &entry.occupant {
                marks.taken |= u32::from(voted(tenant, choice)) << (FIRST_SLOT + slot.0);
                marks.discharged |= u32::from(to.state.occupant(slot).is_none()) << slot.0;
            }
        }
        marks
    }
}
