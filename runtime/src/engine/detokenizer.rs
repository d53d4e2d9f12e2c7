//! Tokens of one answer to text, as they come: each piece is complete UTF-8 and the pieces add up to the whole.
//!
//! A token's text depends on its neighbours (a character may span tokens, a decoder may drop a leading space), so a
//! piece is the difference of two decodings that begin at the same earlier token. They begin where a piece ended, so
//! a decoding is a few tokens long however long the answer is.

use super::text::{Text, TextError};

/// What a decoder writes for bytes that are not, or not yet, UTF-8.
const REPLACEMENT: char = '\u{FFFD}';

/// Converter for one answer.
#[derive(Debug)]
pub struct Detokenizer {
    text: Text,
    /// Tokens of the last piece, then the tokens whose text is still held back.
    window: Vec<u32>,
    /// Tokens of `window` whose text has been given out.
    given: usize,
    /// Text of those tokens, as decoded from the start of `window`.
    given_text: String,
}

impl Detokenizer {
    /// A converter at the start of an answer.
    #[must_use]
    pub fn new(text: Text) -> Self {
        Self { text, window: Vec::new(), given: 0, given_text: String::new() }
    }

    /// Takes the next token; gives the text that it completes, or `None` while the text ends inside a character.
    ///
    /// # Errors
    /// [`TextError::Decode`], [`TextError::NotIncremental`].
    pub fn push(&mut self, token: u32) -> Result<Option<String>, TextError> {
        self.window.push(token);
        let decoded = self.text.decode(&self.window)?;
        if decoded.len() <= self.given_text.len() || decoded.ends_with(REPLACEMENT) {
            return Ok(None);
        }
        let piece = self.new_text(&decoded)?;
        self.window.drain(..self.given);
        self.given = self.window.len();
        self.given_text = self.text.decode(&self.window)?;
        Ok(Some(piece))
    }

    /// Ends the answer and gives the text still held back, an incomplete character as U+FFFD.
    ///
    /// # Errors
    /// [`TextError::Decode`], [`TextError::NotIncremental`].
    pub fn finish(self) -> Result<String, TextError> {
        let decoded = self.text.decode(&self.window)?;
        self.new_text(&decoded)
    }

    fn new_text(&self, decoded: &str) -> Result<String, TextError> {
        decoded.strip_prefix(&self.given_text).map(str::to_owned).ok_or(TextError::NotIncremental)
    }
}
