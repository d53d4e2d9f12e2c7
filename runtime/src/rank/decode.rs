//! The hands of a decode rank: handshakes, page lists and fences at the fabric; tokens and ends to the front end.

use super::device::{Batch, BatchRow, Command, Queue};
use super::driver::Front;
use super::error::RankError;
use super::gathering::Reception;
use super::hands::{FactOf, Hands};
use super::inputs::{Inbox, Input};
use crate::fabric::{DecodeFabric, DecodeInbound};
use crate::supervisor::say;
use crate::wire::{FrontToRank, RankName, RankToFront};
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::evidence::LegFact;
use lockstep_spec::decode::{Decode, DecodeMachine};
use lockstep_spec::ids::RequestId;
use lockstep_spec::machine::Fact;
use lockstep_spec::table::Row;
use std::sync::{Arc, Mutex, PoisonError};

/// A decode rank's hands.
pub(super) struct DecodeHands {
    /// To each prefill rank with heads of this one.
    pub(super) fabrics: Vec<DecodeFabric>,
    pub(super) device: Queue,
    pub(super) front: Front,
    pub(super) leads: bool,
}

impl Hands for DecodeHands {
    type Role = Decode;

    fn take(&mut self, input: Input, facts: &mut Vec<FactOf<Decode>>) -> Result<(), RankError> {
        facts.extend(fact(&input));
        Ok(())
    }

    fn perform(&mut self, effect: Do, facts: &mut Vec<FactOf<Decode>>) -> Result<(), RankError> {
        match effect {
            Do::Handshake { leg, request, generated } => {
                self.fabrics.iter().try_for_each(|fabric| fabric.hello(leg))?;
                self.tell(&RankToFront::LegWanted { request: request.0, leg, generated })
            }
            Do::Copy(copy) => self.device.push(Command::Copy(copy)),
            Do::Publish { leg, pages } => {
                let pages: Vec<u32> = pages.iter().map(|page| page.0).collect();
                self.device.push(Command::Expect { leg, pages: pages.iter().copied().collect() })?;
                let listed = self.fabrics.iter().map(|fabric| fabric.publish(leg, &pages));
                // Each is asked, whatever came of the others.
                let failed = listed.filter(Result::is_err).count() > 0;
                facts.push(Fact::Role((leg, LegFact::Published)));
                if failed {
                    facts.push(Fact::Role((leg, LegFact::TransferFailed)));
                }
                Ok(())
            }
            Do::Withdraw { leg } => {
                self.fabrics.iter().for_each(|fabric| fabric.revoke(leg));
                Ok(())
            }
            Do::Fence { leg } => {
                self.fabrics.iter().for_each(|fabric| fabric.revoke(leg));
                self.device.push(Command::Fence { leg })
            }
            Do::Seed { slot, token } => self.device.push(Command::Seed { slot, token }),
            Do::Emit { request, index, token, ended } => {
                self.tell(&RankToFront::Token { request: request.0, index, token: token.0, ended })
            }
            Do::End { request, outcome } => self.tell(&RankToFront::Ended { request: request.0, outcome }),
        }
    }

    fn batch(&self, machine: &DecodeMachine, rows: Vec<Row>) -> Result<Batch, RankError> {
        let row = |Row { slot, position, pages, .. }: Row| BatchRow {
            slot,
            position,
            tokens: Vec::new(),
            pages: pages.iter().map(|page| page.0).collect(),
            draw: machine.state().value().occupant(slot).map(|tenant| tenant.request.draw_after(position)),
        };
        Ok(rows.into_iter().map(row).collect())
    }
}

impl DecodeHands {
    /// The leader speaks for its group.
    fn tell(&self, message: &RankToFront) -> Result<(), RankError> {
        if self.leads { self.front.send(message) } else { Ok(()) }
    }
}

/// What an input says to a decode rank's machine beside what it says to every role's.
pub(super) fn fact(input: &Input) -> Option<FactOf<Decode>> {
    match input {
        Input::Leg(leg, fact) => Some(Fact::Role((*leg, *fact))),
        Input::Front(FrontToRank::Submit(request)) => Some(Fact::Submitted(*request)),
        Input::Front(FrontToRank::Abort { request }) => Some(Fact::AbortWanted(RequestId(*request))),
        Input::Front(FrontToRank::Attach { .. } | FrontToRank::Dismiss | FrontToRank::Leg { .. })
        | Input::Front(FrontToRank::Pause | FrontToRank::Resume | FrontToRank::Shutdown)
        | Input::FrontGone(_)
        | Input::Prefill(_)
        | Input::WriteFailed(_)
        | Input::Retired { .. }
        | Input::Copied(_)
        | Input::Voted { .. }
        | Input::DeviceFailed(_) => None,
    }
}

/// The sink of the fabric to peer `peer`: pages go to the device's queue, all else is gathered into facts. The thread that is gone is noticed
/// by the rank loop.
pub(super) fn sink(
    (name, peer): (RankName, usize),
    inbox: Inbox,
    device: Queue,
    reception: Arc<Mutex<Reception>>,
) -> impl Fn(DecodeInbound<'_>) + Send + 'static {
    move |inbound| {
        match &inbound {
            DecodeInbound::HandshakeFailed { leg, why } => {
                say(&format!("lockstep {name}: {leg} has no prefill rank: {why}"));
            }
            DecodeInbound::Page { leg, page, bytes, .. } => {
                let (leg, page, bytes) = (*leg, *page, bytes.to_vec());
                let _gone = device.push(Command::WritePage { leg, peer, page, bytes });
            }
            DecodeInbound::Corrupt { .. } | DecodeInbound::HandshakeReady { .. } => {}
            DecodeInbound::LegFailed { .. } | DecodeInbound::PeerGone { .. } | DecodeInbound::Row { .. } => {}
        }
        // Held while they are sent, so that what one peer's report completes does not overtake another's.
        let mut reception = reception.lock().unwrap_or_else(PoisonError::into_inner);
        for (leg, fact) in reception.hears(peer, &inbound) {
            let _gone = inbox.send(Input::Leg(leg, fact));
        }
    }
}
