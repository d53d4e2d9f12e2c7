//! A request as the decode group knows it. Its tokens are in the runtime's tables.

use crate::agreed::Words;
use crate::brief::Arrival;
use crate::configuration::GroupConfiguration;
use crate::counters::{Counter, Counters};
use crate::ids::RequestId;
use serde::{Deserialize, Serialize};

/// A request to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Request {
    /// Its number, in acceptance order.
    pub id: RequestId,
    /// Tokens of the prompt; at least 1.
    pub prompt_tokens: u32,
    /// Most tokens of the output; at least 1.
    pub max_tokens: u32,
    /// Whether stop tokens are ordinary tokens to it.
    pub ignore_eos: bool,
}

/// Why a request can never run in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NeverFits {
    /// The prompt or the output is empty.
    Empty,
    /// It needs more KV positions than the group has.
    TooLong {
        /// Positions that it needs: prompt + output - 1.
        needed: u64,
        /// Positions that the group has.
        capacity: u32,
    },
}

impl Request {
    /// Refuses at the door what could never run.
    ///
    /// # Errors
    /// Why it can never run.
    pub fn admissible(&self, configuration: &GroupConfiguration) -> Result<(), NeverFits> {
        if self.prompt_tokens == 0 || self.max_tokens == 0 {
            return Err(NeverFits::Empty);
        }
        let needed = u64::from(self.prompt_tokens) + u64::from(self.max_tokens) - 1;
        let capacity = configuration.capacity();
        if needed > u64::from(capacity) { Err(NeverFits::TooLong { needed, capacity }) } else { Ok(()) }
    }

    /// Positions that a whole run of it takes.
    #[must_use]
    pub fn positions(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.max_tokens).saturating_sub(1)
    }
}

impl Arrival for Request {
    const WORDS: usize = 4;

    fn encode(&self, words: &mut Words) {
        words.extend([
            self.id.0,
            u64::from(self.prompt_tokens),
            u64::from(self.max_tokens),
            u64::from(self.ignore_eos),
        ]);
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let &[id, prompt_tokens, max_tokens, ignore_eos] = words else { return None };
        Some(Self {
            id: RequestId(id),
            prompt_tokens: u32::try_from(prompt_tokens).ok()?,
            max_tokens: u32::try_from(max_tokens).ok()?,
            ignore_eos: ignore_eos != 0,
        })
    }
}

impl Counters for Request {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Request, &mut self.id.0);
    }
}
