//! Both groups as a model: for Stateright's checkers and for our own explorer.

use crate::coverage::steps::TWO_GROUPS;
use crate::explore::{Explorable, Lane, Live, Notes, Obligation, StateMarks, StepMarks};
use crate::traces::offered;
use crate::two_groups::ends::Told;
use crate::two_groups::pair::{Action, Pair, Side, Transit};
use crate::two_groups::setting::{Goal, Setting};
use crate::two_groups::wire::{Link, Wire};
use crate::world::Interleaving;
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::ids::Leg;
use lockstep_spec::invariant::{self, admission_fair};
use lockstep_spec::prefill::rules::Rules as PrefillRules;
use stateright::{Model, Property};

/// A witness: a situation that a run must reach, or it proved nothing about it.
pub type Witness<D, P> = (&'static str, fn(&TwoGroups<D, P>, &Pair<D, P>) -> bool);

/// Both groups under a setting.
#[derive(Clone, Debug)]
pub struct TwoGroups<D: DecodeRules, P: PrefillRules> {
    /// Bounds and choices.
    pub setting: Setting,
    /// What must be reached.
    pub witnesses: Vec<Witness<D, P>>,
}

impl<D: DecodeRules, P: PrefillRules> TwoGroups<D, P> {
    /// Both groups under a setting, with nothing to witness.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        Self { setting, witnesses: Vec::new() }
    }

    /// The same with witnesses.
    #[must_use]
    pub fn witnessing(mut self, witnesses: Vec<Witness<D, P>>) -> Self {
        self.witnesses = witnesses;
        self
    }

    /// Fair cycles are looked for with one rank on each side; more ranks have more constraints than the explorer counts.
    fn fair(&self) -> bool {
        self.setting.links() == 1
    }
}

/// The `PROPERTY`-th of all properties, as far as single states show it.
fn always<D: DecodeRules, P: PrefillRules, const PROPERTY: usize>() -> Property<TwoGroups<D, P>> {
    let id = invariant::ALL[PROPERTY].id;
    Property::always(id, |_, pair: &Pair<D, P>| pair.violation != Some(invariant::ALL[PROPERTY].id))
}

impl<D: DecodeRules, P: PrefillRules> Model for TwoGroups<D, P> {
    type State = Pair<D, P>;
    type Action = Action;

    fn init_states(&self) -> Vec<Pair<D, P>> {
        vec![Pair::genesis(&self.setting)]
    }

    fn actions(&self, state: &Pair<D, P>, actions: &mut Vec<Action>) {
        state.actions(&self.setting, actions);
    }

    fn next_state(&self, state: &Pair<D, P>, action: Action) -> Option<Pair<D, P>> {
        Some(state.after(&self.setting, &action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            always::<D, P, 0>(),
            always::<D, P, 1>(),
            always::<D, P, 2>(),
            always::<D, P, 3>(),
            always::<D, P, 4>(),
            always::<D, P, 5>(),
            always::<D, P, 6>(),
            always::<D, P, 7>(),
            always::<D, P, 8>(),
        ];
        if self.setting.replacements.any() {
            properties.extend([always::<D, P, 9>(), always::<D, P, 11>(), always::<D, P, 12>()]);
        }
        properties.extend(self.witnesses.iter().map(|(name, reached)| Property::sometimes(name, *reached)));
        properties
    }
}

impl<D: DecodeRules, P: PrefillRules> Explorable for TwoGroups<D, P> {
    /// A round may always come.
    fn may_stop(&self, _: &Pair<D, P>) -> bool {
        false
    }

    fn lanes(&self, state: &Pair<D, P>) -> Vec<Lane> {
        let decode = (0..state.decode.ranks.len()).map(|rank| decode_lane(state, rank));
        let links = state.links.iter().enumerate().map(link_lane);
        let prefill = (0..state.prefill.ranks.len()).map(|rank| prefill_lane(state, rank));
        decode.chain(links).chain(prefill).collect()
    }

    fn name_of_action(&self, action: &Action) -> String {
        name(action)
    }

    /// Always: a round is one step.
    fn between_rounds(&self, _: &Pair<D, P>) -> bool {
        true
    }

    /// A group that dies ends its ranks' traces where they are, and the one in its place begins new ones. The epoch of one of prefill is that of
    /// the one before it: here it has no number that others could know it by. None where one of the groups follows other rules.
    fn traces(&self, choices: &[u32]) -> Vec<String> {
        let (mut pair, mut traces) = (Pair::<D, P>::genesis(&self.setting), Vec::new());
        pair.decode.keep_log();
        pair.prefill.keep_log();
        for choice in choices {
            let action = offered(*choice, |offered| pair.actions(&self.setting, offered));
            if let Action::Replace(side, _) = action {
                traces.extend(pair.written(&self.setting, side));
            }
            pair.take_as_counted(&self.setting, &action);
        }
        let last = [Side::Decode, Side::Prefill].map(|side| pair.written(&self.setting, side));
        if last.iter().any(Vec::is_empty) {
            return Vec::new();
        }
        traces.extend(last.into_iter().flatten());
        traces
    }

