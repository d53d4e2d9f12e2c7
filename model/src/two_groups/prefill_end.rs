//! What happens at the prefill ends: what the machines ask for, and what reaches them.

use crate::decode::setting::PLAIN;
use crate::two_groups::ends::{Parts, Told};
use crate::two_groups::pair::{Held, Pair};
use crate::two_groups::setting::{Fence, Names, Notices, Setting, Starts};
use crate::two_groups::wire::{List, Write};
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::ids::{Epoch, ForwardId, Leg, PageId};
use lockstep_spec::invariant::{kv_before_run, no_fault, no_write_after_free};
use lockstep_spec::machine::{Fact, Local};
use lockstep_spec::prefill::action::Do;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::PrefillLeg;
use lockstep_spec::prefill::rules::Rules as PrefillRules;
use lockstep_spec::program::Event;
use lockstep_spec::table::Row;

/// What reaches a prefill rank.
pub(super) type PrefillFact = Fact<PrefillLeg, (Leg, WriteFact)>;

impl<D: DecodeRules, P: PrefillRules> Pair<D, P> {
    /// A fact reaches a prefill rank, which does what follows from it.
    pub(super) fn tell_prefill(&mut self, setting: &Setting, rank: usize, fact: PrefillFact) -> Held {
        let locals = self.prefill.step(rank, Event::Fact(fact))?;
        self.perform_prefill(setting, rank, locals)
    }

    fn tell_write(&mut self, setting: &Setting, rank: usize, leg: Leg, fact: WriteFact) -> Held {
        self.tell_prefill(setting, rank, Fact::Role((leg, fact)))
    }

    pub(super) fn perform_prefill(&mut self, setting: &Setting, rank: usize, locals: Vec<Local<Do>>) -> Held {
        for local in locals {
            match local {
                Local::Launch { forward, rows } => self.launch_prefill(setting, rank, forward, &rows)?,
                Local::Role(Do::Write { leg, pages, .. }) => self.write(setting, rank, leg, &pages)?,
                Local::Role(Do::Fail { leg, .. }) => {
                    for link in setting.links_of_prefill(rank) {
                        let link = &mut self.links[link];
                        if link.up() && link.epoch == leg.epoch {
                            link.wire(leg).fails.push(leg);
                        }
                    }
                }
                Local::Role(Do::Forget { leg }) => self.prefill_ends[rank].forget(leg),
                // Nothing is kept here.
                Local::Role(Do::Copy(_)) | Local::Decided(_) => {}
            }
        }
        Ok(())
    }

    /// The front end's next word. The leader's machine is told of a leg.
    pub(super) fn take_told(&mut self, setting: &Setting, rank: usize) -> Held {
        let arrival = match self.prefill_ends[rank].told.remove(0) {
            Told::Leg(arrival) => arrival,
            Told::Detach(since) => return self.detach(setting, rank, since),
        };
        let leg = arrival.leg;
        if rank == 0 {
            self.tell_prefill(setting, rank, Fact::Submitted(arrival))?;
        }
        self.join(setting, rank, leg, |parts| parts.tokens = true)
    }

    /// Every epoch of decode before `since` is over: its legs are given up.
    fn detach(&mut self, setting: &Setting, rank: usize, since: Epoch) -> Held {
        if !setting.coupling.parting.purges {
            return Ok(());
        }
        let void = self.prefill_ends[rank].detach(since);
        void.into_iter().try_for_each(|leg| self.tell_write(setting, rank, leg, WriteFact::Revoked))
    }

    fn join(&mut self, setting: &Setting, rank: usize, leg: Leg, part: impl FnOnce(&mut Parts)) -> Held {
        let (void, listed) = self.prefill_ends[rank].join(&setting.coupling, leg, part);
        void.into_iter()
            .try_for_each(|earlier| self.tell_write(setting, rank, earlier, WriteFact::Revoked))?;
        if listed { self.tell_write(setting, rank, leg, WriteFact::Listed) } else { Ok(()) }
    }

    /// A page list arrives. By room alone it is taken for the first leg that waits for one.
    pub(super) fn take_list(&mut self, setting: &Setting, link: usize, leg: Leg) -> Held {
        let rank = setting.prefill_rank(link);
        let lists = &mut self.links[link].at_prefill_mut(leg).lists;
        let Some(found) = lists.iter().position(|list| list.leg == leg) else { return Ok(()) };
        let list = lists.remove(found);
        let place = place(setting, link);
        let leg = match setting.coupling.names {
            Names::Leg => leg,
            Names::Room => self.awaiting_list(setting, link).unwrap_or(leg),
        };
        self.resume_write(link, leg, &list);
        self.join(setting, rank, leg, |parts| parts.lists[place] = Some(list))
    }

