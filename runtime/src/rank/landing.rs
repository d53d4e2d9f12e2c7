//! Pages that come from the prefill side, each in a part from every peer with heads of it.

use crate::engine::Recut;
use std::collections::{BTreeMap, BTreeSet};

/// The pages of a leg that are to land.
#[derive(Default)]
pub(super) struct Landing {
    /// By page: the peers whose part has not come.
    missing: BTreeMap<u32, BTreeSet<usize>>,
    /// Pages of which some parts have come.
    partial: BTreeMap<u32, Vec<u8>>,
}

/// What became of a part of a page.
pub(super) enum Landed {
    /// It is not expected, or others are.
    Nothing,
    /// The page is whole.
    Page(Vec<u8>),
    /// It is not of a page's length.
    Misshapen,
}

impl Landing {
    pub(super) fn new(pages: BTreeSet<u32>, peers: usize) -> Self {
        let missing = pages.into_iter().map(|page| (page, (0..peers).collect())).collect();
        Self { missing, partial: BTreeMap::new() }
    }

    /// Whether every part of every page has come.
    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Takes the part of a page of `page_bytes` that a peer has.
    pub(super) fn take(
        &mut self,
        (page, peer): (u32, usize),
        part: Vec<u8>,
        recut: &Recut,
        page_bytes: usize,
    ) -> Landed {
        let Some(peers) = self.missing.get_mut(&page) else { return Landed::Nothing };
        if !peers.remove(&peer) {
            return Landed::Nothing;
        }
        let complete = peers.is_empty();
        if complete {
            self.missing.remove(&page);
        }
        if recut.is_whole() {
            return Landed::Page(part);
        }
        let mut whole = self.partial.remove(&page).unwrap_or_else(|| vec![0; page_bytes]);
        match (recut.put(&part, &mut whole), complete) {
            (false, _) => Landed::Misshapen,
            (true, true) => Landed::Page(whole),
            (true, false) => {
                self.partial.insert(page, whole);
                Landed::Nothing
            }
        }
    }
}
