//! Token exact: a stream is the output, once.

use super::Property;
use crate::decode::phase::Outcome;
use crate::ids::TokenId;

/// The property.
pub const PROPERTY: Property = Property {
    id: "token-exact",
    sentence: "Each accepted request's client is told each token of its output exactly once and in order, and nothing after its end, \
               across retraction, overlap and epochs.",
    source: "The front end's promise: the loss of a group costs a stream time, and no token.",
    not_covered: "An engine whose tokens depend on the batch, the chunks or the path; a token that was told is never sampled again.",
};

/// Whether a client that was told `told` tokens of `output` may be told this one next.
#[must_use]
pub fn holds(output: &[TokenId], told: usize, index: u32, token: TokenId) -> bool {
    usize::try_from(index) == Ok(told) && output.get(told) == Some(&token)
}

/// Whether a stream may end so behind `told` tokens of `output`: whole, or before its last token.
#[must_use]
pub fn holds_at_end(output: &[TokenId], told: usize, outcome: Outcome) -> bool {
    match outcome {
        Outcome::Stop | Outcome::Length => told == output.len(),
        Outcome::Aborted | Outcome::Failed(_) => told < output.len(),
    }
}
