//! What surrounds a rank beside its links: its device, its fences, and on the prefill side the hands that join a leg's two parts.

use crate::two_groups::setting::{Coupling, Notices, Starts};
use crate::two_groups::wire::List;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::ids::{Epoch, ForwardId, Leg, PageId};
use lockstep_spec::prefill::leg::PrefillLeg;

/// A decode rank's surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DecodeEnd {
    /// Forwards in the device's queue, oldest first, with their number of rows.
    pub device: Vec<(ForwardId, usize)>,
    /// Fences asked for and not reported.
    pub fences: Vec<Leg>,
}

/// What the front end sends to a prefill rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// A leg's tokens.
    Leg(PrefillLeg),
    /// Every epoch of decode before this one is over.
    Detach(Epoch),
}

/// A row of a prefill forward: whose KV it computes, and the pages of its chunk.
pub type Computed = (Leg, Vec<PageId>);

/// What a prefill rank has been given of a leg.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parts {
    /// The leg.
    pub leg: Leg,
    /// Whether its tokens are here.
    pub tokens: bool,
    /// By link of this rank: the page list.
    pub lists: Vec<Option<List>>,
}

impl Parts {
    /// Whether every list is here.
    #[must_use]
    pub fn listed(&self) -> bool {
        self.lists.iter().all(Option::is_some)
    }
}

/// A prefill rank's surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PrefillEnd {
    /// What the front end has sent, in order.
    pub told: Vec<Told>,
    /// What is here of each leg, in the order of legs.
    pub parts: Vec<Parts>,
    /// Forwards in the device's queue, oldest first.
    pub device: Vec<(ForwardId, Vec<Computed>)>,
    /// By page: whose KV it holds, where that leg still holds the page.
    pub kv: Vec<Option<Leg>>,
    /// The first epoch of decode that is not known to be over.
    pub since: Epoch,
    /// Links of this rank.
    links: usize,
}

impl PrefillEnd {
    /// A rank that was given nothing.
    #[must_use]
    pub fn new(pages: u32, links: usize) -> Self {
        let kv = vec![None; pages as usize];
        let (told, parts, device) = (Vec::new(), Vec::new(), Vec::new());
        Self { told, parts, device, kv, since: Epoch(0), links }
    }

    /// Legs whose tokens are on their way.
    pub fn sent(&self) -> impl Iterator<Item = &PrefillLeg> {
        self.told.iter().filter_map(|told| match told {
            Told::Leg(arrival) => Some(arrival),
            Told::Detach(_) => None,
        })
    }

    /// Notes that epochs of decode are over; returns the legs that are given up.
    pub fn detach(&mut self, since: Epoch) -> Vec<Leg> {
        self.since = self.since.max(since);
        self.parts.extract_if(.., |parts| parts.leg.epoch < since).map(|parts| parts.leg).collect()
    }

    /// What is here of a leg.
    #[must_use]
    pub fn parts(&self, leg: Leg) -> Option<&Parts> {
        self.parts.iter().find(|parts| parts.leg == leg)
    }

    /// Takes a part of a leg. Returns the earlier legs of its slot that are void by it, and whether the leg is now
    /// listed.
    pub fn join(&mut self, coupling: &Coupling, leg: Leg, part: impl FnOnce(&mut Parts)) -> (Vec<Leg>, bool) {
        if leg.epoch < self.since {
            return (Vec::new(), false);
        }
        let earlier = |parts: &mut Parts| parts.leg.slot == leg.slot && parts.leg < leg;
        let earlier = self.parts.extract_if(.., earlier).map(|parts| parts.leg).collect();
        let void = match coupling.notices {
            Notices::Level => earlier,
            Notices::Edge => Vec::new(),
        };
        if self.parts(leg).is_none() {
            self.parts.push(Parts { leg, tokens: false, lists: vec![None; self.links] });
            self.parts.sort_by_key(|parts| parts.leg);
        }
        let mut complete = false;
        if let Some(parts) = self.parts.iter_mut().find(|parts| parts.leg == leg) {
            part(parts);
            complete = parts.tokens && (parts.listed() || coupling.starts == Starts::Optimistic);
        }
        (void, complete)
    }

    /// Forgets a leg and the earlier ones of its slot.
    pub fn forget(&mut self, leg: Leg) {
        self.parts.retain(|kept| kept.leg.slot != leg.slot || kept.leg > leg);
    }

    /// Visits the counters that are shared with the decode group.
    pub(super) fn visit_shared(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        for told in &mut self.told {
            if let Told::Leg(arrival) = told {
                visit(Counter::Request, &mut arrival.id.0);
                arrival.leg.visit(visit);
            }
        }
        for parts in &mut self.parts {
            parts.leg.visit(visit);
            parts.lists.visit(visit);
        }
        self.device.iter_mut().flat_map(|(_, rows)| rows).for_each(|(leg, _)| leg.visit(visit));
        self.kv.visit(visit);
    }
}

impl Counters for DecodeEnd {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.device.iter_mut().for_each(|(forward, _)| visit(Counter::Forward, &mut forward.0));
        self.fences.visit(visit);
    }
}
