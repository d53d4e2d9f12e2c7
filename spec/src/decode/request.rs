//! A request as the decode group knows it. Its tokens are in the runtime's tables.

use crate::agreed::Words;
use crate::brief::Arrival;
use crate::configuration::GroupConfiguration;
use crate::counters::{Counter, Counters};
use crate::ids::RequestId;
use crate::poll::Reason;
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
    /// Tokens of the output that the client has already, from an earlier epoch; fewer than `max_tokens`.
    pub generated: u32,
    /// Whether stop tokens are ordinary tokens to it.
    pub ignore_eos: bool,
}

impl Request {
    /// Refuses at the door what could never run.
    ///
    /// # Errors
    /// [`Reason::NeverFits`]: prompt or rest of the output is empty, or prompt + output - 1 positions are more than the group has.
    pub fn admissible(&self, configuration: &GroupConfiguration) -> Result<(), Reason> {
        let asks = self.prompt_tokens > 0 && self.generated < self.max_tokens;
        let positions = u64::from(self.prompt_tokens) + u64::from(self.max_tokens);
        let fits = positions <= u64::from(configuration.capacity()) + 1;
        if asks && fits { Ok(()) } else { Err(Reason::NeverFits) }
    }

    /// Positions that a whole run of it takes.
    #[must_use]
    pub fn positions(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.max_tokens).saturating_sub(1)
    }
}

impl Arrival for Request {
    const WORDS: usize = 5;

    fn encode(&self, words: &mut Words) {
        words.extend([
            self.id.0,
            u64::from(self.prompt_tokens),
            u64::from(self.max_tokens),
            u64::from(self.generated),
            u64::from(self.ignore_eos),
        ]);
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let &[id, prompt_tokens, max_tokens, generated, ignore_eos] = words else { return None };
        Some(Self {
            id: RequestId(id),
            prompt_tokens: u32::try_from(prompt_tokens).ok()?,
            max_tokens: u32::try_from(max_tokens).ok()?,
            generated: u32::try_from(generated).ok()?,
            ignore_eos: ignore_eos != 0,
        })
    }
}

impl Counters for Request {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Request, &mut self.id.0);
    }
}
