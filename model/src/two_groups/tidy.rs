//! What cannot change anything any more is forgotten, so that states that behave alike are one: whose KV a page holds, once its leg does
//! not hold the page; writes that are told of and can land nowhere; failures of a leg that is over.

use crate::two_groups::pair::Pair;
use crate::two_groups::setting::Setting;
use crate::two_groups::wire::{Link, List, Write};
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::ids::{Leg, PageId};
use lockstep_spec::prefill::rules::Rules as PrefillRules;
use lockstep_spec::table::Occupant;

impl<D: DecodeRules, P: PrefillRules> Pair<D, P> {
    pub(super) fn tidy(&mut self, setting: &Setting) {
        let writes = self.links.iter().flat_map(Link::all_wires).flat_map(|wire| &wire.writes);
        let reading: Vec<Leg> = writes.filter(|write| write.reading).map(|write| write.leg).collect();
        let epoch = self.epoch;
        for (index, link) in self.links.iter_mut().enumerate() {
            let rank = setting.decode_rank(index);
            let state = self.decode.ranks[rank].state().value();
            let tenants =
                state.enumerate().filter_map(|(slot, found)| Some((slot, found.occupant.as_ref()?)));
            let held = tenants.filter_map(|(slot, tenant)| Some((state.leg(epoch, slot)?, tenant.pages())));
            keep_held(&mut link.kv, held);
            let fences = &mut self.decode_ends[rank].fences;
            fences.sort_unstable();
            link.wires.iter_mut().for_each(|wire| wire.acknowledged.retain(|leg| fences.contains(leg)));
            tidy_link(setting, link, &reading);
        }
        for (end, machine) in self.prefill_ends.iter_mut().zip(&self.prefill.ranks) {
            let tenants = machine.state().value().slots.iter().filter_map(|slot| slot.occupant.as_ref());
            keep_held(&mut end.kv, tenants.map(|tenant| (tenant.arrival.leg, tenant.pages())));
        }
    }
}

/// Keeps whose KV a page holds where that leg holds the page.
fn keep_held<'a>(kv: &mut [Option<Leg>], held: impl Iterator<Item = (Leg, &'a [PageId])>) {
    let mut holders = vec![None; kv.len()];
    for (leg, pages) in held {
        pages.iter().for_each(|page| holders[page.0 as usize] = Some(leg));
    }
    kv.iter_mut().zip(holders).filter(|(kv, holder)| **kv != *holder).for_each(|(kv, _)| *kv = None);
}

/// `reading` are the legs of which some write is outstanding: only when none is, is its prefill rank told how they ended.
fn tidy_link(setting: &Setting, link: &mut Link, reading: &[Leg]) {
    let keys: Vec<List> = link.wires.iter().flat_map(|wire| wire.keys.iter().cloned()).collect();
    let reposts = setting.trouble.reposts;
    let owed = |write: &Write| write.reading || (write.failed && reading.contains(&write.leg));
    link.gone.iter_mut().flat_map(|gone| &mut gone.wires).for_each(|wire| wire.writes.retain(owed));
    for wire in &mut link.wires {
        let entry = wire.entry;
        wire.fails.retain(|leg| entry.is_some_and(|(current, _)| current == *leg));
        for write in &mut wire.writes {
            let keyed = write.to.as_ref().is_none_or(|to| keys.contains(to));
            write.pages &= keyed;
            write.row &= keyed;
        }
        let may_repost = |write: &Write| reposts && write.to.as_ref().is_some_and(|to| keys.contains(to));
        wire.writes.retain(|write| owed(write) || write.pages || write.row || may_repost(write));
    }
}
