//! Starts in which a rank decides by itself what only the group can: the fallbacks of engines in use.

use crate::protocol::prelude::*;

/// Where the ranks of such a group meet first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// They join the device communicator.
    Connect,
    /// The first forward, its collectives on the devices; of so many tokens, which captured graphs pad.
    DeviceForward,
    /// The first forward, its collectives between the hosts.
    HostForward,
}

crate::blocking_sites!(Site);

impl Meeting for Site {
    fn collective(self) -> Collective {
        let barrier = Collective::of(Operation::Barrier);
        match self {
            Self::Connect | Self::DeviceForward => barrier.on("device"),
            Self::HostForward => barrier.on("host"),
        }
    }
}

/// What a rank falls back from alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// Device collectives, where its device joins no communicator.
    Communicator,
    /// Replayed graphs, where its own capture failed.
    Graphs,
}

/// Whether the rank's device can do what it may fall back from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Able(bool);

/// A rank that starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rank {
    falls_back: Fallback,
    able: Option<bool>,
    /// The next place to meet; none once the first forward is over.
    next: Option<Site>,
}

impl Rank {
    /// Where the rank goes, once it knows its device.
    fn entry(&self, able: bool) -> Option<Posted<Site>> {
        let padded = if able && self.falls_back == Fallback::Graphs { 2 } else { 1 };
        self.next.map(|site| match site {
            Site::Connect => site.enter(0),
            Site::DeviceForward | Site::HostForward => site.enter(padded),
        })
    }
}

impl RankProgram for Rank {
    type Site = Site;
    type Fact = Able;
    type Entry = Posted<Site>;
    type Local = ();

    fn step(&mut self, event: Event<Able, Site>, effects: &mut Vec<Effect<Posted<Site>, ()>>) {
        match event {
            Event::Fact(Able(able)) => {
                self.able = Some(able);
                if !able && self.falls_back == Fallback::Communicator {
                    self.next = Some(Site::HostForward);
                }
            }
            Event::Turn => {
                let entry = self.able.and_then(|able| self.entry(able));
                effects.extend(entry.map(Effect::Enter));
            }
            Event::Completed { ticket, .. } => {
                self.next = match ticket.site {
                    Site::Connect => Some(Site::DeviceForward),
                    Site::DeviceForward | Site::HostForward => None,
                }
            }
        }
    }
}

crate::no_counters!(Rank);

/// Two ranks that start.
#[derive(Debug)]
pub struct ConventionalStart(pub Fallback);

impl Protocol for ConventionalStart {
    type Rank = Rank;
    type Around = ();

    fn ranks(&self) -> Vec<Rank> {
        vec![Rank { falls_back: self.0, able: None, next: Some(Site::Connect) }; 2]
    }

    fn facts(&self, state: &StateOf<Self>, rank: usize) -> Vec<Able> {
        if state.ranks[rank].able.is_some() { Vec::new() } else { [true, false].map(Able).into() }
    }

    fn rested(&self, state: &StateOf<Self>) -> bool {
        state.ranks.iter().all(|rank| rank.next.is_none())
    }
}
