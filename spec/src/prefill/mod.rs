//! The prefill group: legs take slots once listed, run, and are written to the decode side.
//!
//! Reading order: [`leg`], [`evidence`], [`decide`], [`rules`], [`action`].

pub mod action;
mod decide;
pub mod evidence;
pub mod leg;
pub mod parts;
mod prefix;
pub mod rules;

use crate::configuration::GroupConfiguration;
use crate::fault::Fault;
use crate::ids::{Epoch, Leg, RankIndex, RequestId, SlotIndex, TokenId};
use crate::poll::Reason;
use crate::prefill::action::{Action, Do};
use crate::prefill::decide::Deciding;
use crate::prefill::evidence::{Evidence, WriteFact, Writes};
use crate::prefill::leg::{LegOutcome, LegTenant, PrefillLeg};
use crate::prefill::rules::{Rules, Shipped};
use crate::role::{Decision, Inputs, Role, TurnedAway};
use crate::table::{Flight, Row, Slot, State};
use crate::vote::SlotVote;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// The prefill role, with the rules that it follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefill<R = Shipped>(PhantomData<R>);

/// A rank of a prefill group.
pub type PrefillMachine<R = Shipped> = crate::machine::RankMachine<Prefill<R>>;

impl<R: Rules> Role for Prefill<R> {
    type Arrival = PrefillLeg;
    type Occupant = LegTenant;
    type Evidence = Evidence;
    type Fact = (Leg, WriteFact);
    type Action = Action;
    type Effect = Do;

    fn evidence(configuration: &GroupConfiguration) -> Evidence {
        Evidence::new(configuration)
    }

    fn absorb(_: Epoch, state: &State<LegTenant>, evidence: &mut Evidence, (leg, fact): (Leg, WriteFact)) {
        evidence.absorb(state, leg, fact);
    }

    fn tick(configuration: &GroupConfiguration, state: &State<LegTenant>, evidence: &mut Evidence) {
        evidence.tick(configuration, state);
    }

    fn sample(
        configuration: &GroupConfiguration,
        slot: &Slot<LegTenant>,
        index: SlotIndex,
        evidence: &Evidence,
    ) -> SlotVote {
        evidence.sample::<R>(configuration, slot, index)
    }

    fn ready(arrival: &PrefillLeg, evidence: &Evidence) -> bool {
        evidence.listed(arrival.leg)
    }

    fn wanted(arrival: &PrefillLeg, evidence: &Evidence) -> bool {
        !evidence.unwanted(arrival.leg)
    }

    fn ends(_: &GroupConfiguration, _: Option<&LegTenant>, _: TokenId) -> bool {
        false
    }

    fn same(left: &PrefillLeg, right: &PrefillLeg) -> bool {
        left.leg == right.leg
    }

    fn replaces(new: &PrefillLeg, waiting: &PrefillLeg) -> bool {
        new.leg.slot == waiting.leg.slot && new.leg > waiting.leg
    }

    fn arrival(occupant: &LegTenant) -> Option<&PrefillLeg> {
        Some(&occupant.arrival)
    }

    fn admissible(_: &GroupConfiguration, _: &PrefillLeg) -> Result<(), Reason> {
        Ok(())
    }

    fn request(arrival: &PrefillLeg) -> RequestId {
        arrival.id
    }

    fn turned_away(_: RequestId, _: TurnedAway) -> Option<Do> {
        None
    }

    fn decide(
        configuration: &GroupConfiguration,
        Inputs { state, outcome, brief, .. }: Inputs<Self>,
    ) -> Result<Decision<LegTenant, Action>, Fault> {
        Deciding::<R>::new(configuration, state, &outcome, &brief).run()
    }

    fn perform(
        evidence: &mut Evidence,
        action: &Action,
        tokens: &[Vec<TokenId>],
        _: RankIndex,
        effect: &mut dyn FnMut(Do),
    ) {
        match action {
            Action::Write { slot, leg, pages, forward, row } => {
                let sampled = tokens.get(*forward).and_then(|tokens| tokens.get(*row));
                if let Some(token) = sampled {
                    evidence.set_writes(*slot, Writes::Outstanding);
                    effect(Do::Write { leg: *leg, pages: pages.clone(), token: *token });
                }
            }
            Action::End { leg, outcome, .. } => match outcome {
                LegOutcome::Written => {}
                LegOutcome::Failed(_) => {
                    effect(Do::Fail { leg: *leg, outcome: *outcome });
                }
            },
            Action::Copy(copy) => effect(Do::Copy(*copy)),
            Action::Release { slot, leg } => {
                evidence.forget(*slot, *leg);
                effect(Do::Forget { leg: *leg });
            }
        }
    }

    fn check_launch(state: &State<LegTenant>, evidence: &Evidence, flight: &Flight) -> Result<(), Fault> {
        let listed = |row: &&Row| {
            let leg = state.occupant(row.slot).map(|tenant| tenant.arrival.leg);
            let listing = leg.and_then(|leg| evidence.listings.get(&leg.slot));
            listing.is_some_and(|listing| Some(listing.leg) >= leg)
        };
        let unlisted = flight.rows.iter().find(|row| !listed(row));
        unlisted.map_or(Ok(()), |row| Err(Fault::NotListed(row.slot)))
    }
}