    fn reductions(&self) -> Vec<&'static str> {
        let order = match self.setting.interleaving {
            Interleaving::Full => None,
            Interleaving::FixedOrder => Some("facts-with-their-round"),
        };
        order.into_iter().chain(["atomic-round", "seen-at-once", "tidied", "rebasing"]).collect()
    }

    fn kinds(&self) -> Vec<&'static str> {
        TWO_GROUPS.everywhere.to_vec()
    }

    fn points(&self) -> Vec<String> {
        TWO_GROUPS.names()
    }

    fn next_noted(&self, state: &Pair<D, P>, action: Action, notes: &mut Notes) -> Option<Pair<D, P>> {
        notes.note(self.kind_of_action(&action));
        self.next_state(state, action)
    }

    /// Its number in [`TWO_GROUPS`], of which the first are [`Explorable::kinds`].
    fn kind_of_action(&self, action: &Action) -> usize {
        match action {
            Action::Submit(_) => 0,
            Action::Tokens(_) => 1,
            Action::Deliver(Transit::Answer, ..) => 2,
            Action::Deliver(Transit::List, ..) => 3,
            Action::Deliver(Transit::Pages, ..) => 4,
            Action::Deliver(Transit::Row, ..) => 5,
            Action::Deliver(Transit::Written, ..) => 6,
            Action::Fenced(..) => 7,
            Action::Retire(Side::Decode, _) => 8,
            Action::Retire(Side::Prefill, _) => 9,
            Action::Round(Side::Decode) => 10,
            Action::Round(Side::Prefill) => 11,
            Action::Abort(_) => 12,
            Action::Deliver(Transit::Revoke, ..) => 13,
            Action::Deliver(Transit::Fail, ..) => 14,
            Action::Lose(Transit::Revoke, ..) => 15,
            Action::Lose(Transit::Fail, ..) => 16,
            Action::WriteFails(..) => 17,
            Action::Repost(..) => 18,
            Action::Yield(..) => 19,
            Action::Break(_) => 20,
            Action::Notice(Side::Decode, _) => 21,
            Action::Notice(Side::Prefill, _) => 22,
            Action::Replace(Side::Decode, _) => 23,
            Action::Replace(Side::Prefill, _) => 24,
            Action::LineBreaks(_) => 25,
            Action::LineEnds => 26,
            Action::LineBegins => 27,
            Action::Tick(Side::Decode, _) => 28,
            Action::Tick(Side::Prefill, _) => 29,
            // What the fabric does not send as best effort is never lost.
            Action::Lose(
                Transit::Answer | Transit::List | Transit::Pages | Transit::Row | Transit::Written,
                ..,
            ) => usize::MAX,
        }
    }
}

/// Fairness constraints that are not a decode slot's.
const GENERAL: [&str; 11] = [
    "decode's rounds",
    "prefill's rounds",
    "decode's forwards",
    "prefill's forwards",
    "the front end's tokens",
    "decode's notice of a break",
    "prefill's notice of a break",
    "decode's clock",
    "prefill's clock",
    "the notice of the line's end",
    "the next line",
];
/// Fairness constraints of each decode slot.
const OF_SLOT: [&str; 8] = [
    "the answer to its handshake",
    "its page list",
    "its revocation",
    "its pages",
    "its row",
    "the end of its write",
    "its failure",
    "its fence",
];

/// The fairness constraint that a step serves. Nothing that goes wrong, and no new request, is ever owed; a clock is where it repairs
/// what was lost.
fn constraint(setting: &Setting, action: &Action) -> Option<usize> {
    let of_slot = |leg: &Leg, index: usize| GENERAL.len() + OF_SLOT.len() * leg.slot.index() + index;
    match action {
        Action::Round(Side::Decode) => Some(0),
        Action::Round(Side::Prefill) => Some(1),
        Action::Retire(Side::Decode, _) => Some(2),
        Action::Retire(Side::Prefill, _) => Some(3),
        Action::Tokens(_) => Some(4),
        Action::Deliver(Transit::Answer, _, leg) => Some(of_slot(leg, 0)),
        Action::Deliver(Transit::List, _, leg) => Some(of_slot(leg, 1)),
        Action::Deliver(Transit::Revoke, _, leg) => Some(of_slot(leg, 2)),
        Action::Deliver(Transit::Pages, _, leg) => Some(of_slot(leg, 3)),
        Action::Deliver(Transit::Row, _, leg) => Some(of_slot(leg, 4)),
        Action::Deliver(Transit::Written, _, leg) => Some(of_slot(leg, 5)),
        Action::Deliver(Transit::Fail, _, leg) => Some(of_slot(leg, 6)),
        Action::Fenced(_, leg) => Some(of_slot(leg, 7)),
        Action::Notice(Side::Decode, _) => Some(5),
        Action::Notice(Side::Prefill, _) => Some(6),
        Action::Tick(Side::Decode, _) => setting.trouble.losses.then_some(7),
        Action::Tick(Side::Prefill, _) => setting.trouble.losses.then_some(8),
        Action::LineEnds => Some(9),
        Action::LineBegins => Some(10),
        Action::Submit(_)
        | Action::Abort(_)
        | Action::Lose(..)
        | Action::WriteFails(..)
        | Action::Repost(..)
        | Action::Yield(..)
        | Action::Replace(..)
        | Action::LineBreaks(_)
        | Action::Break(_) => None,
    }
}

