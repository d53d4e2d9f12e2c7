//! What the front end asks of a tokenizer; the real one is the engine's.

use thiserror::Error;

/// Text that the tokenizer could not take.
#[derive(Debug, Error)]
#[error("the tokenizer failed: {reason}")]
pub struct TextError {
    /// The tokenizer's reason.
    pub reason: String,
}

/// A model's tokenizer.
pub trait TextCodec: Send + Sync {
    /// The tokens of a prompt, as the model expects them.
    ///
    /// # Errors
    /// [`TextError`] for text that has no tokens.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError>;

    /// A detokenizer for one stream.
    fn detokenizer(&self) -> Box<dyn Detokenizer>;
}

/// One stream's way from tokens to text: what it hands out, put together, is the text of all tokens.
pub trait Detokenizer: Send {
    /// The text that is certain now that `token` has come: empty inside a character of several tokens.
    ///
    /// # Errors
    /// [`TextError`] for a token that the model does not have.
    fn push(&mut self, token: u32) -> Result<String, TextError>;

    /// The text that was held back, at the end of the stream.
    fn finish(&mut self) -> String;
}
