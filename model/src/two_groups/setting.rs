//! Bounds and choices of a run of both groups, and the rules of the coupling.

use crate::decode::setting::{RequestKind, STOP};
use crate::world::Interleaving;
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::ids::{Epoch, SlotIndex};
use lockstep_spec::invariant::{Property, ends, no_stuck};
use std::sync::Arc;

/// What ends a leg's grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fence {
    /// The peer says that it will write no more.
    Acknowledged,
    /// The connection is cut, which stops posted writes; the memory key lives on.
    Disconnects,
    /// The memory key is revoked. Shipped.
    Revokes,
}

/// What a prefill rank needs before a leg may take room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Starts {
    /// Its tokens and its page list. Shipped.
    Listed,
    /// Its tokens: it computes first, and its writes wait for the list.
    Optimistic,
}

/// How what comes from the two sides is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Names {
    /// By leg. Shipped.
    Leg,
    /// By the client's room alone, and here every client chose the same.
    Room,
}

/// How prefill learns that a leg is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notices {
    /// One notice, which does nothing if it finds no leg.
    Edge,
    /// By what it knows of the decode slot: a revocation is kept, and a later leg makes the earlier ones void. Shipped.
    Level,
}

/// How two groups that are replaced apart learn of each other. Each rule that is not kept is a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parting {
    /// Whether prefill's front end tells its ranks which epochs of decode are over, and they give those up.
    pub purges: bool,
    /// Whether each decode group has an epoch that no group before it had.
    pub new_epochs: bool,
    /// Whether the door keeps a connection out until the one of an earlier epoch has ended, and was said to.
    pub one_epoch_in: bool,
    /// Whether decode's front end has its journal know that prefill is away, and holds submissions back.
    pub holds_back: bool,
    /// Whether the latest leg of each decode slot is asked for again over a new line.
    pub asks_again: bool,
    /// Whether a request is tried again as often as connections may end between two times that the front end hears of prefill's end, rather
    /// than once: each link's to the last prefill side, late, and to this one.
    pub retries_each_link: bool,
}

impl Parting {
    /// The rules that ship.
    pub const SHIPPED: Self = Self {
        purges: true,
        new_epochs: true,
        one_epoch_in: true,
        holds_back: true,
        asks_again: true,
        retries_each_link: true,
    };
}

/// How often what happens, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Replacements {
    /// The decode group dies, and another takes its place.
    pub decode: u32,
    /// The prefill group dies, its front end with it, and others take their places.
    pub prefill: u32,
    /// The line between the front ends breaks, and nothing else does.
    pub lines: u32,
}

impl Replacements {
    /// Whether anything may happen.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// The rules of the coupling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coupling {
    /// What ends a grant.
    pub fence: Fence,
    /// What a leg needs before it may take room.
    pub starts: Starts,
    /// How the two sides are matched.
    pub names: Names,
    /// How prefill learns that a leg is not wanted.
    pub notices: Notices,
    /// Whether a prefill rank may give the pages of a posted write away.
    pub yields: bool,
    /// What holds when a group is replaced.
    pub parting: Parting,
}

impl Coupling {
    /// The rules that ship.
    pub const SHIPPED: Self = Self {
        fence: Fence::Revokes,
        starts: Starts::Listed,
        names: Names::Leg,
        notices: Notices::Level,
        yields: false,
        parting: Parting::SHIPPED,
    };
}

/// What must stay in reach by benign steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Every accepted request has ended.
    Ended,
    /// Nothing is left at all: every slot and page is free, and nothing is on its way. It implies the other.
    Rest,
}

impl Goal {
    /// The property that a state violates from which the goal is out of reach.
    #[must_use]
    pub fn property(self) -> Property {
        match self {
            Self::Ended => ends::PROPERTY,
            Self::Rest => no_stuck::PROPERTY,
        }
    }
}

/// What may go wrong between the groups, at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trouble {
    /// A client may give any live request up.
    pub aborts: bool,
    /// A posted write may fail.
    pub write_failures: bool,
    /// What is sent as best effort may be lost: revocations and failures. Deadlines then repair it, and count as progress.
    pub losses: bool,
    /// A link may break: all that is on it is lost, and each end notices for itself.
    pub breaks: bool,
    /// Pages that landed may be written once more.
    pub reposts: bool,
    /// Any rank's clock may pass a deadline.
    pub deadlines: bool,
}

