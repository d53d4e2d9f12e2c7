//! CPU engine: one rank's share of a Llama forward pass, tensor-parallel by heads, greedy.
//!
//! The driver hands it a batch that every rank of the group has agreed on; it answers with one token a row.
//!
//! ```text
//!  rows ──► batch ──► embed ──► layer × n ────────────────────────► norm ──► lm_head ──► greedy ──► tokens
//!           (checks)            attention ─ all-reduce                (last position
//!                                   │                                  of each row)
//!                               feed-forward ─ all-reduce
//!                                   │
//!                               KvCache (pages)
//! ```
//!
//! Promises, each with a test:
//! * two all-reduces a layer, over all rows together: `2 * layers` a batch and no others;
//! * batch-invariant: a row's bits depend on its own tokens alone, not on the other rows, on how its prompt was cut
//!   into chunks, or on whether a position came through prefill or decode;
//! * a batch that is refused is refused before the first collective, for reasons that are the same on every rank.
//!
//! Reading order: [`all_reduce`], [`config`], [`weights`], [`cache`], [`batch`], [`llama`] (then `attention`, `rope`,
//! `kernels`, [`greedy`]), [`text`] with [`detokenizer`].

pub mod all_reduce;
mod attention;
pub mod batch;
pub mod cache;
pub mod config;
pub mod detokenizer;
mod feed_forward;
pub mod greedy;
mod kernels;
pub mod llama;
mod rope;
pub mod text;
pub mod weights;

pub use all_reduce::{AllReduce, Alone, CollectiveError};
pub use batch::{ForwardError, Row};
pub use cache::{CacheError, KvCache};
pub use config::{Config, ConfigError};
pub use detokenizer::Detokenizer;
pub use greedy::Choice;
pub use llama::{Llama, ModelError};
pub use text::{Text, TextError};
pub use weights::WeightsError;
