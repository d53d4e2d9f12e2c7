//! The tokenizer of the model's directory as the front end's codec.

use super::text::{Detokenizer, TextCodec, TextError};
use crate::engine::{self, Text};
use std::path::Path;
use std::sync::Arc;

/// Loads the tokenizer of a model's directory.
///
/// # Errors
/// [`TextError`] if there is none, or it cannot be read.
pub fn load_text(directory: &Path) -> Result<Arc<dyn TextCodec>, TextError> {
    Ok(Arc::new(ModelText(Text::load(directory).map_err(failed)?)))
}

struct ModelText(Text);

impl TextCodec for ModelText {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.0.encode(text).map_err(failed)
    }

    fn detokenizer(&self) -> Box<dyn Detokenizer> {
        Box::new(Stream(Some(self.0.detokenizer())))
    }
}

/// One stream; empty once it is finished.
struct Stream(Option<engine::Detokenizer>);

impl Detokenizer for Stream {
    fn push(&mut self, token: u32) -> Result<String, TextError> {
        let pushed = self.0.as_mut().map(|stream| stream.push(token)).transpose().map_err(failed)?;
        Ok(pushed.flatten().unwrap_or_default())
    }

    fn finish(&mut self) -> String {
        self.0.take().and_then(|stream| stream.finish().ok()).unwrap_or_default()
    }
}

fn failed(error: engine::TextError) -> TextError {
    TextError { reason: error.to_string() }
}
