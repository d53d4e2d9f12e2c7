//! The hands of a decode rank: handshakes, page lists and fences at the fabric; tokens and ends to the front end.

use super::device::{Batch, BatchRow, Command, Queue};
use super::driver::Front;
use super::error::RankError;
use super::hands::{FactOf, Hands};
use super::inputs::{Inbox, Input};
use crate::fabric::{DecodeFabric, DecodeInbound};
use crate::supervisor::say;
use crate::wire::{FrontToRank, RankName, RankToFront};
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::evidence::{LegFact, MetadataRow};
use lockstep_spec::decode::{Decode, DecodeMachine};
use lockstep_spec::ids::{RequestId, TokenId};
use lockstep_spec::machine::Fact;
use lockstep_spec::table::Row;

/// A decode rank's hands.
pub(super) struct DecodeHands {
    pub(super) fabric: DecodeFabric,
    pub(super) device: Queue,
    pub(super) front: Front,
    pub(super) leads: bool,
}

impl Hands for DecodeHands {
    type Role = Decode;

    fn take(&mut self, input: Input, facts: &mut Vec<FactOf<Decode>>) -> Result<(), RankError> {
        match input {
            Input::Leg(leg, fact) => facts.push(Fact::Role((leg, fact))),
            Input::Front(FrontToRank::Submit(request)) => facts.push(Fact::Submitted(request)),
            Input::Front(FrontToRank::Abort { request }) => facts.push(Fact::AbortWanted(RequestId(request))),
            Input::Front(FrontToRank::Attach { .. } | FrontToRank::Dismiss | FrontToRank::Leg { .. })
            | Input::Front(FrontToRank::Pause)
            | Input::Front(FrontToRank::Resume | FrontToRank::Shutdown)
            | Input::FrontGone(_)
            | Input::Prefill(_)
            | Input::WriteFailed(_)
            | Input::Retired { .. }
            | Input::DeviceFailed(_) => {}
        }
        Ok(())
    }

    fn perform(&mut self, effect: Do, facts: &mut Vec<FactOf<Decode>>) -> Result<(), RankError> {
        match effect {
            Do::Handshake { leg, request, generated } => {
                self.fabric.hello(leg)?;
                self.tell(&RankToFront::LegWanted { request: request.0, leg, generated })
            }
            Do::Publish { leg, pages } => {
                let pages: Vec<u32> = pages.iter().map(|page| page.0).collect();
                self.device.push(Command::Expect { leg, pages: pages.iter().copied().collect() })?;
                let listed = self.fabric.publish(leg, &pages);
                facts.push(Fact::Role((leg, LegFact::Published)));
                if listed.is_err() {
                    facts.push(Fact::Role((leg, LegFact::TransferFailed)));
                }
                Ok(())
            }
            Do::Withdraw { leg } => {
                self.fabric.revoke(leg);
                Ok(())
            }
            Do::Fence { leg } => {
                self.fabric.revoke(leg);
                self.device.push(Command::Fence { leg })
            }
            Do::Seed { slot, token } => self.device.push(Command::Seed { slot, token }),
            Do::Emit { request, index, token, ended } => {
                self.tell(&RankToFront::Token { request: request.0, index, token: token.0, ended })
            }
            Do::End { request, outcome } => self.tell(&RankToFront::Ended { request: request.0, outcome }),
        }
    }

    fn batch(&self, _: &DecodeMachine, rows: Vec<Row>) -> Result<Batch, RankError> {
        let row = |Row { slot, position, pages, .. }: Row| BatchRow {
            slot,
            position,
            tokens: Vec::new(),
            pages: pages.iter().map(|page| page.0).collect(),
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

/// The fabric's sink: pages go to the device's queue, all else is a fact. The thread that is gone is noticed by the rank loop.
pub(super) fn sink(
    name: RankName,
    inbox: Inbox,
    device: Queue,
) -> impl Fn(DecodeInbound<'_>) + Send + 'static {
    move |inbound| {
        let fact = |leg, fact| {
            let _gone = inbox.send(Input::Leg(leg, fact));
        };
        match inbound {
            DecodeInbound::HandshakeReady { leg } => fact(leg, LegFact::HandshakeDone),
            DecodeInbound::HandshakeFailed { leg, why } => {
                say(&format!("lockstep {name}: {leg} has no prefill rank: {why}"));
                fact(leg, LegFact::HandshakeFailed);
            }
            DecodeInbound::LegFailed { leg, .. } => {
                fact(leg, LegFact::HandshakeFailed);
                fact(leg, LegFact::TransferFailed);
            }
            DecodeInbound::Corrupt { leg, .. } => {
                fact(leg, LegFact::RowLanded(MetadataRow { echo: leg, token: TokenId(0), sound: false }));
            }
            DecodeInbound::Row { leg, row } => {
                let (echo, token) = (row.echo, TokenId(row.first_token));
                fact(leg, LegFact::RowLanded(MetadataRow { echo, token, sound: true }));
            }
            DecodeInbound::Page { leg, page, bytes, .. } => {
                let _gone = device.push(Command::WritePage { leg, page, bytes: bytes.to_vec() });
            }
            DecodeInbound::PeerGone { .. } => {}
        }
    }
}
