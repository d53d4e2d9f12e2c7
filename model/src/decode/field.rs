//! Fields of the vote, each of which a mutant does not hear.

use crate::decode::setting::STOP;
use lockstep_spec::agreed::Words;
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::ids::{Epoch, Round, SlotIndex};
use lockstep_spec::poll::KvPoll;
use lockstep_spec::vote::{Ballot, SlotVote};

/// What a rank says in its vote, beside who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// That the group is to leave.
    Shutdown,
    /// How long the leader's brief is.
    Brief,
    /// How many forwards its device has retired.
    Retired,
    /// How many copies its device has made.
    Copied,
    /// How far each slot is.
    Poll,
    /// That slots' first tokens are not the same on all ranks.
    FirstToken,
    /// Whether each slot's fences are done.
    Drained,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Shutdown,
        Self::Brief,
        Self::Retired,
        Self::Copied,
        Self::Poll,
        Self::FirstToken,
        Self::Drained,
    ];

    /// Its name as that of a rule.
    #[must_use]
    pub fn rule(self) -> &'static str {
        match self {
            Self::Shutdown => "vote: shutdown",
            Self::Brief => "vote: brief words",
            Self::Retired => "vote: retired",
            Self::Copied => "vote: copied",
            Self::Poll => "vote: poll",
            Self::FirstToken => "vote: first token",
            Self::Drained => "vote: drained",
        }
    }

    /// Makes of a reduced vote what it would be if no rank had said this; of first tokens that differ, the least for all.
    pub(super) fn lose(self, configuration: &GroupConfiguration, vote: &mut Words) {
        let (silent, said) = (silence(configuration).into_words(), self.said(configuration).into_words());
        let places: Vec<usize> = (0..silent.len()).filter(|at| silent[*at] != said[*at]).collect();
        match self {
            Self::FirstToken => places.chunks(2).for_each(|pair| vote[pair[1]] = !vote[pair[0]]),
            Self::Shutdown | Self::Brief | Self::Retired | Self::Copied | Self::Poll | Self::Drained => {
                places.into_iter().for_each(|at| vote[at] = silent[at]);
            }
        }
    }

    /// A ballot that says something of it, so that its words show.
    fn said(self, configuration: &GroupConfiguration) -> Ballot {
        let mut ballot = silence(configuration);
        let neutral = SlotVote::NEUTRAL;
        match self {
            Self::Shutdown => ballot.shutdown(),
            Self::Brief => ballot.brief_words(0),
            Self::Retired => ballot.retired(0),
            Self::Copied => ballot.copied(1),
            Self::Poll => {
                slots(configuration, &mut ballot, SlotVote { poll: KvPoll::Bootstrapping, ..neutral })
            }
            Self::FirstToken => {
                slots(configuration, &mut ballot, SlotVote { first_token: Some(STOP), ..neutral });
            }
            Self::Drained => slots(configuration, &mut ballot, SlotVote { drained: false, ..neutral }),
        }
        ballot
    }
}

fn slots(configuration: &GroupConfiguration, ballot: &mut Ballot, vote: SlotVote) {
    (0..).take(configuration.slots as usize).for_each(|slot| ballot.slot(SlotIndex(slot), vote));
}

/// A ballot that says nothing.
fn silence(configuration: &GroupConfiguration) -> Ballot {
    let mut ballot = Ballot::new(configuration, Epoch(0), Round(0), 0);
    slots(configuration, &mut ballot, SlotVote::NEUTRAL);
    ballot
}
