//! Counterexamples outside the terminal: a file that holds one, its drawings for other tools, and its replay.
//!
//! ```text
//!  Performed ──▶ Trace ──▶ file (JSON) ──▶ Trace ──▶ formats (text, Mermaid, SVG, ShiViz, Chrome, ITF, a Rust test)
//!                  └─────────────────────────┴────▶ replay on this build's model ──▶ the same, or where it diverges
//! ```
//!
//! Reading order: `trace` (a counterexample with where it comes from), `file` (how it is written), `replay`, [`script`] (the same as a
//! Rust test), `formats`, one file a format; `way` (any path of a run, for whoever looks around in it).

mod file;
mod formats;
mod replay;
pub mod script;
mod trace;
mod way;

pub use file::TraceError;
pub use formats::{Format, refusal, render};
pub use replay::{Finding, Replay, replay};
pub use script::{Path, PathError, path};
pub use trace::Trace;
pub use way::{Choices, Way, WayError, build};
