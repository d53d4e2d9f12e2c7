//! The hands of a prefill rank: it joins a leg's tokens, which the front end sends, with its page list, which the decode peer sends.

use super::device::{Batch, BatchRow, Command, Queue};
use super::error::RankError;
use super::hands::{FactOf, Hands};
use super::inputs::Input;
use crate::fabric::{PrefillFabric, PrefillInbound};
use crate::wire::{Draw, FrontToRank};
use lockstep_spec::ids::{BlockKey, Epoch, Leg, RequestId};
use lockstep_spec::machine::Fact;
use lockstep_spec::prefill::action::Do;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::{LegOutcome, PrefillLeg};
use lockstep_spec::prefill::parts::{Part, Parts};
use lockstep_spec::prefill::{Prefill, PrefillMachine};
use lockstep_spec::table::Row;
use std::collections::{BTreeMap, BTreeSet};

/// What this rank has been given of a leg.
#[derive(Debug, Default)]
struct Given {
    tokens: Vec<u32>,
    draw: Option<Draw>,
    pages: Vec<u32>,
}

/// A prefill rank's hands.
pub(super) struct PrefillHands {
    device: Queue,
    leads: bool,
    parts: Parts,
    legs: BTreeMap<Leg, Given>,
    /// Legs whose writes were posted, and have neither completed nor failed yet.
    posted: BTreeSet<Leg>,
    /// Where another decode deployment is let in.
    fabric: Option<PrefillFabric>,
}

impl PrefillHands {
    pub(super) fn new(device: Queue, leads: bool) -> Self {
        let (parts, legs, posted) = (Parts::default(), BTreeMap::new(), BTreeSet::new());
        Self { device, leads, parts, legs, posted, fabric: None }
    }

    /// The same, which has `fabric` let in whichever decode deployment the front end names.
    pub(super) fn admitting(self, fabric: PrefillFabric) -> Self {
        Self { fabric: Some(fabric), ..self }
    }

    /// Only epochs since this one, of this decode deployment, are of concern.
    fn attach(&mut self, deployment: u64, since: Epoch, facts: &mut Vec<FactOf<Prefill>>) {
        if let Some(fabric) = &self.fabric {
            fabric.admit(deployment);
        }
        let mut follows = Vec::new();
        self.parts.detach(since, &mut follows);
        self.legs.retain(|leg, _| self.parts.accepts(*leg));
        facts.extend(follows.into_iter().map(Fact::Role));
    }

    /// Keeps a part of a leg, and what follows from it.
    fn join(
        &mut self,
        leg: Leg,
        part: Part,
        keep: impl FnOnce(&mut Given),
        facts: &mut Vec<FactOf<Prefill>>,
    ) {
        if !self.parts.accepts(leg) {
            return;
        }
        let mut follows = Vec::new();
        self.parts.take(leg, part, &mut follows);
        self.legs.retain(|kept, _| kept.slot != leg.slot || *kept >= leg);
        keep(self.legs.entry(leg).or_default());
        facts.extend(follows.into_iter().map(Fact::Role));
    }

    fn leg(
        &mut self,
        (leg, acceptance): (Leg, u64),
        (tokens, keys, draw): (Vec<u32>, Vec<BlockKey>, Draw),
        facts: &mut Vec<FactOf<Prefill>>,
    ) {
        if self.leads {
            let id = RequestId(acceptance);
            let count = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
            facts.push(Fact::Submitted(PrefillLeg { id, leg, tokens: count, keys }));
        }
        let keep = |given: &mut Given| (given.tokens, given.draw) = (tokens, Some(draw));
        self.join(leg, Part::Tokens, keep, facts);
    }

