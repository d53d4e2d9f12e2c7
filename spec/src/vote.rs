//! The vote: one fixed-width vector of unsigned words, reduced by element-wise MIN once a round. Every question that engines put to a
//! conditional collective of its own is an element here. One element per flag, per count, per slot: MIN over packed bits is not OR.
//!
//! Encodings: AND is the value itself; OR its complement; equality the pair `[x, !x]`; what only the leader says, all-ones on the others.
//!
//! ```text
//! 0 terms  1 !terms  2 epoch  3 !epoch  4 round  5 !round  6 digest  7 !digest  8 no fault  9 no shutdown  10 brief words  11 retired
//! 12 copied  13..17 token digests of the flights in order: d, !d      then per slot: poll, first token, !first token, drained
//! ```

use crate::agreed::Words;
use crate::configuration::{GroupConfiguration, MAX_FLIGHTS};
use crate::fault::{Fault, Identity};
use crate::ids::{Epoch, Round, SlotIndex, TokenId};
use crate::poll::KvPoll;
use alloc::vec;

/// All-ones: the value that changes no minimum.
pub const NEUTRAL: u64 = u64::MAX;
const RAISED: u64 = 0;

const TERMS: usize = 0;
const EPOCH: usize = 2;
const ROUND: usize = 4;
const DIGEST: usize = 6;
const NO_FAULT: usize = 8;
const NO_SHUTDOWN: usize = 9;
const BRIEF_WORDS: usize = 10;
const RETIRED: usize = 11;
const COPIED: usize = 12;
const TOKENS: usize = 13;
const SLOTS: usize = TOKENS + 2 * MAX_FLIGHTS;

const POLL: usize = 0;
const FIRST_TOKEN: usize = 1;
const DRAINED: usize = 3;
const PER_SLOT: usize = 4;

/// What a rank votes on one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotVote {
    /// The poll, folded with every local fact that could spoil it.
    pub poll: KvPoll,
    /// The first token, where this rank's KV is whole.
    pub first_token: Option<TokenId>,
    /// Whether no effect of this rank that touches the slot's pages is outstanding.
    pub drained: bool,
}

impl SlotVote {
    /// The vote on a slot that waits for nothing.
    pub const NEUTRAL: Self = Self { poll: KvPoll::Success, first_token: None, drained: true };
}

/// A vote while a rank writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ballot(Words);

impl Ballot {
    /// Number of words of every vote of this group.
    #[must_use]
    pub fn width(configuration: &GroupConfiguration) -> u64 {
        (SLOTS + PER_SLOT * configuration.slots as usize) as u64
    }

    /// A vote that says nothing but who votes: `digest` is that of the agreed state before this round.
    #[must_use]
    pub fn new(configuration: &GroupConfiguration, epoch: Epoch, round: Round, digest: u64) -> Self {
        let mut ballot = Self(vec![NEUTRAL; SLOTS + PER_SLOT * configuration.slots as usize]);
        ballot.pair(TERMS, configuration.terms());
        ballot.pair(EPOCH, epoch.0);
        ballot.pair(ROUND, round.0);
        ballot.pair(DIGEST, digest);
        ballot.0[RETIRED] = 0;
        ballot.0[COPIED] = 0;
        ballot
    }

    fn pair(&mut self, at: usize, value: u64) {
        self.0[at] = value;
        self.0[at + 1] = !value;
    }

    /// Raises the fault flag.
    pub fn fault(&mut self) {
        self.0[NO_FAULT] = RAISED;
    }

    /// Asks for the group to leave.
    pub fn shutdown(&mut self) {
        self.0[NO_SHUTDOWN] = RAISED;
    }

    /// The leader's word: how long its brief is.
    pub fn brief_words(&mut self, words: usize) {
        self.0[BRIEF_WORDS] = words as u64;
    }

    /// The digest of the tokens of the next forward that this rank has retired beyond the agreed count.
    pub fn retired(&mut self, digest: u64) {
        let index = usize::try_from(self.0[RETIRED]).map_or(MAX_FLIGHTS, |index| index.min(MAX_FLIGHTS));
        if index < MAX_FLIGHTS {
            self.pair(TOKENS + 2 * index, digest);
            self.0[RETIRED] += 1;
        }
    }

