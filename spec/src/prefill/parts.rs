//! A leg reaches a prefill rank in two parts, on two ways: its tokens come from the front end, its page list from the decode peer. Which
//! facts follow from them is the same on every rank.

use crate::ids::{Epoch, Leg};
use crate::prefill::evidence::WriteFact;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A part of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What is to be computed.
    Tokens,
    /// Where its KV goes.
    Pages,
}

/// Which parts of which legs are here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    legs: BTreeMap<Leg, Here>,
    /// The first epoch of the decode group that is not known to be over, if any is.
    since: Option<Epoch>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Here {
    tokens: bool,
    pages: bool,
}

impl Parts {
    /// Takes a part, and appends the facts that follow. A leg is listed once both its parts are here. A later leg of a decode slot makes
    /// the earlier ones void: they are given up, whether or not the decode side's own word of it has come. A part of an epoch that is over
    /// is nothing.
    pub fn take(&mut self, leg: Leg, part: Part, facts: &mut Vec<(Leg, WriteFact)>) {
        if !self.accepts(leg) {
            return;
        }
        self.give_up(|kept| kept.slot == leg.slot && *kept < leg, facts);
        let here = self.legs.entry(leg).or_default();
        match part {
            Part::Tokens => here.tokens = true,
            Part::Pages => here.pages = true,
        }
        if here.tokens && here.pages {
            facts.push((leg, WriteFact::Listed));
        }
    }

    /// Notes that every epoch of the decode group before `since` is over, and gives its legs up: of one of which only the tokens came, nobody
    /// else ever says so.
    pub fn detach(&mut self, since: Epoch, facts: &mut Vec<(Leg, WriteFact)>) {
        self.since = self.since.max(Some(since));
        self.give_up(|kept| kept.epoch < since, facts);
    }

    /// Whether a leg is of an epoch that is not known to be over.
    #[must_use]
    pub fn accepts(&self, leg: Leg) -> bool {
        Some(leg.epoch) >= self.since
    }

    fn give_up(&mut self, which: impl Fn(&Leg) -> bool, facts: &mut Vec<(Leg, WriteFact)>) {
        let void = self.legs.extract_if(.., |kept, _| which(kept));
        facts.extend(void.map(|(leg, _)| (leg, WriteFact::Revoked)));
    }

    /// The legs that the decode peer has listed: given up when the connection to it ends.
    pub fn of_the_peer(&self) -> impl Iterator<Item = Leg> + '_ {
        self.legs.iter().filter(|(_, here)| here.pages).map(|(leg, _)| *leg)
    }

    /// Forgets a leg and the earlier ones of its slot.
    pub fn forget(&mut self, leg: Leg) {
        self.legs.retain(|kept, _| kept.slot != leg.slot || *kept > leg);
    }
}
