//! Pages sound: the account of pages is exact.

use super::Property;
use crate::configuration::GroupConfiguration;
use crate::ids::PageId;
use crate::table::{Occupant, State};
use alloc::vec::Vec;

/// The property.
pub const PROPERTY: Property = Property {
    id: "pages-sound",
    sentence: "No page has two owners, none is lost, and none is made up: free and held pages together are the pool, each once.",
    source: "Accounts that drift apart by one page: sglang #33442, TensorRT-LLM #14020.",
    not_covered: "What a page holds.",
};

/// Whether free and held pages are exactly the pool.
#[must_use]
pub fn holds<O: Occupant>(configuration: &GroupConfiguration, state: &State<O>) -> bool {
    let held = state.slots.iter().filter_map(|slot| slot.occupant.as_ref()).flat_map(Occupant::pages);
    let mut pages: Vec<PageId> = state.pool.free().iter().chain(held).copied().collect();
    pages.sort_unstable();
    pages.into_iter().eq((0..configuration.pages).map(PageId))
}