    fn inbound(
        &mut self,
        inbound: PrefillInbound,
        facts: &mut Vec<FactOf<Prefill>>,
    ) -> Result<(), RankError> {
        match inbound {
            PrefillInbound::List { leg, pages } => {
                self.join(leg, Part::Pages, |given| given.pages = pages, facts);
            }
            PrefillInbound::Revoked { leg } => {
                facts.push(Fact::Role((leg, WriteFact::Revoked)));
            }
            PrefillInbound::Written { leg } => self.settled(leg, WriteFact::Written, facts),
            PrefillInbound::PeerGone { .. } => return self.give_up_all(facts),
            PrefillInbound::Rejected { .. } => {}
        }
        Ok(())
    }

    fn settled(&mut self, leg: Leg, how: WriteFact, facts: &mut Vec<FactOf<Prefill>>) {
        self.posted.remove(&leg);
        facts.push(Fact::Role((leg, how)));
    }

    /// The connection to the decode peer ended: what it listed is not wanted, and what was queued for it will not be written. The
    /// device says so behind what it still has to post, also of legs that a later one has made void.
    fn give_up_all(&mut self, facts: &mut Vec<FactOf<Prefill>>) -> Result<(), RankError> {
        facts.extend(self.parts.of_the_peer().map(|leg| Fact::Role((leg, WriteFact::Revoked))));
        self.posted.iter().try_for_each(|leg| self.device.push(Command::Abandon { leg: *leg }))
    }
}

impl Hands for PrefillHands {
    type Role = Prefill;

    fn take(&mut self, input: Input, facts: &mut Vec<FactOf<Prefill>>) -> Result<(), RankError> {
        match input {
            Input::Front(FrontToRank::Leg { leg, acceptance, tokens, keys, draw }) => {
                self.leg((leg, acceptance), (tokens, keys, draw), facts);
            }
            Input::Front(FrontToRank::Attach { deployment, since }) => self.attach(deployment, since, facts),
            Input::Prefill(inbound) => return self.inbound(inbound, facts),
            Input::WriteFailed(leg) => self.settled(leg, WriteFact::WriteFailed, facts),
            Input::Front(FrontToRank::Abort { .. } | FrontToRank::Dismiss | FrontToRank::Submit(_))
            | Input::Front(FrontToRank::Pause | FrontToRank::Resume | FrontToRank::Shutdown)
            | Input::FrontGone(_)
            | Input::Leg(..)
            | Input::Retired { .. }
            | Input::Copied(_)
            | Input::Voted { .. }
            | Input::DeviceFailed(_) => {}
        }
        Ok(())
    }

    fn perform(&mut self, effect: Do, facts: &mut Vec<FactOf<Prefill>>) -> Result<(), RankError> {
        match effect {
            Do::Write { leg, pages, token } => {
                let to = self.legs.get(&leg).map_or_else(Vec::new, |given| given.pages.clone());
                if to.len() != pages.len() {
                    facts.push(Fact::Role((leg, WriteFact::WriteFailed)));
                    return Ok(());
                }
                self.posted.insert(leg);
                self.device.push(Command::Send { leg, from: pages, to, token })
            }
            Do::Fail { leg, outcome } => self.device.push(Command::Fail { leg, reason: reason(outcome) }),
            Do::Copy(copy) => self.device.push(Command::Copy(copy)),
            Do::Forget { leg } => {
                self.parts.forget(leg);
                self.posted.remove(&leg);
                self.legs.retain(|kept, _| kept.slot != leg.slot || *kept > leg);
                Ok(())
            }
        }
    }

    fn batch(&self, machine: &PrefillMachine, rows: Vec<Row>) -> Result<Batch, RankError> {
        let batch_row = |row: Row| {
            let leg = machine.state().value().occupant(row.slot).map(|tenant| tenant.arrival.leg);
            let given = leg.and_then(|leg| self.legs.get(&leg));
            let tokens = given.and_then(|given| chunk(given, &row)).ok_or(RankError::NoTokens(row.slot))?;
            let pages = row.pages.iter().map(|page| page.0).collect();
            // Of a chunk that is not the last, the token is dropped.
            let draw = given.and_then(|given| given.draw);
            Ok(BatchRow { slot: row.slot, position: row.position, tokens, pages, draw })
        };
        rows.into_iter().map(batch_row).collect()
    }
}

