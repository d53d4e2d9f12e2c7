//! Bounded lines of JSON, without I/O: bytes in, messages out. Both ends of the wire read through it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// What can go wrong on the wire. Every variant names the peer.
#[derive(Debug, Error)]
pub enum WireError {
    /// The peer sent a line that is no message.
    #[error("{peer} sent a line that is no message ({source}): {line:?}")]
    BadLine {
        /// Who sent it.
        peer: String,
        /// The first bytes of the line.
        line: String,
        /// Why it is none.
        source: serde_json::Error,
    },
    /// The peer closed the connection.
    #[error("{peer} closed the control connection")]
    Closed {
        /// Who closed it.
        peer: String,
    },
    /// The connection broke, or a deadline passed on it.
    #[error("the control connection with {peer} failed: {source}")]
    Io {
        /// Who is on the other end.
        peer: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A line is longer than its bound.
    #[error("a line from or to {peer} is longer than {limit} bytes")]
    TooLong {
        /// Who is on the other end.
        peer: String,
        /// The bound in bytes.
        limit: usize,
    },
}

/// Encodes one message for `peer` as a line of at most `limit` bytes, the line feed included.
///
/// # Errors
/// [`WireError::TooLong`] beyond the limit.
pub fn encode<T: Serialize>(message: &T, peer: &str, limit: usize) -> Result<Vec<u8>, WireError> {
    let mut line = serde_json::to_vec(message)
        .map_err(|source| WireError::Io { peer: peer.into(), source: source.into() })?;
    line.push(b'\n');
    if line.len() > limit {
        return Err(WireError::TooLong { peer: peer.into(), limit });
    }
    Ok(line)
}

/// Cuts what a peer sent into messages. Memory stays below the limit and one chunk.
#[derive(Debug)]
pub struct LineReader {
    peer: String,
    limit: usize,
    bytes: Vec<u8>,
    searched: usize,
}

impl LineReader {
    /// A reader of lines from `peer` of at most `limit` bytes, the line feed included.
    pub fn new(peer: impl Into<String>, limit: usize) -> Self {
        Self { peer: peer.into(), limit, bytes: Vec::new(), searched: 0 }
    }

    /// The peer's name, as errors tell it.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Renames the peer, once it has said who it is.
    pub fn rename(&mut self, peer: impl Into<String>) {
        self.peer = peer.into();
    }

    /// Takes in the next bytes; [`Self::message`] is to be called until it has no more before the next ones.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes out the next whole message, if there is one.
    ///
    /// # Errors
    /// [`WireError::BadLine`] and [`WireError::TooLong`]; the connection is of no use afterwards.
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WireError> {
        let Some(length) = self.line_length()? else { return Ok(None) };
        let parsed = serde_json::from_slice(&self.bytes[..length]);
        let message = parsed.map_err(|source| self.bad_line(length, source))?;
        self.bytes.drain(..length);
        self.searched = 0;
        Ok(Some(message))
    }

    fn line_length(&mut self) -> Result<Option<usize>, WireError> {
        let found = self.bytes[self.searched..].iter().position(|&byte| byte == b'\n');
        let length = found.map(|place| self.searched + place + 1);
        if length.unwrap_or(self.bytes.len()) > self.limit {
            return Err(WireError::TooLong { peer: self.peer.clone(), limit: self.limit });
        }
        self.searched = self.bytes.len();
        Ok(length)
    }

