//! A request as the decode group knows it. Its tokens are in the runtime's tables.

use crate::agreed::Words;
use crate::brief::Arrival;
use crate::configuration::GroupConfiguration;
use crate::counters::{Counter, Counters};
use crate::ids::RequestId;
use crate::poll::Reason;
use core::fmt;
use serde::{Deserialize, Serialize};

/// How a request's tokens are chosen. The protocol takes it to every rank and decides nothing by it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sampling {
    /// What its draws are a function of, beside the token's index.
    pub seed: u64,
    /// The temperature in thousandths; at 0 the likeliest token is taken, and the seed says nothing.
    pub temperature_milli: u32,
}

impl Sampling {
    /// The likeliest token, always.
    pub const GREEDY: Self = Self { seed: 0, temperature_milli: 0 };
}

impl fmt::Debug for Sampling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.temperature_milli {
            0 => formatter.write_str("greedy"),
            milli => write!(formatter, "at {milli}/1000 from {}", self.seed),
        }
    }
}

/// How one token of an output is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Draw {
    /// How the tokens of its request are.
    pub sampling: Sampling,
    /// The token's index in the output.
    pub index: u32,
}

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
    /// How its tokens are chosen.
    pub sampling: Sampling,
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

    /// How the token after the one at `position`, in prompt and output, is chosen.
    #[must_use]
    pub fn draw_after(&self, position: u32) -> Draw {
        let index = position.saturating_add(1).saturating_sub(self.prompt_tokens);
        Draw { sampling: self.sampling, index }
    }

    /// Positions that a whole run of it takes.
    #[must_use]
    pub fn positions(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.max_tokens).saturating_sub(1)
    }
}

impl Arrival for Request {
    fn words(&self) -> usize {
        7
    }

    fn encode(&self, words: &mut Words) {
        words.extend([
            self.id.0,
            u64::from(self.prompt_tokens),
            u64::from(self.max_tokens),
            u64::from(self.generated),
            u64::from(self.ignore_eos),
            self.sampling.seed,
            u64::from(self.sampling.temperature_milli),
        ]);
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let &[id, prompt_tokens, max_tokens, generated, ignore_eos, seed, temperature] = words else {
            return None;
        };
        Some(Self {
            id: RequestId(id),
            prompt_tokens: u32::try_from(prompt_tokens).ok()?,
            max_tokens: u32::try_from(max_tokens).ok()?,
            generated: u32::try_from(generated).ok()?,
            ignore_eos: ignore_eos != 0,
            sampling: Sampling { seed, temperature_milli: u32::try_from(temperature).ok()? },
        })
    }
}

impl Counters for Request {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Request, &mut self.id.0);
    }
}
