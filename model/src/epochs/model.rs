//! Epochs as a model: for Stateright's checkers and for our own explorer.

use crate::coverage::decode::POINTS;
use crate::coverage::steps::EPOCHS;
use crate::entries::step_events;
use crate::epochs::front_end::Conduct;
use crate::epochs::setting::EpochsSetting;
use crate::epochs::surroundings::Lasting;
use crate::epochs::{Epochs, Step};
use crate::explore::{
    Explorable, Happening, Lane, Live, Notes, Obligation, StateMarks, StepEvent, StepMarks, WAITS_IN,
};
use crate::traces::offered;
use crate::world::{Action, Environment, Interleaving};
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::ids::Epoch;
use lockstep_spec::invariant::{self, ends};
use stateright::{Model, Property};

/// A situation that a run must reach, or it proved nothing about it.
pub type Witness<R, C> = (&'static str, fn(&EpochsModel<R, C>, &Epochs<R, C>) -> bool);

/// Epochs under a setting.
#[derive(Debug)]
pub struct EpochsModel<R: Rules, C: Conduct> {
    /// Bounds and choices.
    pub setting: EpochsSetting,
    /// What must be reached.
    pub witnesses: Vec<Witness<R, C>>,
}

impl<R: Rules, C: Conduct> EpochsModel<R, C> {
    /// Epochs under a setting, with nothing to witness.
    #[must_use]
    pub fn new(setting: EpochsSetting) -> Self {
        Self { setting, witnesses: Vec::new() }
    }

    /// Ranks of the group: the same in every epoch.
    fn ranks(&self) -> usize {
        self.setting.group(Epoch(0)).configuration.ranks as usize
    }

    /// The same with witnesses.
    #[must_use]
    pub fn witnessing(self, witnesses: Vec<Witness<R, C>>) -> Self {
        Self { witnesses, ..self }
    }
}

/// The `PROPERTY`-th of all properties, as far as single states show it.
fn always<R: Rules, C: Conduct, const PROPERTY: usize>() -> Property<EpochsModel<R, C>> {
    let id = invariant::ALL[PROPERTY].id;
    Property::always(id, |_, state: &Epochs<R, C>| state.world.violation != Some(invariant::ALL[PROPERTY].id))
}

impl<R: Rules, C: Conduct> Model for EpochsModel<R, C> {
    type State = Epochs<R, C>;
    type Action = Step;

    fn init_states(&self) -> Vec<Epochs<R, C>> {
        vec![Epochs::genesis(&self.setting)]
    }

    fn actions(&self, state: &Epochs<R, C>, steps: &mut Vec<Step>) {
        state.steps(&self.setting, steps);
    }

    fn next_state(&self, state: &Epochs<R, C>, step: Step) -> Option<Epochs<R, C>> {
        Some(state.after(&self.setting, &step))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            always::<R, C, 0>(),
            always::<R, C, 1>(),
            always::<R, C, 3>(),
            always::<R, C, 4>(),
            always::<R, C, 5>(),
            always::<R, C, 6>(),
            always::<R, C, 7>(),
            always::<R, C, 8>(),
            always::<R, C, 11>(),
            always::<R, C, 12>(),
        ];
        let witnesses = self.witnesses.iter().map(|(name, reached)| Property::sometimes(name, *reached));
        properties.extend(witnesses);
        properties
    }
}

impl<R: Rules, C: Conduct> Explorable for EpochsModel<R, C> {
    /// The front end goes on for ever, unless it is told to stop.
    fn may_stop(&self, state: &Epochs<R, C>) -> bool {
        state.is_over()
    }

    fn lanes(&self, state: &Epochs<R, C>) -> Vec<Lane> {
        (0..self.ranks()).map(|rank| rank_lane(state, rank)).chain([front_end_lane(state)]).collect()
    }

    fn name_of_action(&self, step: &Step) -> String {
        match step {
            Step::Group(Action::Fact(rank, fact)) => format!("rank {rank} sees {fact:?}"),
            Step::Group(Action::Retire(rank)) => format!("rank {rank}'s forward retires"),
            Step::Group(Action::Turn(rank)) => format!("rank {rank} turns"),
            Step::Group(Action::Complete) => "the collective completes".to_string(),
            Step::Group(Action::Take(rank)) => format!("the collective completes on rank {rank}"),
            Step::Accept(_) => "a request is accepted".to_string(),
            Step::Leave(request) => format!("the client of {request} leaves"),
            Step::Hear(epoch) => format!("the front end hears the leader of {epoch}"),
            Step::Lose(epoch) => format!("what the leader of {epoch} still said is lost"),
            Step::Crash(rank) => format!("rank {rank} crashes"),
            Step::LosePeer => "a rank of the prefill group crashes".to_string(),
            Step::Stop => "the server is to stop".to_string(),
            Step::EndEpoch => "the epoch ends".to_string(),
            Step::BeginEpoch => "the next epoch begins".to_string(),
        }
    }

    /// What the group does is drawn as in any world; what the front end does, in its lane; and where ranks end and begin.
    fn events(&self, before: &Epochs<R, C>, step: &Step, after: &Epochs<R, C>) -> Vec<StepEvent> {
        let mut events = match step {
            Step::Group(action) => step_events(&before.world, action, &after.world),
            Step::Crash(_) => Vec::new(),
            Step::Accept(_)
            | Step::Leave(_)
            | Step::Hear(_)
            | Step::Lose(_)
            | Step::LosePeer
            | Step::Stop
            | Step::EndEpoch
            | Step::BeginEpoch => {
                vec![StepEvent::on(self.ranks(), Happening::Step { text: self.name_of_action(step) })]
            }
        };
        events.extend((0..self.ranks()).filter_map(|rank| turned(before, after, rank)));
        events
    }

