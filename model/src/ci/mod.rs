//! The checker as a gate: what a run leaves behind, and the forms in which other tools read it.
//!
//! ```text
//!                    shard: which runs this machine makes
//!                      │
//!  Performed ─▶ Certificate ─▶ one JSON file a run ─▶ merge: is every run there, once, from these sources, and ok?
//!                      └─────▶ junit, sarif, github: for dashboards, code scanning and pull requests
//! ```
//!
//! Reading order: `certificate`, `counterexample`, `shard`, `merge`; then the forms. Everything here is text and data; the binary reads
//! and writes the files.

mod certificate;
mod counterexample;
mod github;
mod junit;
mod merge;
mod sarif;
mod shard;

pub use certificate::{
    Certificate, Effort, Expected, Fingerprints, Numbers, Place, RecordedNumbers, SCHEMA, Size, Witnesses,
};
pub use counterexample::{Counterexample, Step};
pub use github::{annotations, step_summary};
pub use junit::junit;
pub use merge::{Findings, Source, merge};
pub use sarif::sarif;
pub use shard::{Asked, Shard, ShardError};
