//! What the operator wishes of groups on CUDA devices, and they come to together in their start.

use clap::ValueEnum;

/// Where the sums of a group's ranks are to meet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum CollectivesWish {
    /// In NCCL if every rank joins, or else between the hosts.
    #[default]
    Auto,
    /// Between the hosts.
    Host,
    /// In NCCL; a group in which a rank does not join ends.
    Nccl,
}

impl CollectivesWish {
    /// The name on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Host => "host",
            Self::Nccl => "nccl",
        }
    }
}

/// Whether decode forwards are to be replayed from graphs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum GraphsWish {
    /// If every rank has captured them.
    #[default]
    Auto,
    /// They are launched one by one.
    Off,
    /// They are; a decode group in which a rank has not captured them ends.
    On,
}

impl GraphsWish {
    /// The name on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::On => "on",
        }
    }
}