    fn awaiting_list(&self, setting: &Setting, link: usize) -> Option<Leg> {
        let parts = &self.prefill_ends[setting.prefill_rank(link)].parts;
        let mut waiting =
            parts.iter().filter(|parts| parts.tokens && parts.lists[place(setting, link)].is_none());
        waiting.next().map(|parts| parts.leg)
    }

    /// Whether some leg at the link's prefill end waits for a page list.
    pub(super) fn awaits_list(&self, setting: &Setting, link: usize) -> bool {
        self.awaiting_list(setting, link).is_some()
    }

    /// A write that waited for its list is posted.
    fn resume_write(&mut self, link: usize, leg: Leg, list: &List) {
        let mut writes = self.links[link].at_prefill_mut(leg).writes.iter_mut();
        if let Some(write) = writes.find(|write| write.leg == leg && write.to.is_none()) {
            write.to = Some(list.clone());
            (write.pages, write.row) = (true, true);
        }
    }

    pub(super) fn take_revoke(&mut self, setting: &Setting, link: usize, leg: Leg) -> Held {
        let rank = setting.prefill_rank(link);
        let wire = self.links[link].at_prefill_mut(leg);
        wire.revokes.retain(|revoked| *revoked != leg);
        if setting.coupling.fence == Fence::Acknowledged {
            wire.acknowledged.push(leg);
        }
        let waits = wire.writes.iter().any(|write| write.leg == leg && write.to.is_none());
        let known = self.prefill_ends[rank].parts(leg).is_some();
        if setting.coupling.notices == Notices::Edge && !known {
            return Ok(());
        }
        self.tell_write(setting, rank, leg, WriteFact::Revoked)?;
        if waits { self.end_write(setting, link, leg, true) } else { Ok(()) }
    }

    /// A leg may run once every decode rank has said where it goes; its tokens are what runs.
    fn launch_prefill(&mut self, setting: &Setting, rank: usize, forward: ForwardId, rows: &[Row]) -> Held {
        let state = self.prefill.ranks[rank].state().value();
        let mut computed = Vec::new();
        for Row { slot, position, tokens, pages } in rows {
            let leg =
                state.occupant(*slot).map(|tenant| tenant.arrival.leg).ok_or(kv_before_run::PROPERTY.id)?;
            let here = self.prefill_ends[rank].parts(leg).is_some_and(|parts| parts.tokens);
            // An edge-triggered design keeps the tokens of a leg with its slot, whatever was asked for since.
            if !here && setting.coupling.notices == Notices::Level {
                return Err(no_fault::PROPERTY.id);
            }
            let listed = self.prefill_ends.iter().all(|end| end.parts(leg).is_some_and(Parts::listed));
            if setting.coupling.starts == Starts::Listed && !listed {
                return Err(kv_before_run::PROPERTY.id);
            }
            let chunk = pages.iter().skip(*position as usize).take(*tokens as usize);
            computed.push((leg, chunk.copied().collect()));
        }
        self.prefill_ends[rank].device.push((forward, computed));
        Ok(())
    }

    pub(super) fn retire_prefill(&mut self, setting: &Setting, rank: usize) -> Held {
        let end = &mut self.prefill_ends[rank];
        let (forward, rows) = end.device.remove(0);
        for (leg, pages) in &rows {
            pages.iter().for_each(|page| end.kv[page.0 as usize] = Some(*leg));
        }
        self.prefill.device.retire(rank);
        self.tell_prefill(setting, rank, Fact::Retired { forward, tokens: vec![PLAIN; rows.len()] })
    }

    /// A leg's writes are posted, one a link. Without as many pages there as here they fail at once; so do those that would wait for the
    /// list of a leg that is known to be unwanted.
    fn write(&mut self, setting: &Setting, rank: usize, leg: Leg, from: &[PageId]) -> Held {
        let kv = &self.prefill_ends[rank].kv;
        if !from.iter().all(|page| kv[page.0 as usize] == Some(leg)) {
            return Err(kv_before_run::PROPERTY.id);
        }
        let lists = self.prefill_ends[rank].parts(leg).map(|parts| parts.lists.clone()).unwrap_or_default();
        let unwanted = self.prefill.ranks[rank].evidence().unwanted(leg);
        let wanted = setting.coupling.notices == Notices::Edge || !unwanted;
        let fits = |list: &Option<List>| match list {
            Some(list) => list.pages.len() == from.len(),
            None => setting.coupling.starts == Starts::Optimistic && wanted,
        };
        let links: Vec<usize> = setting.links_of_prefill(rank).collect();
        let reachable = links.iter().all(|link| self.links[*link].reaches(leg.epoch));
        if lists.len() != links.len() || !lists.iter().all(fits) || !reachable {
            return self.tell_write(setting, rank, leg, WriteFact::WriteFailed);
        }
        for (link, to) in links.into_iter().zip(lists) {
            let current = self.links[link].up() && leg.epoch == self.links[link].epoch;
            let lands = current && to.as_ref().is_some_and(|to| self.links[link].keyed(to));
            let write = Write {
                leg,
                from: from.to_vec(),
                to,
                reading: true,
                failed: false,
                pages: lands,
                row: lands,
            };
            self.links[link].at_prefill_mut(leg).writes.push(write);
        }
        Ok(())
    }

