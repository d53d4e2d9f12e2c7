//! Bounds and choices of a prefill run.

use crate::world::{Completion, Interleaving};
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration};
use lockstep_spec::ids::{Epoch, Leg};
use std::sync::Arc;

/// Bounds and choices of a prefill run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PrefillSetting {
    /// The group.
    pub configuration: Arc<GroupConfiguration>,
    /// Slots of the decode group: each has at most one leg that it wants.
    pub decode_slots: u32,
    /// Lengths of the legs that keep arriving, in tokens.
    pub lengths: Vec<u32>,
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
            brief_words: GroupConfiguration::least_brief_words(slots) + 8 * slots,
            chunk_tokens: 2 * slots,
            deadline_ticks: 1,
            stop_tokens: Vec::new(),
            collectives: Collectives::Host,
            forwards: Forwards::Eager,
        };
        Self {
            configuration: Arc::new(configuration),
            decode_slots: slots,
            lengths: vec![1, 2],
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
        }
    }

    /// Lets a forward have one token, so that a leg of two takes two forwards. There is a page for each token of one leg.
    pub fn one_token_a_forward(&mut self) {
        let configuration = Arc::make_mut(&mut self.configuration);
        configuration.chunk_tokens = 1;
        configuration.pages = configuration.pages.max(2);
        self.lengths = vec![2];
    }

    /// Whether a leg may fail or be given up.
    #[must_use]
    pub fn fallible(&self, leg: Leg) -> bool {
        leg.slot.0 < self.fallible_slots
    }
}