impl<D: DecodeRules, P: PrefillRules> Live for TwoGroups<D, P> {
    fn goal_property(&self) -> &'static str {
        self.setting.goal.property().id
    }

    /// The request in each decode slot ends.
    fn obligations(&self) -> Vec<Obligation> {
        let slots = (0..self.setting.decode.slots).filter(|_| self.fair());
        let property = admission_fair::PROPERTY.id;
        slots.map(|slot| Obligation { property, subject: format!("the request in slot {slot}") }).collect()
    }

    fn fairness(&self) -> Vec<String> {
        if !self.fair() {
            return Vec::new();
        }
        let of_slots = (0..self.setting.decode.slots)
            .flat_map(|slot| OF_SLOT.map(|constraint| format!("slot {slot}: {constraint}")));
        GENERAL.map(ToString::to_string).into_iter().chain(of_slots).collect()
    }

    fn mark_state(&self, state: &Pair<D, P>) -> StateMarks {
        let goal = match self.setting.goal {
            Goal::Ended => state.ended(),
            Goal::Rest => state.rested(&self.setting),
        };
        if !self.fair() {
            return StateMarks { goal, ..StateMarks::default() };
        }
        let mut actions = Vec::new();
        state.possible(&self.setting, &mut actions);
        let owed = actions.iter().filter_map(|action| constraint(&self.setting, action));
        let enabled = owed.fold(0, |enabled, index| enabled | 1 << index);
        let slots = state.decode.ranks[0].state().value().slots.iter().enumerate();
        let live = slots.filter(|(_, slot)| slot.occupant.as_ref().is_some_and(|tenant| !tenant.ended()));
        let pending = live.fold(0, |pending, (slot, _)| pending | 1 << slot);
        StateMarks { goal, pending, enabled }
    }

    fn mark_step(&self, _: &Pair<D, P>, action: &Action, _: &Pair<D, P>) -> StepMarks {
        let benign = match action {
            Action::Tokens(_)
            | Action::Deliver(..)
            | Action::Fenced(..)
            | Action::Notice(..)
            | Action::LineEnds
            | Action::LineBegins
            | Action::Retire(..)
            | Action::Round(_) => true,
            Action::Tick(..) => self.setting.trouble.losses,
            Action::Submit(_)
            | Action::Abort(_)
            | Action::Lose(..)
            | Action::WriteFails(..)
            | Action::Repost(..)
            | Action::Yield(..)
            | Action::Replace(..)
            | Action::LineBreaks(_)
            | Action::Break(_) => false,
        };
        let taken = constraint(&self.setting, action).filter(|_| self.fair()).map_or(0, |index| 1 << index);
        StepMarks { benign, discharged: 0, taken }
    }
}

fn name(action: &Action) -> String {
    match action {
        Action::Submit(kind) => format!("a request of kind {kind} is accepted"),
        Action::Abort(request) => format!("{request} is given up"),
        Action::Tokens(rank) => format!("the front end's next word reaches prefill {rank}"),
        Action::Deliver(transit, link, leg) => format!("{} of {leg} over link {link}", arrives(*transit)),
        Action::Lose(transit, link, leg) => format!("{transit:?} of {leg} is lost on link {link}"),
        Action::WriteFails(link, leg) => format!("the write of {leg} fails on link {link}"),
        Action::Repost(link, leg) => format!("the write of {leg} is posted again on link {link}"),
        Action::Yield(link, leg) => format!("the write of {leg} on link {link} yields"),
        Action::Fenced(rank, leg) => format!("decode {rank}'s fence of {leg} is done"),
        Action::Break(link) => format!("link {link} breaks"),
        Action::Notice(side, link) => format!("{side:?} notices that link {link} broke"),
        Action::Retire(side, rank) => format!("{side:?} {rank}'s forward retires"),
        Action::Tick(side, rank) => format!("{side:?} {rank}'s clock ticks"),
        Action::Round(side) => format!("{side:?} goes round"),
        Action::Replace(Side::Decode, lost) => {
            format!("Decode is replaced, and {lost} legs are not asked for")
        }
        Action::Replace(Side::Prefill, _) => "Prefill is replaced".to_string(),
        Action::LineBreaks(lost) => {
            format!("the line between the front ends breaks, and {lost} legs with it")
        }
        Action::LineEnds => "decode's front end notices that the line has ended".to_string(),
        Action::LineBegins => "decode's front end has a line again".to_string(),
    }
}

