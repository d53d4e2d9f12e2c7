//! A tokenizer whose tokens are bytes.

use lockstep_runtime::frontend::{Detokenizer, TextCodec, TextError};

pub(crate) struct Bytes;

impl TextCodec for Bytes {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn detokenizer(&self) -> Box<dyn Detokenizer> {
        Box::new(Pending(Vec::new()))
    }
}

/// Bytes of a character that is not whole yet.
struct Pending(Vec<u8>);

impl Detokenizer for Pending {
    fn push(&mut self, token: u32) -> Result<String, TextError> {
        let byte =
            u8::try_from(token).map_err(|_| TextError { reason: format!("token {token} is no byte") })?;
        self.0.push(byte);
        match std::str::from_utf8(&self.0) {
            Err(error) if error.error_len().is_none() => Ok(String::new()),
            Ok(_) | Err(_) => Ok(self.finish()),
        }
    }

    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}
