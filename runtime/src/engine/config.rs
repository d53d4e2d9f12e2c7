//! Configuration of a model directory: `config.json` as Hugging Face writes it, turned into what the engine means.
//!
//! Read first when a model is loaded. Everything the engine cannot compute exactly is refused here, by name.

mod written;

use std::io;
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
    /// [`ConfigError::Rank`] or [`ConfigError::Indivisible`].
    pub fn shard(&self, rank: usize, size: usize) -> Result<Shard, ConfigError> {
        if rank >= size {
            return Err(ConfigError::Rank { rank, size });
        }
        let part = |what, whole: usize| match whole.is_multiple_of(size) {
            true => Ok(whole / size),
            false => Err(ConfigError::Indivisible { what, whole, size }),
        };
        Ok(Shard {
            rank,
            size,
            heads: part("num_attention_heads", self.heads)?,
            kv_heads: part("num_key_value_heads", self.kv_heads)?,
            feed_forward: part("intermediate_size", self.feed_forward)?,
        })
    }
}

/// One rank's part of a model: heads `rank * heads ..` and likewise for the other two.
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
}

/// Why a directory is not a model that this engine can run on this group; all are the configuration's fault.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The group's size does not divide a count of the model.
    #[error("a group of {size} cannot share {what} = {whole} evenly; use a size that divides it")]
    Indivisible {
        /// Field of config.json.
        what: &'static str,
        /// Its value.
        whole: usize,
        /// Ranks in the group.
        size: usize,
    },
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
