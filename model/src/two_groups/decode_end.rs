//! What happens at the decode ends: what the machines ask for, and what reaches them.

use crate::decode::setting::PLAIN;
use crate::two_groups::pair::{Held, Pair};
use crate::two_groups::setting::{Fence, Names, Setting};
use crate::two_groups::wire::{Landed, Link, List, Stage, Write};
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::evidence::{LegFact, MetadataRow};
use lockstep_spec::decode::request::Request;
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::ids::{ForwardId, Leg, RequestId};
use lockstep_spec::invariant::{kv_before_run, no_write_after_free, vote_fresh};
use lockstep_spec::machine::{Fact, Local};
use lockstep_spec::prefill::leg::PrefillLeg;
use lockstep_spec::prefill::rules::Rules as PrefillRules;
use lockstep_spec::program::Event;
use lockstep_spec::table::Row;

/// What reaches a decode rank.
pub(super) type DecodeFact = Fact<Request, (Leg, LegFact)>;

impl<D: DecodeRules, P: PrefillRules> Pair<D, P> {
    /// A fact reaches a decode rank, which does what follows from it.
    pub(super) fn tell_decode(&mut self, setting: &Setting, rank: usize, fact: DecodeFact) -> Held {
        let locals = self.decode.step(rank, Event::Fact(fact))?;
        self.perform_decode(setting, rank, locals)
    }

    fn tell_leg(&mut self, setting: &Setting, rank: usize, leg: Leg, fact: LegFact) -> Held {
        self.tell_decode(setting, rank, Fact::Role((leg, fact)))
    }

    pub(super) fn perform_decode(&mut self, setting: &Setting, rank: usize, locals: Vec<Local<Do>>) -> Held {
        for local in locals {
            match local {
                Local::Launch { forward, rows } => self.launch_decode(setting, rank, forward, &rows)?,
                Local::Role(Do::Handshake { leg, request, generated }) => {
                    self.shake(setting, rank, leg);
                    self.ask(rank, leg, request, generated);
                }
                Local::Role(Do::Publish { leg, pages }) => {
                    self.publish(setting, rank, List { leg, pages })?
                }
                Local::Role(Do::Withdraw { leg }) => self.revoke(setting, rank, leg),
                Local::Role(Do::Fence { leg }) => self.fence(setting, rank, leg),
                Local::Role(said @ (Do::Emit { .. } | Do::End { .. })) => self.hear(rank, &said)?,
                Local::Role(Do::Copy(_) | Do::Seed { .. }) | Local::Decided(_) => {}
            }
        }
        Ok(())
    }

    fn shake(&mut self, setting: &Setting, rank: usize, leg: Leg) {
        for link in setting.links_of_decode(rank) {
            self.links[link].wire(leg).entry = Some((leg, Stage::Greeting));
        }
    }

    /// The leader has the front end send the leg's tokens to every prefill rank.
    fn ask(&mut self, rank: usize, leg: Leg, id: RequestId, generated: u32) {
        let occupant = self.decode.ranks[rank].state().value().occupant(leg.slot);
        if let Some(request) = occupant.map(|tenant| tenant.request).filter(|_| rank == 0) {
            let tokens = request.prompt_tokens + generated;
            self.want(PrefillLeg { id, leg, tokens, keys: Vec::new() });
        }
    }

    /// A handshake is answered on a link. The rank is told once all its links are.
    pub(super) fn answer(&mut self, setting: &Setting, link: usize, leg: Leg) -> Held {
        self.links[link].wire(leg).entry = Some((leg, Stage::Ready));
        let rank = setting.decode_rank(link);
        let all = setting.links_of_decode(rank).all(|link| self.links[link].wire(leg).shaken(leg));
        if all { self.tell_leg(setting, rank, leg, LegFact::HandshakeDone) } else { Ok(()) }
    }

    /// Pages may be published only after every rank's handshake for that attempt. A list that finds no link fails the transfer.
    fn publish(&mut self, setting: &Setting, rank: usize, list: List) -> Held {
        let leg = list.leg;
        let greeting = |link: &Link| link.wires[leg.slot.index()].is(leg, Stage::Greeting);
        if self.links.iter().any(greeting) {
            return Err(vote_fresh::PROPERTY.id);
        }
        let mut sent = true;
        for link in setting.links_of_decode(rank) {
            sent &= self.links[link].grant(&list);
        }
        self.tell_leg(setting, rank, leg, LegFact::Published)?;
        if sent { Ok(()) } else { self.tell_leg(setting, rank, leg, LegFact::TransferFailed) }
    }

    fn revoke(&mut self, setting: &Setting, rank: usize, leg: Leg) {
        for link in setting.links_of_decode(rank) {
            let up = self.links[link].up();
            self.links[link].wire(leg).revoke(leg, up);
        }
    }

    fn fence(&mut self, setting: &Setting, rank: usize, leg: Leg) {
        if setting.coupling.fence == Fence::Acknowledged {
            // The peer's word is needed in any case.
            for link in setting.links_of_decode(rank) {
                self.links[link].wire(leg).entry = Some((leg, Stage::Granted));
            }
        }
        self.revoke(setting, rank, leg);
        self.decode_ends[rank].fences.push(leg);
        if setting.coupling.fence == Fence::Disconnects {
            for link in setting.links_of_decode(rank) {
                let posted = self.links[link].wires.iter_mut().flat_map(|wire| &mut wire.writes);
                let to_leg = |write: &&mut Write| write.to.as_ref().is_some_and(|to| to.leg == leg);
                posted.filter(to_leg).for_each(|write| (write.pages, write.row) = (false, false));
            }
        }
    }