    fn bad_line(&self, length: usize, source: serde_json::Error) -> WireError {
        let shown = &self.bytes[..length.min(120)];
        WireError::BadLine {
            peer: self.peer.clone(),
            line: String::from_utf8_lossy(shown).trim_end().into(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Draw, FrontToRank, Leg, RANK_LINE_BYTES, Sampling};
    use crate::wire::{Outcome, RankToFront};
    use lockstep_spec::ids::{Attempt, BlockKey, Epoch, Generation, SlotIndex};
    use lockstep_spec::poll::Reason;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn leg() -> FrontToRank {
        let leg = Leg { epoch: Epoch(1), slot: SlotIndex(2), generation: Generation(3), attempt: Attempt(4) };
        FrontToRank::Leg {
            leg,
            acceptance: 9,
            tokens: vec![7, 8],
            keys: vec![BlockKey([1, 2])],
            draw: Draw { sampling: Sampling::GREEDY, index: 0 },
        }
    }

    #[test]
    fn lines_come_out_whole_whatever_the_cuts() {
        let mut bytes = encode(&leg(), "x", 1024).unwrap();
        bytes.extend(encode(&FrontToRank::Shutdown, "x", 1024).unwrap());
        for cut in 1..bytes.len() {
            let mut reader = LineReader::new("front end", 1024);
            let mut messages = Vec::new();
            for part in bytes.chunks(cut) {
                reader.push(part);
                while let Some(message) = reader.message::<FrontToRank>().unwrap() {
                    messages.push(message);
                }
            }
            assert_eq!(messages, [leg(), FrontToRank::Shutdown], "cut {cut}");
        }
    }

    #[test]
    fn lines_too_long_are_refused_on_both_ends() {
        assert!(matches!(encode(&leg(), "decode rank 0", 10), Err(WireError::TooLong { .. })));
        let mut reader = LineReader::new("decode rank 1", RANK_LINE_BYTES);
        reader.push(&vec![b' '; RANK_LINE_BYTES + 1]);
        let error = reader.message::<FrontToRank>().unwrap_err();
        assert!(error.to_string().contains("decode rank 1"), "{error}");
    }

    #[test]
    fn lines_that_are_no_message_name_the_peer() {
        let mut reader = LineReader::new("prefill rank 0", 100);
        reader.push(b"{\"abort\":{}}\n");
        let error = reader.message::<FrontToRank>().unwrap_err().to_string();
        assert!(error.starts_with("prefill rank 0 sent a line"), "{error}");
        assert!(error.contains("missing field `request`"), "{error}");
    }

    /// Reads what comes in chunks, as both ends do; memory stays below the limit and two chunks.
    fn read_chunks(bytes: &[u8], chunk: usize, limit: usize) -> Vec<Result<FrontToRank, String>> {
        let (mut reader, mut read) = (LineReader::new("a rank", limit), Vec::new());
        for part in bytes.chunks(chunk) {
            reader.push(part);
            assert!(reader.bytes.len() <= limit + chunk, "{} bytes are kept", reader.bytes.len());
            loop {
                match reader.message() {
                    Ok(Some(message)) => read.push(Ok(message)),
                    Ok(None) => break,
                    Err(error) => {
                        read.push(Err(error.to_string()));
                        return read;
                    }
                }
            }
        }
        read
    }

    fn outcomes() -> impl Strategy<Value = Option<Outcome>> {
        let ends = [Outcome::Aborted, Outcome::Failed(Reason::Corrupt), Outcome::Length, Outcome::Stop];
        prop_oneof![Just(None), proptest::sample::select(ends.to_vec()).prop_map(Some)]
    }

    proptest! {
        #[test]
        fn lines_of_arbitrary_bytes_are_refused_by_name(bytes in vec(any::<u8>(), 0..300), chunk in 1..50_usize, limit in 1..100_usize) {
            for refused in read_chunks(&bytes, chunk, limit) {
                prop_assert!(refused.unwrap_err().contains("a rank"));
            }
        }

        #[test]
        fn lines_that_nearly_are_messages_are_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>(), chunk in 1..50_usize) {
            let mut bytes = encode(&leg(), "x", 1024).unwrap();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            read_chunks(&bytes, chunk, 1024);
        }

        #[test]
        fn lines_carry_every_token(request in any::<u64>(), index in any::<u32>(), token in any::<u32>(), ended in outcomes()) {
            let message = RankToFront::Token { request, index, token, ended };
            let mut reader = LineReader::new("a rank", RANK_LINE_BYTES);
            reader.push(&encode(&message, "x", RANK_LINE_BYTES).unwrap());
            prop_assert_eq!(reader.message().unwrap(), Some(message));
        }
    }
}
