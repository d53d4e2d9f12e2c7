//! Bounds and choices of a decode run.

use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::decode::phase::Outcome;
use lockstep_spec::decode::request::{Request, Sampling};
use lockstep_spec::ids::{Epoch, RequestId, TokenId};
use std::sync::Arc;

use crate::decode::field::Field;
use crate::world::{Completion, Interleaving};

/// A token that ends an output.
pub const STOP: TokenId = TokenId(1);
/// Another one, which no request samples.
const OTHER_STOP: TokenId = TokenId(9);
/// A token that does not.
pub const PLAIN: TokenId = TokenId(0);

/// A kind of request. Kinds differ in prompt or limit, so that a request shows its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKind {
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Most tokens of the output.
    pub most: u32,
    /// Index of the output's token that is a stop token, if any.
    pub stop_at: Option<u32>,
}

impl RequestKind {
    /// A request of this kind.
    #[must_use]
    pub fn request(&self, id: RequestId) -> Request {
        Request {
            id,
            prompt_tokens: self.prompt,
            max_tokens: self.most,
            generated: 0,
            ignore_eos: false,
            sampling: Sampling::GREEDY,
        }
    }

    /// The token that the model samples at `index` of the output.
    #[must_use]
    pub fn token(&self, index: u32) -> TokenId {
        if self.stop_at == Some(index) { STOP } else { PLAIN }
    }

    /// How it ends by itself.
    #[must_use]
    pub fn end(&self) -> Outcome {
        if self.stop_at.is_some_and(|stop| stop < self.most) { Outcome::Stop } else { Outcome::Length }
    }

    /// The whole output.
    #[must_use]
    pub fn output(&self) -> Vec<TokenId> {
        let length = self.stop_at.map_or(self.most, |stop| self.most.min(stop + 1));
        (0..length).map(|index| self.token(index)).collect()
    }
}

/// What may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// A rank's handshake.
    Handshake,
    /// A rank's transfer, in each way: broken off, corrupt, or of another leg.
    Transfer,
    /// The first token that a rank is given, unless it is the last one: it is another than that one's.
    FirstToken,
    /// A rank's clock passes the deadline of a handshake or a transfer.
    Deadline,
}

impl Breakage {
    /// All of it.
    pub const ALL: &'static [Self] = &[Self::Handshake, Self::Transfer, Self::FirstToken, Self::Deadline];
}

/// Bounds and choices of a decode run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecodeSetting {
    /// The group.
    pub configuration: Arc<GroupConfiguration>,
    /// Kinds of request that keep arriving while a slot is free.
    pub kinds: Vec<RequestKind>,
    /// Most words of the front end that wait at the leader for its next brief. With one, a request comes only while a slot is free for it,
    /// and an abort only for one that lives. With more, requests wait for slots too, an abort may be of one that waits or has ended, and a
    /// word on pausing goes beside them.
    pub words: usize,
    /// Whether a client may give any live request up at any time.
    pub aborts: bool,
    /// What may break, on any rank at any time.
    pub breakage: &'static [Breakage],
    /// A field of the vote that no rank hears.
    pub unheard: Option<Field>,
    /// Whether an answer to an earlier attempt's handshake, or a write after the rank asked for the fence, may still arrive.
    pub late_facts: bool,
    /// Whether the group may be paused, and told to go on, at any time.
    pub pause: bool,
    /// Whether any rank may ask the group to leave.
    pub shutdown: bool,
    /// Whether every request must end, where what it waits for comes sooner or later.
    pub fair: bool,
    /// Which interleavings are explored.
    pub interleaving: Interleaving,
    /// How outcomes reach the ranks.
    pub completion: Completion,
    /// Whether the ranks that do not lead are interchangeable.
    pub symmetric: bool,
    /// Whether a transfer that is published lands in the same step. No vote tells what is published from what is queued, or from what has
    /// landed in part; only a request that ends meanwhile, or a transfer that breaks, would.
    pub bundled: bool,
}

impl DecodeSetting {
    /// A run of `ranks` × `slots` with `pages` pages of one position each.
    #[must_use]
    pub fn new(ranks: u32, slots: u32, pages: u32, overlap: bool) -> Self {
        let configuration = GroupConfiguration {
            epoch: Epoch(0),
            ranks,
            slots,
            pages,
            page_size: 1,
            flights: 1 + u32::from(overlap),
            prefix_pages: 0,
            host_pages: 0,
            brief_words: GroupConfiguration::least_brief_words(slots) + 8 * slots,
            chunk_tokens: 8,
            deadline_ticks: 1,
            stop_tokens: vec![OTHER_STOP, STOP],
            collectives: Collectives::Host,
            forwards: Forwards::Eager,
            votes: Votes::Host,
        };
        Self {
            configuration: Arc::new(configuration),
            kinds: vec![
                RequestKind { prompt: 1, most: 3, stop_at: Some(1) },
                RequestKind { prompt: 1, most: 2, stop_at: None },
            ],
            words: 1,
            aborts: false,
            breakage: &[],
            unheard: None,
            late_facts: false,
            pause: false,
            shutdown: false,
            fair: false,
            interleaving: Interleaving::FixedOrder,
            completion: Completion::Together,
            symmetric: false,
            bundled: false,
        }
    }

    /// Positions of a page.
    pub fn page_size(&mut self, positions: u32) {
        Arc::make_mut(&mut self.configuration).page_size = positions;
    }

    /// Pages on each host for requests that give theirs up.
    pub fn host(&mut self, pages: u32) {
        Arc::make_mut(&mut self.configuration).host_pages = pages;
    }

    /// Where a vote is reduced that a launch goes with.
    pub fn vote(&mut self, votes: Votes) {
        Arc::make_mut(&mut self.configuration).votes = votes;
    }

    /// Whether this may break.
    #[must_use]
    pub fn breaks(&self, breakage: Breakage) -> bool {
        self.breakage.contains(&breakage)
    }

    /// The kind of a request.
    #[must_use]
    pub fn kind(&self, request: &Request) -> Option<RequestKind> {
        let same =
            |kind: &&RequestKind| (kind.prompt, kind.most) == (request.prompt_tokens, request.max_tokens);
        self.kinds.iter().find(same).copied()
    }

    /// Slots of the group.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.configuration.slots as usize
    }
}