    pub(super) fn fenced(&mut self, setting: &Setting, rank: usize, leg: Leg) -> Held {
        self.decode_ends[rank].fences.retain(|fence| *fence != leg);
        for link in setting.links_of_decode(rank) {
            let wire = self.links[link].wire(leg);
            wire.acknowledged.retain(|acknowledged| *acknowledged != leg);
            match setting.coupling.fence {
                Fence::Disconnects => {}
                Fence::Acknowledged | Fence::Revokes => wire.keys.retain(|key| key.leg != leg),
            }
        }
        self.tell_leg(setting, rank, leg, LegFact::Fenced)
    }

    /// Pages land where the key lets them; those pages must still be held for the very attempt that the key was given for.
    pub(super) fn land_pages(&mut self, setting: &Setting, link: usize, leg: Leg) -> Held {
        let rank = setting.decode_rank(link);
        let Some(Write { to: Some(to), .. }) = self.writing(link, leg).cloned() else { return Ok(()) };
        if self.writing(link, leg).is_some_and(|write| write.reading) {
            self.check_read(setting, link, leg)?;
        }
        let state = self.decode.ranks[rank].state().value();
        let held = state.leg(self.epoch, to.leg.slot) == Some(to.leg)
            && no_write_after_free::holds_for(state, to.leg.slot, &to.pages);
        if !held {
            return Err(no_write_after_free::PROPERTY.id);
        }
        for page in &to.pages {
            self.links[link].kv[page.0 as usize] = Some(leg);
        }
        self.change_write(link, leg, |write| write.pages = false);
        self.landed(setting, link, to.leg, LegFact::PagesLanded)
    }

    pub(super) fn land_row(&mut self, setting: &Setting, link: usize, leg: Leg) -> Held {
        let Some(Write { to: Some(to), .. }) = self.writing(link, leg).cloned() else { return Ok(()) };
        self.change_write(link, leg, |write| write.row = false);
        let echo = match setting.coupling.names {
            Names::Leg => leg,
            Names::Room => to.leg,
        };
        let row = MetadataRow { echo, token: PLAIN, sound: true };
        self.landed(setting, link, to.leg, LegFact::RowLanded(row))
    }

    /// A part of a leg's transfer has landed on a link. The rank is told once it has on all its links.
    fn landed(&mut self, setting: &Setting, link: usize, leg: Leg, fact: LegFact) -> Held {
        let pages = fact == LegFact::PagesLanded;
        self.links[link].wire(leg).land(pages);
        let there = |landed: Landed| if pages { landed.pages } else { landed.row };
        let rank = setting.decode_rank(link);
        let all = setting.links_of_decode(rank).all(|link| there(self.links[link].wire(leg).landed));
        if all { self.tell_leg(setting, rank, leg, fact) } else { Ok(()) }
    }

    /// A failure ends what is granted, and nothing else.
    pub(super) fn take_fail(&mut self, setting: &Setting, link: usize, leg: Leg) -> Held {
        let wire = self.links[link].wire(leg);
        wire.fails.retain(|failed| *failed != leg);
        if !wire.is(leg, Stage::Granted) {
            return Ok(());
        }
        wire.entry = None;
        self.fail(setting, setting.decode_rank(link), leg)
    }

    /// Every leg of the link is over.
    pub(super) fn notice_at_decode(&mut self, setting: &Setting, link: usize) -> Held {
        self.links[link].broken.decode_unaware = false;
        self.links[link].silence();
        let entries = self.links[link].wires.iter_mut().filter_map(|wire| wire.entry.take());
        let over: Vec<Leg> = entries.map(|(leg, _)| leg).collect();
        over.into_iter().try_for_each(|leg| self.fail(setting, setting.decode_rank(link), leg))
    }

    fn fail(&mut self, setting: &Setting, rank: usize, leg: Leg) -> Held {
        self.tell_leg(setting, rank, leg, LegFact::HandshakeFailed)?;
        self.tell_leg(setting, rank, leg, LegFact::TransferFailed)
    }

    /// A plan names only requests whose KV is whole on every link of the rank and theirs: prompt and output so far by transfer, the rest
    /// by forwards of the same attempt. No peer holds a key to it any more.
    fn launch_decode(&mut self, setting: &Setting, rank: usize, forward: ForwardId, rows: &[Row]) -> Held {
        let state = self.decode.ranks[rank].state().value();
        for Row { slot, position, pages, .. } in rows {
            let leg = state.leg(self.epoch, *slot).ok_or(kv_before_run::PROPERTY.id)?;
            for index in setting.links_of_decode(rank) {
                self.links[index].run(leg, *position as usize, pages)?;
            }
        }
        self.decode_ends[rank].device.push((forward, rows.len()));
        Ok(())
    }

    pub(super) fn retire_decode(&mut self, setting: &Setting, rank: usize) -> Held {
        let (forward, rows) = self.decode_ends[rank].device.remove(0);
        self.decode.device.retire(rank);
        self.tell_decode(setting, rank, Fact::Retired { forward, tokens: vec![PLAIN; rows] })
    }
}
