//! Configuration of a model directory: `config.json` as Hugging Face writes it, turned into what the engine means.
//!
//! Read first when a model is loaded. Everything the engine cannot compute exactly is refused here, by name.

mod written;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::rope::Scaling;
use written::{WrittenConfig, WrittenGeneration};

/// Shape and constants of a Llama model, checked: no size is zero and all divisions the forward pass makes are exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Positions a row may have, prompt and answer together.
    pub context: usize,
    /// Tokens that end an answer, ascending; empty if the directory names none.
    pub end_tokens: Vec<u32>,
    /// Width of the feed-forward layer.
    pub feed_forward: usize,
    /// Width of one attention head; even.
    pub head_dim: usize,
    /// Query heads; a multiple of `kv_heads`.
    pub heads: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Transformer layers.
    pub layers: usize,
    /// Epsilon of the root-mean-square norms.
    pub norm_epsilon: f32,
    /// Stretch of the rotary frequencies; `None` leaves them as they are.
    pub rope_scaling: Option<Scaling>,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// Whether the embedding table is also the output projection.
    pub tied_embeddings: bool,
    /// Number of tokens.
    pub vocabulary: usize,
}

impl Config {
    /// Reads `config.json` of `directory` and, if it is there, `generation_config.json`, whose end tokens win.
    ///
    /// # Errors
    /// [`ConfigError`]: no such directory or file, not a Llama, or a feature that the engine does not compute.
    pub fn load(directory: &Path) -> Result<Self, ConfigError> {
        if !directory.is_dir() {
            return Err(ConfigError::NoDirectory { path: directory.to_owned() });
        }
        let written: WrittenConfig = parse(&directory.join("config.json"))?;
        let mut config = written.into_config()?;
        let generation = directory.join("generation_config.json");
        if generation.is_file() {
            let written: WrittenGeneration = parse(&generation)?;
            config.end_tokens = written.end_tokens().unwrap_or(config.end_tokens);
        }
        Ok(config)
    }

    /// Rank `rank`'s part in a group of `size`.
    ///
    /// # Errors
    /// [`ConfigError::Rank`] or [`ConfigError::TooFew`].
    pub fn shard(&self, rank: usize, size: usize) -> Result<Shard, ConfigError> {
        if rank >= size {
            return Err(ConfigError::Rank { rank, size });
        }
        let counts = [Pieces::KvHeads, Pieces::FeedForward, Pieces::Vocabulary]
            .map(|pieces| (pieces, self.pieces(pieces, size)));
        if let Some((pieces, count)) = counts.into_iter().find(|(_, count)| *count < size) {
            return Err(ConfigError::TooFew { pieces, count, size });
        }
        let [kv_heads, blocks, tokens] = counts.map(|(_, count)| share(count, [rank, size]));
        let (heads, kv_heads) = (kv_heads.len() * (self.heads / self.kv_heads), kv_heads.len());
        let feed_forward = blocks.len() * self.block(size);
        let (first_token, tokens) = (tokens.start, tokens.len());
        Ok(Shard { rank, size, heads, kv_heads, feed_forward, first_token, tokens })
    }

    /// The key and value heads of rank `rank` in a group of `size`; none if there is no such rank.
    #[must_use]
    pub fn kv_heads_of(&self, rank: usize, size: usize) -> Range<usize> {
        if rank < size { share(self.kv_heads, [rank, size]) } else { 0..0 }
    }

    /// How many pieces there are for a group of `size`.
    fn pieces(&self, pieces: Pieces, size: usize) -> usize {
        match pieces {
            Pieces::KvHeads => self.kv_heads,
            Pieces::FeedForward => self.feed_forward / self.block(size),
            Pieces::Vocabulary => self.vocabulary,
        }
    }

    /// Columns of a piece of the feed-forward layer: a power of two, so that a rank's part keeps to the widths of vectors, where there is
    /// such a piece for each rank.
    fn block(&self, size: usize) -> usize {
        let most = self.feed_forward.trailing_zeros().min(4);
        (0..=most).rev().map(|bits| 1 << bits).find(|block| self.feed_forward / block >= size).unwrap_or(1)
    }

    /// Which of `whole` rows or columns a rank has, of a matrix that is shared out by these pieces.
    pub(super) fn part(&self, whole: usize, pieces: Pieces, shard: Shard) -> Range<usize> {
        let count = self.pieces(pieces, shard.size);
        let Range { start, end } = share(count, [shard.rank, shard.size]);
        start * (whole / count)..end * (whole / count)
    }
}

/// What a matrix is shared out by: a piece stays whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pieces {
    /// A key and value head, with the query heads that attend to it.
    KvHeads,
    /// Columns of the feed-forward layer.
    FeedForward,
    /// Rows of the output projection, one a token.
    Vocabulary,
}

impl fmt::Display for Pieces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::KvHeads => "num_key_value_heads",
            Self::FeedForward => "blocks of intermediate_size",
            Self::Vocabulary => "vocab_size",
        })
    }
}

/// Rank `rank`'s pieces in a group of `size`: as many as any other's, or one more or less.
fn share(pieces: usize, [rank, size]: [usize; 2]) -> Range<usize> {
    pieces * rank / size..pieces * (rank + 1) / size
}

/// One rank's part of a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shard {
    /// This rank.
    pub rank: usize,
    /// Ranks in the group.
    pub size: usize,
    /// Query heads of one rank.
    pub heads: usize,
    /// Key and value heads of one rank.
    pub kv_heads: usize,
    /// Feed-forward columns of one rank.
    pub feed_forward: usize,
    /// The first of the tokens that it computes logits for.
    pub first_token: usize,
    /// How many those are.
    pub tokens: usize,
}

/// Why a directory is not a model that this engine can run on this group; all are the configuration's fault.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Two fields contradict each other, or one is out of range.
    #[error("config.json: {reason}")]
    Invalid {
        /// What does not fit.
        reason: String,
    },
    /// A file is not the JSON that it should be.
    #[error("{}: {source}; it should be a Hugging Face Llama's", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's complaint.
        source: serde_json::Error,
    },
    /// The model directory is not there.
    #[error("no model directory at {}; give a directory with config.json and model.safetensors", path.display())]
    NoDirectory {
        /// The directory asked for.
        path: PathBuf,
    },
    /// The rank does not exist in its group.
    #[error("rank {rank} is not in a group of {size}; ranks count from 0")]
    Rank {
        /// The rank asked for.
        rank: usize,
        /// Ranks in the group.
        size: usize,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's complaint.
        source: io::Error,
    },
    /// There is not one piece of the model for each rank.
    #[error("a group of {size} cannot share {pieces} = {count}; use {count} ranks at most")]
    TooFew {
        /// What is shared out.
        pieces: Pieces,
        /// How many of them there are.
        count: usize,
        /// Ranks in the group.
        size: usize,
    },
    /// The model needs something that the engine does not compute.
    #[error("config.json: {field} = {value} is not supported; supported: {supported}")]
    Unsupported {
        /// Field of config.json.
        field: &'static str,
        /// Its value.
        value: String,
        /// What would be accepted.
        supported: &'static str,
    },
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let text =
        std::fs::read(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|source| ConfigError::Malformed { path: path.to_owned(), source })
}
