//! `config.json` and `generation_config.json` as written, and the checks on the way to [`Config`].
//!
//! Only the fields that change the arithmetic are read. Files of transformers 5 put the rotary fields into
//! `rope_parameters`; older ones have `rope_theta` and `rope_scaling`.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::{Config, ConfigError};
use crate::engine::rope::Scaling;

/// Largest size in a configuration: exact as an `f32`, and the product of any two fits a `usize`.
const LARGEST_SIZE: usize = 1 << 24;

/// The fields of `config.json` that matter here.
#[derive(Debug, Deserialize)]
pub(super) struct WrittenConfig {
    model_type: Option<String>,
    hidden_act: Option<String>,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f32,
    rope_theta: Option<f32>,
    rope_scaling: Option<WrittenRope>,
    rope_parameters: Option<WrittenRope>,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    quantization_config: Option<Value>,
    eos_token_id: Option<WrittenTokens>,
}

/// The field of `generation_config.json` that matters here.
#[derive(Debug, Deserialize)]
pub(super) struct WrittenGeneration {
    eos_token_id: Option<WrittenTokens>,
}

#[derive(Debug, Deserialize)]
struct WrittenRope {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f32>,
    factor: Option<f32>,
    low_freq_factor: Option<f32>,
    high_freq_factor: Option<f32>,
    original_max_position_embeddings: Option<f32>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum WrittenTokens {
    One(u32),
    Many(BTreeSet<u32>),
}

impl WrittenGeneration {
    /// The end tokens, if the file names any.
    pub(super) fn end_tokens(self) -> Option<Vec<u32>> {
        self.eos_token_id.map(WrittenTokens::into_vec)
    }
}

impl WrittenTokens {
    fn into_vec(self) -> Vec<u32> {
        match self {
            Self::One(token) => vec![token],
            Self::Many(tokens) => tokens.into_iter().collect(),
        }
    }
}

impl WrittenConfig {
    /// The checked meaning of the file.
    pub(super) fn into_config(self) -> Result<Config, ConfigError> {
        self.check_architecture()?;
        self.check_sizes()?;
        let head_dim = self.head_dim()?;
        let kv_heads = self.kv_heads();
        let rope = self.rope_parameters.or(self.rope_scaling);
        let nested_theta = rope.as_ref().and_then(|rope| rope.rope_theta);
        let rope_theta = nested_theta.or(self.rope_theta).or(Some(10_000.0));
        Ok(Config {
            context: self.max_position_embeddings,
            end_tokens: self.eos_token_id.map(WrittenTokens::into_vec).unwrap_or_default(),
            feed_forward: self.intermediate_size,
            head_dim,
            heads: self.num_attention_heads,
            hidden: self.hidden_size,
            kv_heads,
            layers: self.num_hidden_layers,
            norm_epsilon: self.rms_norm_eps,
            rope_scaling: rope.map(WrittenRope::into_scaling).transpose()?.flatten(),
            rope_theta: positive("rope_theta", rope_theta)?,
            tied_embeddings: self.tie_word_embeddings,
            vocabulary: self.vocab_size,
        })
    }

    fn check_architecture(&self) -> Result<(), ConfigError> {
        require("model_type", self.model_type.as_deref().unwrap_or("null"), "llama")?;
        require("hidden_act", self.hidden_act.as_deref().unwrap_or("silu"), "silu")?;
        require("attention_bias", &self.attention_bias.to_string(), "false")?;
        require("mlp_bias", &self.mlp_bias.to_string(), "false")?;
        match &self.quantization_config {
            None => Ok(()),
            Some(value) => require("quantization_config", &value.to_string(), "null"),
        }
    }

    fn check_sizes(&self) -> Result<(), ConfigError> {
        let sizes = [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.kv_heads()),
            ("vocab_size", self.vocab_size),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        if let Some((field, size)) = sizes.iter().find(|(_, size)| !(1..=LARGEST_SIZE).contains(size)) {
            return Err(invalid(format!("{field} = {size} is not in 1..={LARGEST_SIZE}")));
        }
        if !self.num_attention_heads.is_multiple_of(self.kv_heads()) {
            let (heads, kv_heads) = (self.num_attention_heads, self.kv_heads());
            return Err(invalid(format!(
                "num_attention_heads = {heads} is not a multiple of num_key_value_heads = {kv_heads}"
            )));
        }
        Ok(())
    }

    fn kv_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    fn head_dim(&self) -> Result<usize, ConfigError> {
        let (hidden, heads) = (self.hidden_size, self.num_attention_heads);
        if self.head_dim.is_none() && !hidden.is_multiple_of(heads) {
            return Err(invalid(format!(
                "hidden_size = {hidden} is not a multiple of num_attention_heads = {heads} and there is no head_dim"
            )));
        }
        match self.head_dim.unwrap_or(hidden / heads) {
            head_dim @ 2..=LARGEST_SIZE if head_dim.is_multiple_of(2) => Ok(head_dim),
            head_dim => {
                Err(invalid(format!("head_dim = {head_dim} is not an even number in 2..={LARGEST_SIZE}")))
            }
        }
    }
}

impl WrittenRope {
    fn into_scaling(self) -> Result<Option<Scaling>, ConfigError> {
        match self.rope_type.as_deref() {
            None | Some("default") => Ok(None),
            Some("llama3") => self.llama3().map(Some),
            Some(other) => Err(unsupported("rope_scaling.rope_type", other, "default, llama3")),
        }
    }

    fn llama3(&self) -> Result<Scaling, ConfigError> {
        let scaling = Scaling {
            factor: positive("rope_scaling.factor", self.factor)?,
            low_frequency_factor: positive("rope_scaling.low_freq_factor", self.low_freq_factor)?,
            high_frequency_factor: positive("rope_scaling.high_freq_factor", self.high_freq_factor)?,
            original_context: positive(
                "rope_scaling.original_max_position_embeddings",
                self.original_max_position_embeddings,
            )?,
        };
        match scaling.high_frequency_factor > scaling.low_frequency_factor {
            true => Ok(scaling),
            false => Err(invalid("rope_scaling: high_freq_factor must be above low_freq_factor".to_owned())),
        }
    }
}

fn positive(field: &str, value: Option<f32>) -> Result<f32, ConfigError> {
    value
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| invalid(format!("{field} must be there and above 0")))
}

fn require(field: &'static str, value: &str, supported: &'static str) -> Result<(), ConfigError> {
    match value == supported {
        true => Ok(()),
        false => Err(unsupported(field, value, supported)),
    }
}

fn unsupported(field: &'static str, value: &str, supported: &'static str) -> ConfigError {
    ConfigError::Unsupported { field, value: value.to_owned(), supported }
}

fn invalid(reason: String) -> ConfigError {
    ConfigError::Invalid { reason }
}
