//! Bounds and choices of a run across epochs.

use crate::decode::setting::DecodeSetting;
use crate::world::Completion;
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::ids::Epoch;
use std::sync::Arc;

/// Bounds and choices of a run across epochs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpochsSetting {
    /// The group, by epoch: the same but for its number.
    pub epochs: Vec<DecodeSetting>,
    /// Most requests that are open at once.
    pub open: usize,
    /// Most ranks that crash, of either group.
    pub crashes: u32,
    /// Whether a client may leave at any time.
    pub leaves: bool,
    /// Whether ranks of the prefill group crash too: this group is dismissed then.
    pub dismissals: bool,
    /// Whether the server may stop at any time: ranks are asked to leave, and no epoch follows.
    pub stops: bool,
    /// Whether a crash is ever noticed: by a deadline or by the end of the process.
    pub noticed: bool,
}

impl EpochsSetting {
    /// Requests of the kinds of `group`, at most `open` at once, and at most `crashes` crashes of a rank.
    #[must_use]
    pub fn new(group: &DecodeSetting, open: usize, crashes: u32) -> Self {
        let of_epoch = |epoch| DecodeSetting {
            configuration: Arc::new(GroupConfiguration {
                epoch: Epoch(epoch),
                ..GroupConfiguration::clone(&group.configuration)
            }),
            completion: Completion::OneByOne,
            ..group.clone()
        };
        let epochs = (0..=u64::from(crashes)).map(of_epoch).collect();
        Self { epochs, open, crashes, leaves: false, dismissals: false, stops: false, noticed: true }
    }

    /// The group of an epoch: each crash ends at most one.
    #[must_use]
    pub fn group(&self, epoch: Epoch) -> &DecodeSetting {
        let last = self.epochs.len() - 1;
        &self.epochs[usize::try_from(epoch.0).map_or(last, |epoch| epoch.min(last))]
    }
}