fn arrives(transit: Transit) -> &'static str {
    match transit {
        Transit::Answer => "the handshake is answered",
        Transit::List => "the page list arrives",
        Transit::Revoke => "the revocation arrives",
        Transit::Pages => "pages land",
        Transit::Row => "the row lands",
        Transit::Written => "the write is done",
        Transit::Fail => "the failure arrives",
    }
}

fn decode_lane<D: DecodeRules, P: PrefillRules>(pair: &Pair<D, P>, rank: usize) -> Lane {
    let machine = &pair.decode.ranks[rank];
    let state = machine.state().value();
    let mut lane = Lane::new(format!("decode {rank}"));
    for (slot, entry) in state.enumerate() {
        let occupant = entry.occupant.as_ref().map_or("free".to_string(), |tenant| {
            let (id, phase, pages) = (tenant.request.id, tenant.phase, &tenant.pages);
            format!("{id} {}{} {phase:?} {pages:?}", entry.generation, entry.attempt)
        });
        let seen = &machine.evidence().slots[slot.index()];
        lane = lane.with(slot.to_string(), occupant).with(
            format!("{slot} seen"),
            format!("{:?} {:?} {:?}", seen.handshake, seen.grant, seen.receipt),
        );
    }
    let flights: Vec<String> = state.flights.queue.iter().map(|flight| flight.id.to_string()).collect();
    lane.with("in flight", flights.join(" ")).with("fences", format!("{:?}", pair.decode_ends[rank].fences))
}

fn link_lane((index, link): (usize, &Link)) -> Lane {
    let mut lane = Lane::new(format!("link {index}"));
    for (slot, wire) in link.wires.iter().enumerate() {
        let Wire { entry, keys, lists, revokes, writes, fails, .. } = wire;
        lane = lane
            .with(
                format!("s{slot} decode end"),
                entry.map_or("-".to_string(), |(leg, stage)| format!("{leg} {stage:?}")),
            )
            .with(format!("s{slot} keys"), pages(keys.iter().map(|key| (key.leg, &key.pages))))
            .with(format!("s{slot} lists"), pages(lists.iter().map(|list| (list.leg, &list.pages))))
            .with(format!("s{slot} revokes, fails"), format!("{revokes:?} {fails:?}"))
            .with(format!("s{slot} writes"), pages(writes.iter().map(|write| (write.leg, &write.from))));
    }
    let gone = link.gone.as_ref().map_or(String::new(), |gone| gone.epoch.to_string());
    lane.with("KV", format!("{:?}", link.kv)).with("up", link.up()).with("still connected to", gone)
}

fn pages<'a>(items: impl Iterator<Item = (Leg, &'a Vec<lockstep_spec::ids::PageId>)>) -> String {
    items.map(|(leg, pages)| format!("{leg} {pages:?}")).collect::<Vec<_>>().join(", ")
}

fn prefill_lane<D: DecodeRules, P: PrefillRules>(pair: &Pair<D, P>, rank: usize) -> Lane {
    let machine = &pair.prefill.ranks[rank];
    let state = machine.state().value();
    let mut lane = Lane::new(format!("prefill {rank}"));
    for (slot, entry) in state.enumerate() {
        let occupant = entry.occupant.as_ref().map_or("free".to_string(), |tenant| {
            format!("{} {:?} {:?}", tenant.arrival.leg, tenant.phase, tenant.pages)
        });
        let writes = machine.evidence().writes[slot.index()];
        lane = lane.with(slot.to_string(), format!("{occupant}; writes {writes:?}"));
    }
    let heard = machine.evidence().listings.values();
    let heard: Vec<String> = heard
        .map(|listing| format!("{}{}", listing.leg, if listing.revoked { " revoked" } else { "" }))
        .collect();
    let end = &pair.prefill_ends[rank];
    let told: Vec<String> = end.told.iter().map(describe_told).collect();
    lane.with("heard", heard.join(", "))
        .with("waiting", machine.intake().arrivals.len())
        .with("on its way from the front end", told.join(" "))
}

fn describe_told(told: &Told) -> String {
    match told {
        Told::Leg(arrival) => arrival.leg.to_string(),
        Told::Detach(since) => format!("all before {since} is over"),
    }
}
