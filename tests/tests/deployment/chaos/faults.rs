//! The faults, and the dice that choose them.

use std::time::Duration;

/// What is done to the deployment, or by its clients.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Many requests come at once, and all their clients leave.
    AbortStorm,
    /// The clients of this round leave.
    AllClientsLeave,
    /// As many requests come as are taken.
    FullQueue,
    /// Clients connect and say nothing, or half of what they have to say.
    HalfOpen,
    /// A rank is stopped for a moment and goes on.
    Hiccup(usize),
    /// A rank dies.
    Kill(usize),
    /// Both ranks of a group die.
    KillGroup(usize),
    /// Clients read a token now and then.
    SlowReaders,
    /// What prefill writes in the epoch after a rank's death is spoilt on its way.
    Spoil(usize, Spoil),
    /// A rank is stopped for good.
    Stop(usize),
}

/// How a transfer is spoilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoil {
    /// A bit is flipped.
    Flip,
    /// It ends in the middle, and the connection with it.
    Cut,
}

/// A small generator of numbers (splitmix64): the same seed makes the same faults.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn place(&mut self, places: usize) -> usize {
        usize::try_from(self.throw(places as u64)).unwrap()
    }

    /// One fault, or one time in four two at once.
    pub(super) fn faults(&mut self, ranks: usize) -> Vec<Fault> {
        let count = if self.throw(4) == 0 { 2 } else { 1 };
        (0..count).map(|_| self.fault(ranks)).collect()
    }

    /// What takes seconds is rare: a rank that is stopped for good, a queue that is worked off.
    fn fault(&mut self, ranks: usize) -> Fault {
        let rank = self.place(ranks);
        match self.throw(32) {
            0 => Fault::FullQueue,
            1 | 2 => Fault::Stop(rank),
            3 | 4 => Fault::AbortStorm,
            5 | 6 => Fault::SlowReaders,
            7..=9 => Fault::HalfOpen,
            10..=12 => Fault::AllClientsLeave,
            13..=16 => Fault::Hiccup(rank),
            17..=19 => Fault::KillGroup(rank),
            20 | 21 => Fault::Spoil(rank, Spoil::Cut),
            22 | 23 => Fault::Spoil(rank, Spoil::Flip),
            _ => Fault::Kill(rank),
        }
    }

    pub(super) fn pause(&mut self) -> Duration {
        Duration::from_millis(self.throw(120))
    }
}
