//! What reaches one rank alone, what it does alone, and how facts are taken. Facts enter no collective.

use super::{Effects, Position, RankMachine};
use crate::brief::Brief;
use crate::fault::Fault;
use crate::ids::{CopyId, ForwardId, RequestId, TokenId};
use crate::program::Effect;
use crate::role::{Role, TurnedAway};
use crate::table::Row;
use crate::why::Why;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// What reaches one rank alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fact<A, R> {
    /// The device finished a forward; `tokens` holds one token for each row of its plan.
    Retired {
        /// The forward.
        forward: ForwardId,
        /// What it sampled.
        tokens: Vec<TokenId>,
    },
    /// The device finished a copy between a page of its own and one of the host.
    Copied(CopyId),
    /// The front end accepted a request. Reaches the leader.
    Submitted(A),
    /// The front end wants a request ended. Reaches the leader.
    AbortWanted(RequestId),
    /// The front end wants the group to launch nothing, or to go on. Reaches the leader.
    PauseWanted(bool),
    /// This rank was asked to leave.
    ShutdownWanted,
    /// Something on this rank broke; the group must end.
    Broken,
    /// One tick of the clock passed.
    Tick,
    /// What only this role's ranks see.
    Role(R),
}

/// What a rank does alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Local<E> {
    /// Queue this forward's work on the device. It belongs to the `Site::Forward` entry that follows it.
    Launch {
        /// The forward.
        forward: ForwardId,
        /// For each row: slot, position of the first input token, number of tokens, pages.
        rows: Vec<Row>,
    },
    /// The decision was taken; why each of its outcomes came about. Nothing is to be done.
    Decided(Vec<Why>),
    /// What only this role's ranks do.
    Role(E),
}

impl Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.slot, self.position, self.tokens, &self.pages).serialize(serializer)
    }
}

impl<R: Role> RankMachine<R> {
    pub(super) fn absorb(
        &mut self,
        fact: Fact<R::Arrival, R::Fact>,
        effects: &mut Effects<R>,
    ) -> Result<(), Fault> {
        match fact {
            Fact::Retired { forward, tokens } => {
                self.device.retire(&self.state.value().flights.queue, forward, tokens)
            }
            Fact::Copied(copy) => self.device.finish_copy(self.state.value().host.copies(), copy),
            Fact::Submitted(arrival) => {
                self.submit(arrival, effects);
                Ok(())
            }
            Fact::AbortWanted(request) => {
                let withdrawn = self.intake.abort::<R>(request);
                withdrawn.iter().for_each(|arrival| self.turn_away(arrival, TurnedAway::Aborted, effects));
                Ok(())
            }
            Fact::PauseWanted(paused) => {
                self.intake.pause = Some(paused);
                Ok(())
            }
            Fact::ShutdownWanted => {
                self.shutdown_wanted = true;
                Ok(())
            }
            Fact::Broken => {
                self.broken = true;
                Ok(())
            }
            Fact::Tick => {
                R::tick(&self.configuration, self.state.value(), &mut self.evidence);
                Ok(())
            }
            Fact::Role(fact) => {
                R::absorb(*self.epoch.value(), self.state.value(), &mut self.evidence, fact);
                self.intake.arrivals.retain(|arrival| R::wanted(arrival, &self.evidence));
                Ok(())
            }
        }
    }

    /// Takes a new request: refused if it could never run or the group is on its way out, ignored if it is known.
    fn submit(&mut self, arrival: R::Arrival, effects: &mut Effects<R>) {
        let state = self.state.value();
        let occupants = state.slots.iter().filter_map(|slot| slot.occupant.as_ref());
        let known = occupants.filter_map(R::arrival).any(|known| R::same(known, &arrival));
        if !R::wanted(&arrival, &self.evidence) || known || self.is_briefing(&arrival) {
            return;
        }
        match R::admissible(&self.configuration, &arrival) {
            Err(reason) => self.turn_away(&arrival, TurnedAway::Refused(reason), effects),
            Ok(()) if state.closing => self.turn_away(&arrival, TurnedAway::Aborted, effects),
            Ok(()) => self.intake.submit::<R>(arrival),
        }
    }

    /// Whether a request is in the brief that was frozen with the vote.
    fn is_briefing(&self, arrival: &R::Arrival) -> bool {
        let Position::Voting { brief, .. } = &self.position else { return false };
        let briefed = Brief::<R::Arrival>::decode(brief).map_or_else(|_| Vec::new(), |brief| brief.arrivals);
        briefed.iter().any(|known| R::same(known, arrival))
    }

    pub(super) fn turn_away(&self, arrival: &R::Arrival, why: TurnedAway, effects: &mut Effects<R>) {
        let effect = R::turned_away(R::request(arrival), why);
        effects.extend(effect.map(|effect| Effect::Local(Local::Role(effect))));
    }
}