impl Trouble {
    /// Whether messages may be lost.
    #[must_use]
    pub fn is_lossy(self) -> bool {
        self.losses || self.breaks
    }
}

/// Bounds and choices of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Setting {
    /// The decode group.
    pub decode: Arc<GroupConfiguration>,
    /// The prefill group.
    pub prefill: Arc<GroupConfiguration>,
    /// Kinds of request that keep arriving while a decode slot is free.
    pub kinds: Vec<RequestKind>,
    /// What may go wrong.
    pub trouble: Trouble,
    /// How often groups are replaced. Without any, the front end has no journal, and two groups that die together are meant.
    pub replacements: Replacements,
    /// Decode slots, counted from the first, whose requests may be given up and whose writes may fail or be posted again. Fewer than all
    /// keeps larger runs small; slots are alike.
    pub fallible_slots: u32,
    /// Legs that were given up and about which something is still on its way when the front end sends another request: at most so many.
    /// More lag is the same again, since a later leg replaces an earlier one.
    pub lag: usize,
    /// The rules of the coupling.
    pub coupling: Coupling,
    /// What must stay in reach.
    pub goal: Goal,
    /// Which interleavings are explored.
    pub interleaving: Interleaving,
}

/// Ranks, slots and pages of a group; each page holds one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Ranks.
    pub ranks: u32,
    /// Slots.
    pub slots: u32,
    /// Pages.
    pub pages: u32,
}

impl Setting {
    /// Groups of these sizes under the shipped rules, without trouble, with requests of one prompt token and two output tokens.
    #[must_use]
    pub fn new(decode: Size, prefill: Size, overlap: bool) -> Self {
        Self {
            decode: Arc::new(configuration(decode, overlap)),
            prefill: Arc::new(configuration(prefill, overlap)),
            kinds: vec![RequestKind { prompt: 1, most: 2, stop_at: None }],
            trouble: Trouble::default(),
            replacements: Replacements::default(),
            fallible_slots: decode.slots,
            lag: 1,
            coupling: Coupling::SHIPPED,
            goal: Goal::Rest,
            interleaving: Interleaving::FixedOrder,
        }
    }

    /// The decode group's configuration in an epoch.
    #[must_use]
    pub fn decode_in(&self, epoch: Epoch) -> Arc<GroupConfiguration> {
        Arc::new(GroupConfiguration { epoch, ..GroupConfiguration::clone(&self.decode) })
    }

    /// Whether what concerns a decode slot may go wrong.
    #[must_use]
    pub fn fallible(&self, slot: SlotIndex) -> bool {
        slot.0 < self.fallible_slots
    }

    /// Links between the groups.
    #[must_use]
    pub fn links(&self) -> usize {
        self.decode.ranks.max(self.prefill.ranks) as usize
    }

    /// Links of a decode rank.
    pub fn links_of_decode(&self, rank: usize) -> impl Iterator<Item = usize> + use<> {
        (rank..self.links()).step_by(self.decode.ranks as usize)
    }

    /// Links of a prefill rank.
    pub fn links_of_prefill(&self, rank: usize) -> impl Iterator<Item = usize> + use<> {
        (rank..self.links()).step_by(self.prefill.ranks as usize)
    }

    /// The decode rank at a link.
    #[must_use]
    pub fn decode_rank(&self, link: usize) -> usize {
        link % self.decode.ranks as usize
    }

    /// The prefill rank at a link.
    #[must_use]
    pub fn prefill_rank(&self, link: usize) -> usize {
        link % self.prefill.ranks as usize
    }
}

fn configuration(Size { ranks, slots, pages }: Size, overlap: bool) -> GroupConfiguration {
    GroupConfiguration {
        epoch: Epoch(0),
        ranks,
        slots,
        pages,
        page_size: 1,
        flights: 1 + u32::from(overlap),
        prefix_pages: 0,
        host_pages: 0,
        brief_words: GroupConfiguration::least_brief_words(slots) + 8 * slots,
        chunk_tokens: pages,
        deadline_ticks: 1,
        stop_tokens: vec![STOP],
        collectives: Collectives::Host,
        forwards: Forwards::Eager,
        votes: Votes::Host,
    }
}
