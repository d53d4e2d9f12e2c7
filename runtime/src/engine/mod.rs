//! The engine: one rank's share of a Llama forward pass, tensor-parallel by heads, on a CPU or a device.
//!
//! The driver hands it a batch that every rank of the group has agreed on; it answers with one token a row.
//!
//! ```text
//!  rows ──► batch ──► embed ──► norm ──► layer × n ─────────────────────────────► lm_head ──► choose ──► tokens
//!           (checks)                     attention ─ all-reduce ─ add, norm      (last position   (minimum
//!                                            │                                    of each row)    over ranks)
//!                                        feed-forward ─ all-reduce ─ add, norm
//!                                            │
//!                                        KvCache (pages)
//! ```
//! Each step is an operation of a [`Backend`]: [`CpuBackend`] computes in plain Rust, [`DeviceBackend`] with the CUDA
//! kernels. **The latter has never run on a GPU.**
//!
//! Promises, each with a test:
//! * two sums a layer, over all rows together, and one minimum of the ranks' bids for tokens: `2 * layers + 1` all-reduces a
//!   batch and no others;
//! * batch-invariant: a row's bits depend on its own tokens alone, not on the other rows, on how its prompt was cut
//!   into chunks, or on whether a position came through prefill or decode;
//! * a batch that is refused is refused before the first collective, for reasons that are the same on every rank.
//!
//! Reading order: [`all_reduce`], [`config`], [`weights`], [`cache`], [`batch`], [`backend`], [`llama`] (then `layer`,
//! `activations`, `captured`, `loader`, `rope`), `bid`, [`cpu`], [`device`], [`greedy`], [`text`] with [`detokenizer`].

mod activations;
pub mod all_reduce;
pub mod backend;
pub mod batch;
mod bid;
pub mod cache;
mod captured;
pub mod config;
pub mod cpu;
pub mod detokenizer;
pub mod device;
pub mod draw;
pub mod greedy;
mod layer;
pub mod llama;
mod loader;
pub mod recut;
mod rope;
pub mod text;
pub mod weights;

pub use all_reduce::{AllReduce, Alone, CollectiveError, OnDevices};
pub use backend::{Backend, BackendError};
pub use batch::{ForwardError, Row, Step};
pub use cache::{CacheError, KvCache};
pub use config::{Config, ConfigError};
pub use cpu::CpuBackend;
pub use detokenizer::Detokenizer;
pub use device::{CacheType, DeviceBackend};
pub use draw::Draw;
pub use greedy::Choice;
pub use llama::{Flight, Llama, ModelError};
pub use recut::Recut;
pub use text::{Text, TextError};
pub use weights::WeightsError;