    fn between_rounds(&self, state: &Epochs<R, C>) -> bool {
        state.has_group() && state.world.between_rounds()
    }

    fn reductions(&self) -> Vec<&'static str> {
        let order = match Lasting::<R, C>::interleaving(&self.setting) {
            Interleaving::Full => None,
            Interleaving::FixedOrder => Some("fixed-order"),
        };
        let others =
            ["two-turns", "seen-at-once", "doomed-groups", "two-epochs-late", "accepted-at-once", "rebasing"];
        order.into_iter().chain(others).collect()
    }

    fn points(&self) -> Vec<String> {
        POINTS.names().into_iter().chain(EPOCHS.names()).collect()
    }

    fn next_noted(&self, state: &Epochs<R, C>, step: Step, notes: &mut Notes) -> Option<Epochs<R, C>> {
        notes.note(POINTS.count() + self.kind_of_action(&step));
        Some(state.after_noted(&self.setting, &step, notes))
    }

    /// A rank that crashes ends its trace where it is; each epoch's ranks write traces of their own.
    fn traces(&self, choices: &[u32]) -> Vec<String> {
        let (mut state, mut traces) = (Epochs::<R, C>::genesis(&self.setting), Vec::new());
        state.world.group.keep_log();
        for choice in choices {
            let step = offered(*choice, |offered| state.steps(&self.setting, offered));
            if step == Step::EndEpoch {
                traces.extend(state.written(&self.setting));
            }
            state.take_as_counted(&self.setting, &step, &mut Notes::default());
        }
        traces.extend(state.written(&self.setting));
        traces
    }

    fn kinds(&self) -> Vec<&'static str> {
        EPOCHS.everywhere.to_vec()
    }

    /// Its number in [`EPOCHS`], of which the first are [`Explorable::kinds`].
    fn kind_of_action(&self, step: &Step) -> usize {
        match step {
            Step::Group(_) => 0,
            Step::Accept(_) => 1,
            Step::Hear(_) => 2,
            Step::Lose(_) => 3,
            Step::Crash(_) => 4,
            Step::EndEpoch => 5,
            Step::BeginEpoch => 6,
            Step::Leave(_) => 7,
            Step::LosePeer => 8,
            Step::Stop => 9,
        }
    }
}

/// The end or the beginning of a rank's life in a step. One that is taken as dead with a doomed group ends with it.
fn turned<R: Rules, C: Conduct>(
    before: &Epochs<R, C>,
    after: &Epochs<R, C>,
    rank: usize,
) -> Option<StepEvent> {
    let what = match (before.has_living(rank), after.has_living(rank)) {
        (true, false) => Happening::End,
        (false, true) => Happening::Begin,
        (true, true) | (false, false) => return None,
    };
    Some(StepEvent::on(rank, what))
}

fn rank_lane<R: Rules, C: Conduct>(state: &Epochs<R, C>, rank: usize) -> Lane {
    let lane = Lane::new(format!("rank {rank}"));
    let group = &state.world.group;
    let Some(machine) = group.ranks.get(rank).filter(|_| state.has_living(rank)) else {
        return lane.with("alive", false);
    };
    let entered = group.control.ticket(rank).map_or("-".to_string(), |ticket| format!("{ticket:?}"));
    let mut lane = lane.with("alive", true).with(WAITS_IN, entered);
    lane.cells.extend(state.world.environment.describe(machine, rank));
    lane
}

fn front_end_lane<R: Rules, C: Conduct>(state: &Epochs<R, C>) -> Lane {
    let front_end = &state.world.environment.front_end;
    let mut lane = Lane::new("front end").with("epoch", front_end.journal.epoch());
    for (request, account) in front_end.journal.open() {
        let tokens = account.tokens.len();
        let marks = [(account.abandoned, " abandoned"), (account.retries > 0, " tried again")];
        let marks: String = marks.into_iter().filter(|(set, _)| *set).map(|(_, mark)| mark).collect();
        lane = lane.with(format!("{request}"), format!("{tokens} tokens{marks}"));
    }
    for (epoch, line) in &front_end.lines {
        lane = lane.with(format!("line of {epoch}"), format!("{line:?}"));
    }
    lane
}

impl<R: Rules, C: Conduct> Live for EpochsModel<R, C> {
    fn goal_property(&self) -> &'static str {
        ends::PROPERTY.id
    }

    fn obligations(&self) -> Vec<Obligation> {
        Vec::new()
    }

    fn fairness(&self) -> Vec<String> {
        Vec::new()
    }

    fn mark_state(&self, state: &Epochs<R, C>) -> StateMarks {
        StateMarks { goal: state.world.rested(&self.setting), ..StateMarks::default() }
    }

    /// Neither a crash nor a client that leaves helps a request to its end, and nothing new is added.
    fn mark_step(&self, _: &Epochs<R, C>, step: &Step, _: &Epochs<R, C>) -> StepMarks {
        let benign = match step {
            Step::Group(Action::Fact(_, fact)) => Lasting::<R, C>::benign(fact),
            Step::Group(Action::Retire(_) | Action::Turn(_) | Action::Complete | Action::Take(_)) => true,
            Step::Hear(_) | Step::Lose(_) | Step::EndEpoch | Step::BeginEpoch => true,
            Step::Accept(_) | Step::Leave(_) | Step::Crash(_) | Step::LosePeer | Step::Stop => false,
        };
        StepMarks { benign, ..StepMarks::default() }
    }
}
