//! The decode group: requests take slots, bring their KV in from the prefill side, run, and may be retracted and resumed.
//!
//! Reading order: [`phase`] (where a request is), [`evidence`] (what one rank sees), [`decide`] and [`pages`] (what the group decides),
//! [`rules`] (why so), [`action`] (what each rank then does).

pub mod action;
mod decide;
pub mod evidence;
mod pages;
pub mod phase;
pub mod request;
pub mod rules;

use crate::configuration::GroupConfiguration;
use crate::decode::action::{Action, Do, TokenSource};
use crate::decode::decide::Deciding;
use crate::decode::evidence::{Ended, Evidence, LegFact, Receipt};
use crate::decode::phase::Tenant;
use crate::decode::request::Request;
use crate::decode::rules::{Rules, Shipped};
use crate::fault::Fault;
use crate::ids::{Epoch, Leg, RankIndex, RequestId, SlotIndex, TokenId};
use crate::poll::Reason;
use crate::role::{Decision, Inputs, Role, TurnedAway};
use crate::table::{Flight, Slot, State};
use crate::vote::SlotVote;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// The decode role, with the rules that it follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decode<R = Shipped>(PhantomData<R>);

/// A rank of a decode group.
pub type DecodeMachine<R = Shipped> = crate::machine::RankMachine<Decode<R>>;

impl<R: Rules> Role for Decode<R> {
    type Arrival = Request;
    type Occupant = Tenant;
    type Evidence = Evidence;
    type Fact = (Leg, LegFact);
    type Action = Action;
    type Effect = Do;

    fn evidence(configuration: &GroupConfiguration) -> Evidence {
        Evidence::new(configuration)
    }

    fn absorb(epoch: Epoch, state: &State<Tenant>, evidence: &mut Evidence, (leg, fact): (Leg, LegFact)) {
        evidence.absorb::<R>(epoch, state, leg, fact);
    }

    fn tick(configuration: &GroupConfiguration, state: &State<Tenant>, evidence: &mut Evidence) {
        evidence.tick(configuration, state);
    }

    fn sample(
        configuration: &GroupConfiguration,
        slot: &Slot<Tenant>,
        index: SlotIndex,
        evidence: &Evidence,
    ) -> SlotVote {
        let seen = evidence.slots.get(index.index());
        seen.map_or(SlotVote::NEUTRAL, |seen| seen.sample::<R>(configuration, slot))
    }

    fn ready(_: &Request, _: &Evidence) -> bool {
        true
    }

    fn wanted(_: &Request, _: &Evidence) -> bool {
        true
    }

    fn ends(configuration: &GroupConfiguration, occupant: Option<&Tenant>, token: TokenId) -> bool {
        occupant.is_some_and(|tenant| decide::ends(configuration, tenant, token))
    }

    fn same(left: &Request, right: &Request) -> bool {
        left.id == right.id
    }

    fn replaces(_: &Request, _: &Request) -> bool {
        false
    }

    fn arrival(occupant: &Tenant) -> Option<&Request> {
        (!occupant.ended()).then_some(&occupant.request)
    }

    fn admissible(configuration: &GroupConfiguration, arrival: &Request) -> Result<(), Reason> {
        arrival.admissible(configuration)
    }

    fn request(arrival: &Request) -> RequestId {
        arrival.id
    }

    fn turned_away(request: RequestId, why: TurnedAway) -> Option<Do> {
        let outcome = match why {
            TurnedAway::Aborted => phase::Outcome::Aborted,
            TurnedAway::Refused(reason) => phase::Outcome::Failed(reason),
        };
        Some(Do::End { request, outcome })
    }

    fn votes_first() -> bool {
        R::votes_first()
    }

    fn decide(
        configuration: &GroupConfiguration,
        Inputs { epoch, state, outcome, brief }: Inputs<Self>,
    ) -> Result<Decision<Tenant, Action>, Fault> {
        Deciding::<R>::new(configuration, epoch, state, &outcome, &brief).run()
    }

    fn perform(
        evidence: &mut Evidence,
        action: &Action,
        tokens: &[Vec<TokenId>],
        rank: RankIndex,
        effect: &mut dyn FnMut(Do),
    ) {
        match action {
            Action::Handshake { leg, request, generated } => {
                seen(evidence, *leg, evidence::SlotEvidence::begin_handshake);
                effect(Do::Handshake { leg: *leg, request: *request, generated: *generated });
            }
            Action::Copy(copy) => effect(Do::Copy(*copy)),
            Action::Publish { leg, pages } => {
                seen(evidence, *leg, evidence::SlotEvidence::begin_transfer);
                effect(Do::Publish { leg: *leg, pages: pages.clone() });
            }
            Action::EndAttempt { leg } => match seen(evidence, *leg, evidence::SlotEvidence::end_attempt) {
                Some(Ended::Granted) => effect(Do::Fence { leg: *leg }),
                Some(Ended::Shaking) => effect(Do::Withdraw { leg: *leg }),
                Some(Ended::Nothing) | None => {}
            },
            Action::Release { leg } => {
                seen(evidence, *leg, evidence::SlotEvidence::forget);
            }
            Action::Accept { slot, request, index, source, ended } => {
                let Some(token) = resolve(*source, tokens) else { return };
                if matches!(source, TokenSource::FirstToken(_)) {
                    effect(Do::Seed { slot: *slot, token });
                }
                if rank.0 == 0 {
                    effect(Do::Emit { request: *request, index: *index, token, ended: *ended });
                }
            }
            Action::End { request, outcome } => {
                if rank.0 == 0 {
                    effect(Do::End { request: *request, outcome: *outcome });
                }
            }
        }
    }

    fn check_launch(state: &State<Tenant>, evidence: &Evidence, flight: &Flight) -> Result<(), Fault> {
        let unwhole = flight.rows.iter().find(|row| {
            let seen = evidence.slots.get(row.slot.index());
            state.occupant(row.slot).is_none()
                || !seen.is_some_and(|seen| matches!(seen.receipt, Receipt::Whole(_)))
        });
        unwhole.map_or(Ok(()), |row| Err(Fault::KvNotWhole(row.slot)))
    }
}

fn seen<T>(evidence: &mut Evidence, leg: Leg, change: fn(&mut evidence::SlotEvidence) -> T) -> Option<T> {
    evidence.slots.get_mut(leg.slot.index()).map(change)
}

fn resolve(source: TokenSource, tokens: &[Vec<TokenId>]) -> Option<TokenId> {
    match source {
        TokenSource::FirstToken(token) => Some(token),
        TokenSource::Forward { index, row } => tokens.get(index)?.get(row).copied(),
    }
}
