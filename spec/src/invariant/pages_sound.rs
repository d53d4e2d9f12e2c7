//! Pages sound: the account of pages is exact.

use super::Property;
use crate::configuration::GroupConfiguration;
use crate::ids::{HostPageId, PageId};
use crate::table::{Occupant, State};
use alloc::vec::Vec;

/// The property.
pub const PROPERTY: Property = Property {
    id: "pages-sound",
    sentence: "No page has two owners, none is lost, and none is made up: free, held and kept pages together are the pool, each once, and a kept one may be held by any number of legs; so with the hosts' pages.",
    source: "Accounts that drift apart by one page: sglang #33442, TensorRT-LLM #14020.",
    not_covered: "What a page holds.",
};

/// Whether free, held and kept pages are exactly the pool, on the devices and on the hosts.
#[must_use]
pub fn holds<O: Occupant>(configuration: &GroupConfiguration, state: &State<O>) -> bool {
    let occupants = || state.slots.iter().filter_map(|slot| slot.occupant.as_ref());
    let mut kept: Vec<PageId> = state.cache.pages().collect();
    kept.sort_unstable();
    let alone = occupants().flat_map(Occupant::pages).filter(|page| kept.binary_search(page).is_err());
    let pages = state.pool.free().iter().chain(alone).copied().chain(state.cache.pages());
    let hosts = state.cache.blocks().iter().filter_map(|block| block.host);
    let held = occupants().flat_map(Occupant::host_pages).chain(state.host.free());
    let hosts = hosts.chain(held.copied());
    are_all(pages.collect(), (0..configuration.pages).map(PageId))
        && are_all(hosts.collect(), (0..configuration.host_pages).map(HostPageId))
}

fn are_all<P: Ord>(mut found: Vec<P>, all: impl Iterator<Item = P>) -> bool {
    found.sort_unstable();
    found.into_iter().eq(all)
}
