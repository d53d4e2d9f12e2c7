//! The line between the front ends of a decode and a prefill deployment; its words are in [`crate::wire`].
//!
//! Reading order: [`LineTerms`], [`Line`] (both ends), `to_prefill` (decode's end), `to_decode` (prefill's).

mod to_decode;
mod to_prefill;

pub use to_decode::LinesToDecode;
pub use to_prefill::LineToPrefill;

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::bootstrap::BootstrapError;
use crate::wire::{
    Attachment, FRONT_LINE_BYTES, LONGEST_SILENCE, LineReader, Sizes, WireError, encode, version,
};
use lockstep_spec::ids::Epoch;

/// Bytes taken from the socket at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// What both deployments must have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineTerms {
    /// Digest of the model's `config.json`.
    pub model: u64,
    /// Type of keys and values.
    pub kv_type: String,
    /// Ranks of the groups.
    pub sizes: Sizes,
    /// Positions of a KV page.
    pub page_size: u32,
}

impl LineTerms {
    fn attachment(&self, deployment: u64, epoch: Epoch) -> Attachment {
        let Self { model, kv_type, sizes, page_size } = self.clone();
        Attachment { version: version(), model, kv_type, sizes, page_size, deployment, epoch }
    }

    /// What keeps a decode deployment from being one of these terms, and what to do.
    fn differs(&self, theirs: &Attachment) -> Option<String> {
        let ours = self.attachment(theirs.deployment, theirs.epoch);
        let pairs = [
            ("program", ours.version == theirs.version, "start the same program on both sides"),
            ("model", ours.model == theirs.model, "name the same model on both sides with --model"),
            ("type of keys and values", ours.kv_type == theirs.kv_type, "give both sides the same --kv-type"),
            (
                "number of ranks",
                ours.sizes == theirs.sizes,
                "give both sides the same --tp, --prefill-tp and --decode-tp",
            ),
            ("page size", ours.page_size == theirs.page_size, "give both sides the same --page-size"),
        ];
        let found = pairs.into_iter().find(|(_, same, _)| !same);
        found.map(|(what, _, advice)| format!("the {what} of prefill and decode differ: {advice}"))
    }
}

/// Why there is no line, or no more.
#[derive(Debug, Error)]
pub enum LineError {
    /// The bootstrap server does not say where prefill's front end is.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// Prefill's front end does not take this deployment.
    #[error("prefill refuses: {why}")]
    Refused {
        /// Its words.
        why: String,
        /// The first epoch that it would take, if that is all.
        next: Option<Epoch>,
    },
    /// The other end says something out of place.
    #[error("{peer} said {what} out of place")]
    OutOfPlace {
        /// Who.
        peer: &'static str,
        /// What.
        what: &'static str,
    },
    /// This deployment ended it.
    #[error("it was given up")]
    Over,
    /// The connection broke, or what came over it is no word.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// One end of a line.
struct Line {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    lines: LineReader,
    peer: &'static str,
    /// When the other end counts as gone, unless it says something.
    silent_at: Instant,
}

impl Line {
    fn new(stream: TcpStream, peer: &'static str) -> Self {
        // Legs are told at once; without it they are late, not wrong.
        stream.set_nodelay(true).ok();
        let (reader, writer) = stream.into_split();
        let lines = LineReader::new(peer, FRONT_LINE_BYTES);
        Self { reader, writer, lines, peer, silent_at: Instant::now() + LONGEST_SILENCE }
    }

    /// Waits for the next word. May be given up and called again: nothing is lost by that.
    async fn hear<T: DeserializeOwned>(&mut self) -> Result<T, WireError> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            if let Some(word) = self.lines.message()? {
                return Ok(word);
            }
            let read = timeout_at(self.silent_at, self.reader.read(&mut chunk)).await;
            match read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(0) => return Err(WireError::Closed { peer: self.peer.into() }),
                Ok(length) => {
                    self.lines.push(&chunk[..length]);
                    self.silent_at = Instant::now() + LONGEST_SILENCE;
                }
                Err(source) => return Err(self.broken(source)),
            }
        }
    }

    /// Says a word. Not to be given up midway.
    async fn say(&mut self, word: &impl Serialize) -> Result<(), WireError> {
        let line = encode(word, self.peer, FRONT_LINE_BYTES)?;
        let written = timeout(LONGEST_SILENCE, self.writer.write_all(&line)).await;
        written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|source| self.broken(source))
    }

    fn broken(&self, source: io::Error) -> WireError {
        WireError::Io { peer: self.peer.into(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_terms_say_what_differs_and_what_to_do() {
        let sizes = Sizes { decode: 2, prefill: 2 };
        let terms = LineTerms { model: 1, kv_type: "f32".into(), sizes, page_size: 16 };
        let attachment = terms.attachment(7, Epoch(3));
        assert_eq!(terms.differs(&attachment), None);
        for (other, advice) in [
            (Attachment { version: "old".into(), ..attachment.clone() }, "the same program"),
            (Attachment { model: 2, ..attachment.clone() }, "--model"),
            (Attachment { kv_type: "bf16".into(), ..attachment.clone() }, "--kv-type"),
            (Attachment { sizes: Sizes { decode: 1, prefill: 2 }, ..attachment.clone() }, "--decode-tp"),
            (Attachment { page_size: 8, ..attachment.clone() }, "--page-size"),
        ] {
            assert!(terms.differs(&other).unwrap().contains(advice), "{advice}");
        }
    }
}