    /// The write of a leg on a link.
    pub(super) fn writing(&mut self, link: usize, leg: Leg) -> Option<&mut Write> {
        self.links[link].at_prefill_mut(leg).writes.iter_mut().find(|write| write.leg == leg)
    }

    pub(super) fn change_write(&mut self, link: usize, leg: Leg, change: fn(&mut Write)) {
        if let Some(write) = self.writing(link, leg) {
            change(write);
        }
    }

    /// A write reads its source pages: they must still be its leg's, and hold its KV.
    pub(super) fn check_read(&mut self, setting: &Setting, link: usize, leg: Leg) -> Held {
        let rank = setting.prefill_rank(link);
        let Some(from) = self.writing(link, leg).map(|write| write.from.clone()) else { return Ok(()) };
        let state = self.prefill.ranks[rank].state().value();
        let slots = state.by_age(|tenant| tenant.arrival.leg == leg);
        let held = slots.iter().any(|slot| no_write_after_free::holds_for(state, *slot, &from));
        let kv = &self.prefill_ends[rank].kv;
        let theirs = from.iter().all(|page| kv[page.0 as usize] == Some(leg));
        if held && theirs { Ok(()) } else { Err(no_write_after_free::PROPERTY.id) }
    }

    /// A prefill rank's write on a link is over; the rank is told when none of the leg is outstanding.
    pub(super) fn end_write(&mut self, setting: &Setting, link: usize, leg: Leg, failed: bool) -> Held {
        let rank = setting.prefill_rank(link);
        if !failed {
            self.check_read(setting, link, leg)?;
        }
        if let Some(write) = self.writing(link, leg) {
            write.reading = false;
            write.failed = failed;
            write.row &= !failed;
        }
        let links: Vec<usize> = setting.links_of_prefill(rank).collect();
        let outstanding = |link: &usize| self.links[*link].at_prefill(leg).reads(leg);
        if links.iter().any(outstanding) {
            return Ok(());
        }
        let failed = links.iter().any(|link| self.links[*link].at_prefill(leg).failed(leg));
        let fact = if failed { WriteFact::WriteFailed } else { WriteFact::Written };
        self.tell_write(setting, rank, leg, fact)
    }

    /// The rank is told that its write ended, so that its pages go back; the write is still posted.
    pub(super) fn yield_write(&mut self, setting: &Setting, link: usize, leg: Leg) -> Held {
        self.tell_write(setting, setting.prefill_rank(link), leg, WriteFact::WriteFailed)
    }

    /// What the peer listed is not wanted, and what was queued for it will not be written.
    pub(super) fn notice_at_prefill(&mut self, setting: &Setting, link: usize) -> Held {
        if self.links[link].gone.is_none() {
            self.links[link].broken.prefill_unaware = false;
        }
        let rank = setting.prefill_rank(link);
        let place = place(setting, link);
        let listed = self.prefill_ends[rank].parts.iter().filter(|parts| parts.lists[place].is_some());
        let listed: Vec<Leg> = listed.map(|parts| parts.leg).collect();
        for leg in listed {
            self.tell_write(setting, rank, leg, WriteFact::Revoked)?;
        }
        let ended = self.links[link].gone.as_ref().map_or(&self.links[link].wires, |gone| &gone.wires);
        let writes = ended.iter().flat_map(|wire| &wire.writes);
        let reading: Vec<Leg> = writes.filter(|write| write.reading).map(|write| write.leg).collect();
        reading.into_iter().try_for_each(|leg| self.end_write(setting, link, leg, true))?;
        self.links[link].gone = None;
        Ok(())
    }
}

/// Which of its prefill rank's links a link is.
fn place(setting: &Setting, link: usize) -> usize {
    link / setting.prefill.ranks as usize
}
