//! What one rank has heard from its peers, and what follows for the collective it is in. Pure: whoever holds it feeds it and waits.
//!
//! [`super::mailbox`] holds one under a lock, for transports with readers; `shared` holds one of its own, since there a rank reads for
//! itself.

use std::collections::VecDeque;
use std::time::Duration;

use super::error::GroupError;
use super::frame::Operation;
use super::tag::Tag;

/// Entries that a peer may be ahead. A collective completes only when all have entered, so a peer
/// is at most one ahead, plus the one being read.
pub(super) const DEPTH: usize = 2;

/// How long a rank that misses several peers at its deadline listens whom the others blame. One of those that it misses may itself be
/// waiting for another, in the collective before; and who misses a single one knows at once who it is.
pub(super) const TESTIMONY: Duration = Duration::from_millis(100);

/// A peer's entry into a collective.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) tag: Tag,
    pub(super) payload: Vec<u8>,
}

/// Why nothing more will come from a peer.
#[derive(Clone, Debug)]
pub(super) enum End {
    Closed,
    Failed(GroupError),
    Poison { culprit: usize, last: Option<Tag> },
}

/// What a rank waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Interest {
    /// One entry of each peer, all with this operation and tag.
    Entry(Operation, Tag),
    /// An entry of rank 0, whatever it is.
    Leader,
    /// What a peer says of the culprit.
    Testimony,
}

#[derive(Debug, Default)]
struct Inbox {
    queue: VecDeque<Entry>,
    spare: Vec<Vec<u8>>,
    last: Option<Tag>,
}

/// The entries and ends of all peers of one rank.
#[derive(Debug)]
pub(super) struct Heard {
    me: usize,
    inboxes: Vec<Inbox>,
    /// In order of arrival: the first fall is the cause of the later ones.
    ends: Vec<(usize, End)>,
}

impl Heard {
    pub(super) fn new(me: usize, size: usize) -> Self {
        Self { me, inboxes: (0..size).map(|_| Inbox::default()).collect(), ends: Vec::new() }
    }

    /// An empty buffer for a payload from `rank`, used before if possible.
    pub(super) fn spare(&mut self, rank: usize) -> Vec<u8> {
        self.inboxes[rank].spare.pop().unwrap_or_default()
    }

    /// Whether `rank` is as far ahead as it can be.
    pub(super) fn is_full(&self, rank: usize) -> bool {
        self.inboxes[rank].queue.len() >= DEPTH
    }

    /// Records an entry of `rank`.
    pub(super) fn enter(&mut self, rank: usize, entry: Entry) {
        let inbox = &mut self.inboxes[rank];
        inbox.last = Some(entry.tag);
        inbox.queue.push_back(entry);
    }

    /// Records that nothing more will come from `rank`.
    pub(super) fn end(&mut self, rank: usize, end: End) {
        self.ends.push((rank, end));
    }

    /// How the member's wait ends, or `None` while it has to go on. What has arrived counts before
    /// a closed connection, so that a rank which left after its last collective fails nobody in
    /// it; poison counts before both, since the group has failed already.
    pub(super) fn verdict(&self, interest: Interest) -> Option<Result<(), GroupError>> {
        let (mismatch, arrived) = match interest {
            Interest::Leader => (None, self.me == 0 || self.has_entry(0)),
            Interest::Testimony => return self.poisoned().map(Err),
            Interest::Entry(operation, tag) => {
                let arrived = self.all_entered();
                (self.mismatch(operation, tag), arrived)
            }
        };
        if let Some(error) = mismatch.or_else(|| self.poisoned()) {
            return Some(Err(error));
        }
        if arrived { Some(Ok(())) } else { self.fallen().map(Err) }
    }

    fn peers(&self) -> impl Iterator<Item = usize> {
        let me = self.me;
        (0..self.inboxes.len()).filter(move |&rank| rank != me)
    }

    /// Whether more than one peer's entry is missing.
    pub(super) fn misses_several(&self) -> bool {
        self.peers().filter(|&rank| !self.has_entry(rank)).nth(1).is_some()
    }

    /// Whether an entry of each peer is there.
    pub(super) fn all_entered(&self) -> bool {
        self.peers().all(|rank| self.has_entry(rank))
    }

    fn has_entry(&self, rank: usize) -> bool {
        !self.inboxes[rank].queue.is_empty()
    }

    fn mismatch(&self, operation: Operation, ours: Tag) -> Option<GroupError> {
        self.peers().find_map(|rank| {
            let theirs = self.inboxes[rank].queue.front()?;
            if theirs.tag != ours {
                let theirs = theirs.tag;
                return Some(GroupError::Mismatch { rank, ours, theirs });
            }
            (theirs.operation != operation).then_some(GroupError::MixedOperation {
                rank,
                tag: ours,
                ours: operation,
                theirs: theirs.operation,
            })
        })
    }

    /// What a peer testified: it saw the cause, while a closed connection may be a consequence.
    fn poisoned(&self) -> Option<GroupError> {
        self.ends.iter().find_map(|(by, end)| match end {
            End::Poison { culprit, last } => {
                Some(GroupError::Relayed { rank: *culprit, last: self.latest(*culprit, *last), by: *by })
            }
            End::Closed | End::Failed(_) => None,
        })
    }

    /// The later of what this rank saw of `rank` and what it was told; sites are numbered in the
    /// order of the round.
    fn latest(&self, rank: usize, told: Option<Tag>) -> Option<Tag> {
        let seen = self.inboxes.get(rank).and_then(|inbox| inbox.last);
        [seen, told].into_iter().flatten().max_by_key(|tag| (tag.epoch, tag.round, tag.site))
    }

    /// The first peer that ended and whose entry is still missing.
    fn fallen(&self) -> Option<GroupError> {
        let (rank, end) = self.ends.iter().find(|(rank, _)| !self.has_entry(*rank))?;
        match end {
            End::Failed(error) => Some(error.clone()),
            End::Closed | End::Poison { .. } => {
                Some(GroupError::Gone { rank: *rank, last: self.inboxes[*rank].last })
            }
        }
    }

    /// The error for the lowest peer whose entry is missing after `waited`.
    pub(super) fn missing(&self, waited: Duration) -> GroupError {
        let rank = self.peers().find(|&rank| !self.has_entry(rank)).unwrap_or(self.me);
        self.stuck(rank, waited)
    }

    /// The error for a peer that did not take this rank's entry within `waited`.
    pub(super) fn stuck(&self, rank: usize, waited: Duration) -> GroupError {
        GroupError::Missing { rank, waited, last: self.inboxes[rank].last }
    }

    /// Moves one entry's payload of each peer into `payloads` (by rank), whose old buffers are kept for reuse.
    pub(super) fn take_entries(&mut self, payloads: &mut [Vec<u8>]) {
        for (inbox, payload) in self.inboxes.iter_mut().zip(payloads) {
            let Some(entry) = inbox.queue.pop_front() else {
                continue;
            };
            let mut used = std::mem::replace(payload, entry.payload);
            used.clear();
            if inbox.spare.len() < DEPTH {
                inbox.spare.push(used);
            }
        }
    }
}
