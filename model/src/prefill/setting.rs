//! Bounds and choices of a prefill run.

use crate::world::{Completion, Interleaving};
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::ids::{BlockKey, Epoch, Leg};
use std::sync::Arc;

/// What a leg is to compute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prompt {
    /// Its length.
    pub tokens: u32,
    /// The keys of its leading full pages.
    pub keys: Vec<BlockKey>,
}

impl Prompt {
    /// One that is like no other.
    #[must_use]
    pub fn new(tokens: u32) -> Self {
        Self { tokens, keys: Vec::new() }
    }

    /// One whose leading pages have these keys.
    #[must_use]
    pub fn keyed(tokens: u32, keys: &[u64]) -> Self {
        Self { tokens, keys: keys.iter().map(|key| BlockKey([0, *key])).collect() }
    }
}

/// Bounds and choices of a prefill run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PrefillSetting {
    /// The group.
    pub configuration: Arc<GroupConfiguration>,
    /// Slots of the decode group: each has at most one leg that it wants.
    pub decode_slots: u32,
    /// What the legs that keep arriving are to compute.
    pub prompts: Vec<Prompt>,
    /// Whether the decode group may give any leg up at any time; each rank hears of it on its own.
    pub revocations: bool,
    /// Whether a write may fail, on any rank at any time.
    pub write_failures: bool,
    /// Whether any rank's clock may pass the deadline of a list or a write.
    pub deadlines: bool,
    /// Whether the group may be paused, and told to go on, at any time.
    pub pause: bool,
    /// Whether any rank may ask the group to leave.
    pub shutdown: bool,
    /// Decode slots, counted from the first, whose legs may fail or be given up. Fewer than all keeps larger runs small; slots are alike.
    pub fallible_slots: u32,
    /// Whether the decode group may give a leg up on a rank before it is listed there, and ask for the next one before every rank was
    /// told.
    pub hasty: bool,
    /// Whether a page list may still arrive after the prefill group forgot its leg.
    pub late_facts: bool,
    /// Which interleavings are explored.
    pub interleaving: Interleaving,
    /// How outcomes reach the ranks.
    pub completion: Completion,
    /// Whether the ranks that do not lead are interchangeable.
    pub symmetric: bool,
}

impl PrefillSetting {
    /// A run of `ranks` × `slots` with legs of one and two pages, and one page less than `slots` long legs need.
    #[must_use]
    pub fn new(ranks: u32, slots: u32, overlap: bool) -> Self {
        let configuration = GroupConfiguration {
            epoch: Epoch(0),
            ranks,
            slots,
            pages: 2 * slots - 1,
            page_size: 1,
            flights: 1 + u32::from(overlap),
            prefix_pages: 0,
            host_pages: 0,
            brief_words: GroupConfiguration::least_brief_words(slots) + 8 * slots,
            chunk_tokens: 2 * slots,
            deadline_ticks: 1,
            stop_tokens: Vec::new(),
            collectives: Collectives::Host,
            forwards: Forwards::Eager,
            votes: Votes::Host,
        };
        Self {
            configuration: Arc::new(configuration),
            decode_slots: slots,
            prompts: vec![Prompt::new(1), Prompt::new(2)],
            revocations: false,
            write_failures: false,
            deadlines: false,
            pause: false,
            shutdown: false,
            fallible_slots: slots,
            hasty: false,
            late_facts: false,
            interleaving: Interleaving::FixedOrder,
            completion: Completion::Together,
            symmetric: false,
        }
    }

    /// Where a vote is reduced that a launch goes with.
    pub fn vote(&mut self, votes: Votes) {
        Arc::make_mut(&mut self.configuration).votes = votes;
    }

    /// Lets a forward have one token, so that a leg of two takes two forwards. There is a page for each token of one leg.
    pub fn one_token_a_forward(&mut self) {
        let configuration = Arc::make_mut(&mut self.configuration);
        configuration.chunk_tokens = 1;
        configuration.pages = configuration.pages.max(2);
        self.prompts = vec![Prompt::new(2)];
    }

    /// Lets a forward have so many tokens.
    pub fn chunks_of(&mut self, tokens: u32) {
        Arc::make_mut(&mut self.configuration).chunk_tokens = tokens;
    }

    /// Keeps pages for prompts that begin alike, with `host_pages` pages on each host, in a pool of `pages`.
    pub fn keep(&mut self, pages: u32, host_pages: u32, prompts: Vec<Prompt>) {
        let configuration = Arc::make_mut(&mut self.configuration);
        configuration.prefix_pages = prompts
            .iter()
            .map(|prompt| u32::try_from(prompt.keys.len()).unwrap_or(u32::MAX))
            .max()
            .unwrap_or(0);
        configuration.host_pages = host_pages;
        configuration.pages = pages;
        configuration.brief_words += 2 * configuration.slots * configuration.prefix_pages;
        self.prompts = prompts;
    }

    /// Whether a leg may fail or be given up.
    #[must_use]
    pub fn fallible(&self, leg: Leg) -> bool {
        leg.slot.0 < self.fallible_slots
    }
}
