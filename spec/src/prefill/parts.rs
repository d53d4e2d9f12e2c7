//! A leg reaches a prefill rank in two parts, on two ways: its tokens come from the front end, its page list from the decode peer. Which
//! facts follow from them is the same on every rank.

use crate::ids::Leg;
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
pub struct Parts(BTreeMap<Leg, Here>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Here {
    tokens: bool,
    pages: bool,
}

impl Parts {
    /// Takes a part, and appends the facts that follow. A leg is listed once both its parts are here. A later leg of a decode slot makes
    /// the earlier ones void: they are given up, whether or not the decode side's own word of it has come.
    pub fn take(&mut self, leg: Leg, part: Part, facts: &mut Vec<(Leg, WriteFact)>) {
        let void = self.0.extract_if(.., |kept, _| kept.slot == leg.slot && *kept < leg);
        facts.extend(void.map(|(earlier, _)| (earlier, WriteFact::Revoked)));
        let here = self.0.entry(leg).or_default();
        match part {
            Part::Tokens => here.tokens = true,
            Part::Pages => here.pages = true,
        }
        if here.tokens && here.pages {
            facts.push((leg, WriteFact::Listed));
        }
    }

    /// The legs that the decode peer has listed: given up when the connection to it ends.
    pub fn of_the_peer(&self) -> impl Iterator<Item = Leg> + '_ {
        self.0.iter().filter(|(_, here)| here.pages).map(|(leg, _)| *leg)
    }

    /// Forgets a leg and the earlier ones of its slot.
    pub fn forget(&mut self, leg: Leg) {
        self.0.retain(|kept, _| kept.slot != leg.slot || *kept > leg);
    }
}