/// The tokens of a row's positions.
fn chunk(given: &Given, row: &Row) -> Option<Vec<u32>> {
    let (start, count) = (usize::try_from(row.position).ok()?, usize::try_from(row.tokens).ok()?);
    given.tokens.get(start..start.checked_add(count)?).map(<[u32]>::to_vec)
}

fn reason(outcome: LegOutcome) -> &'static str {
    match outcome {
        LegOutcome::Written => "written",
        LegOutcome::Failed(reason) => reason.sentence(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::FabricError;
    use crate::rank::device;
    use crate::wire::Sampling;
    use lockstep_spec::ids::{Attempt, Generation, PageId, SlotIndex, TokenId};

    fn leg(attempt: u32) -> Leg {
        Leg {
            epoch: Epoch(1),
            slot: SlotIndex(3),
            generation: Generation(1),
            attempt: Attempt(attempt.into()),
        }
    }

    fn tokens(attempt: u32) -> Input {
        Input::Front(FrontToRank::Leg {
            leg: leg(attempt),
            acceptance: 0,
            tokens: vec![7],
            keys: Vec::new(),
            draw: Draw { sampling: Sampling::GREEDY, index: 0 },
        })
    }

    /// The next leg of a slot may come before the end of the connection is known: what was posted for the leg before is still to be settled,
    /// or its slot and pages are held for ever.
    #[test]
    fn prefill_hands_settle_the_writes_of_a_void_leg_when_the_peer_goes() {
        let (queue, commands) = device::queue(4, 1);
        let (mut hands, mut facts) = (PrefillHands::new(queue, true), Vec::new());
        hands.take(tokens(0), &mut facts).unwrap();
        hands.take(Input::Prefill(PrefillInbound::List { leg: leg(0), pages: vec![5] }), &mut facts).unwrap();
        assert_eq!(facts.last(), Some(&Fact::Role((leg(0), WriteFact::Listed))));
        let write = Do::Write { leg: leg(0), pages: vec![PageId(2)], token: TokenId(9) };
        hands.perform(write, &mut facts).unwrap();
        hands.take(tokens(1), &mut facts).unwrap();
        let gone = PrefillInbound::PeerGone { epoch: 1, why: FabricError::Closed };
        hands.take(Input::Prefill(gone), &mut facts).unwrap();
        assert!(matches!(commands.try_recv(), Ok(Command::Send { leg: sent, .. }) if sent == leg(0)));
        assert!(matches!(commands.try_recv(), Ok(Command::Abandon { leg: told }) if told == leg(0)));
        hands.take(Input::WriteFailed(leg(0)), &mut facts).unwrap();
        assert_eq!(facts.last(), Some(&Fact::Role((leg(0), WriteFact::WriteFailed))));
        assert!(hands.posted.is_empty());
    }

    /// Of a decode group that is gone, a leg's tokens may be all that ever came; and a page list of it may still be on its way.
    #[test]
    fn prefill_hands_give_up_the_legs_of_epochs_that_are_over() {
        let (queue, _commands) = device::queue(4, 1);
        let (mut hands, mut facts) = (PrefillHands::new(queue, false), Vec::new());
        hands.take(tokens(0), &mut facts).unwrap();
        let attach = |epoch| Input::Front(FrontToRank::Attach { deployment: 7, since: Epoch(epoch) });
        hands.take(attach(1), &mut facts).unwrap();
        assert!(facts.is_empty(), "its epoch is not over");
        hands.take(attach(2), &mut facts).unwrap();
        assert_eq!(facts, [Fact::Role((leg(0), WriteFact::Revoked))]);
        hands.take(Input::Prefill(PrefillInbound::List { leg: leg(0), pages: vec![5] }), &mut facts).unwrap();
        assert_eq!((facts.len(), hands.legs.len()), (1, 0));
    }
}