    /// How many copies are complete here beyond the agreed count, in the order of issue.
    pub fn copied(&mut self, count: usize) {
        self.0[COPIED] = count as u64;
    }

    /// What this rank says of a slot.
    pub fn slot(&mut self, slot: SlotIndex, vote: SlotVote) {
        let at = SLOTS + PER_SLOT * slot.index();
        self.0[at + POLL] = vote.poll.code();
        if let Some(token) = vote.first_token {
            self.pair(at + FIRST_TOKEN, u64::from(token.0));
        }
        self.0[at + DRAINED] = if vote.drained { NEUTRAL } else { RAISED };
    }

    /// The words to enter the collective with.
    #[must_use]
    pub fn into_words(self) -> Words {
        self.0
    }
}

/// First token of a slot as the reduced vote shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstToken {
    /// Every rank was given this token.
    Equal(TokenId),
    /// The ranks that have one differ.
    Unequal,
}

/// The reduced vote, read by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outcome(Words);

impl Outcome {
    /// Reads a reduced vote. The caller has checked the width.
    #[must_use]
    pub fn new(words: Words) -> Self {
        Self(words)
    }

    fn equal(&self, at: usize) -> bool {
        self.0[at] == !self.0[at + 1]
    }

    /// What ends the epoch at once, if anything: a raised fault flag, or an identity on which the ranks differ.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        let identities = [
            (TERMS, Identity::Terms),
            (EPOCH, Identity::Epoch),
            (ROUND, Identity::Round),
            (DIGEST, Identity::State),
        ];
        if self.0[NO_FAULT] == RAISED {
            return Some(Fault::Raised);
        }
        identities.into_iter().find(|(at, _)| !self.equal(*at)).map(|(_, identity)| Fault::Diverged(identity))
    }

    /// Whether some rank asks the group to leave.
    #[must_use]
    pub fn shutdown(&self) -> bool {
        self.0[NO_SHUTDOWN] == RAISED
    }

    /// Length of the leader's brief, in words.
    #[must_use]
    pub fn brief_words(&self) -> u64 {
        self.0[BRIEF_WORDS]
    }

    /// Forwards that every rank has retired beyond the agreed count.
    #[must_use]
    pub fn retired(&self) -> usize {
        usize::try_from(self.0[RETIRED]).map_or(MAX_FLIGHTS, |retired| retired.min(MAX_FLIGHTS))
    }

    /// Copies that are complete on every rank beyond the agreed count, in the order of issue.
    #[must_use]
    pub fn copied(&self) -> usize {
        usize::try_from(self.0[COPIED]).unwrap_or(usize::MAX)
    }

    /// Whether all ranks saw the same tokens from the `index`-th forward in flight. Read only within [`Outcome::retired`].
    ///
    /// # Errors
    /// The fault that a difference is.
    pub fn tokens_equal(&self, index: usize) -> Result<(), Fault> {
        if self.equal(TOKENS + 2 * index) { Ok(()) } else { Err(Fault::Diverged(Identity::Tokens)) }
    }

    /// The agreed poll of a slot.
    #[must_use]
    pub fn poll(&self, slot: SlotIndex) -> KvPoll {
        KvPoll::from_code(self.0[SLOTS + PER_SLOT * slot.index() + POLL])
    }

    /// The agreed first token of a slot. Read only when its poll is `Success`.
    #[must_use]
    pub fn first_token(&self, slot: SlotIndex) -> FirstToken {
        let at = SLOTS + PER_SLOT * slot.index() + FIRST_TOKEN;
        match u32::try_from(self.0[at]) {
            Ok(token) if self.equal(at) => FirstToken::Equal(TokenId(token)),
            Ok(_) | Err(_) => FirstToken::Unequal,
        }
    }

    /// Whether no rank has an outstanding effect on the slot's pages.
    #[must_use]
    pub fn drained(&self, slot: SlotIndex) -> bool {
        self.0[SLOTS + PER_SLOT * slot.index() + DRAINED] == NEUTRAL
    }
}
