//! Refusals of the explorer: models it cannot judge soundly.

use thiserror::Error;

/// Why a model was not explored, or its findings could not be drawn.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ExploreError {
    /// The model has a Stateright `Eventually` property, which is unsound on cycles and joins.
    #[error(
        "property `{name}` is an `eventually`, which no exploration can judge without fairness; \
         implement `Live` and make it an obligation"
    )]
    Eventually {
        /// Name of the property.
        name: &'static str,
    },
    /// What was kept of a search cannot be read, or is none of this model's.
    #[error("the search that was kept cannot go on: {text}; leave it out and explore anew")]
    Kept {
        /// What is wrong.
        text: String,
    },
    /// The model has no initial state.
    #[error("the model has no initial state inside its boundary; give it one in `init_states`")]
    NoInitialState,
    /// Replaying a path took another way than exploring it did.
    #[error(
        "the model is not deterministic: replaying a path took another way; \
         look for unordered maps, clocks or random numbers in `actions` and `next_state`"
    )]
    Nondeterministic,
    /// The model lists more of something than its bit set can hold.
    #[error("the model lists {listed} {what}, and at most {limit} are possible; merge some of them")]
    TooMany {
        /// What is listed.
        what: &'static str,
        /// How many are listed.
        listed: usize,
        /// How many are possible.
        limit: usize,
    },
}

impl From<std::io::Error> for ExploreError {
    fn from(error: std::io::Error) -> Self {
        Self::Kept { text: error.to_string() }
    }
}
