//! Text to tokens and back, by the `tokenizer.json` of a model directory.
//!
//! The front end encodes a prompt once and gives every answer its own [`Detokenizer`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::IgnoredAny;
use tokenizers::Tokenizer;

use super::detokenizer::Detokenizer;

/// Why text and tokens could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The tokens cannot be decoded.
    #[error("cannot decode the tokens: {0}")]
    Decode(#[source] tokenizers::Error),
    /// The text cannot be encoded.
    #[error("cannot encode the text: {0}")]
    Encode(#[source] tokenizers::Error),
    /// There is no usable tokenizer.
    #[error("cannot load {}: {source}; the model directory needs its Hugging Face tokenizer.json", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: tokenizers::Error,
    },
    /// The decoder changes text that earlier tokens gave.
    #[error(
        "the tokenizer's decoder rewrites earlier text, so answers cannot be streamed; use one of type ByteLevel"
    )]
    NotIncremental,
}

/// Reads a tokenizer. The library takes it for granted that a decoder in it is JSON, and panics where it is not.
fn read(path: &Path) -> Result<Tokenizer, tokenizers::Error> {
    let text = std::fs::read(path)?;
    let _json: IgnoredAny = serde_json::from_slice(&text)?;
    Tokenizer::from_bytes(text)
}

/// The tokenizer of a model directory; cheap to clone and to share between threads.
#[derive(Clone, Debug)]
pub struct Text {
    tokenizer: Arc<Tokenizer>,
}

impl Text {
    /// Reads `tokenizer.json` of `directory`.
    ///
    /// # Errors
    /// [`TextError::Load`].
    pub fn load(directory: &Path) -> Result<Self, TextError> {
        let path = directory.join("tokenizer.json");
        match read(&path) {
            Ok(tokenizer) => Ok(Self { tokenizer: Arc::new(tokenizer) }),
            Err(source) => Err(TextError::Load { path, source }),
        }
    }

    /// Tokens of `text`, with the tokens that the tokenizer puts around every prompt (as Hugging Face does by default).
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let encoding = self.tokenizer.encode_fast(text, true).map_err(TextError::Encode)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Text of `tokens`, special and unknown ones left out, bytes that are no UTF-8 as U+FFFD.
    ///
    /// # Errors
    /// [`TextError::Decode`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TextError> {
        self.tokenizer.decode(tokens, true).map_err(TextError::Decode)
    }

    /// A converter for one answer, token by token.
    #[must_use]
    pub fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(self.clone())
    }
}
