//! Runs: which models are checked, what they must find, and what is recorded of it.
//!
//! ```text
//! registry ──▶ session ──▶ runner ──▶ explore        judge: found against expected, counted against recorded
//!                 │                                     │
//!                 └──▶ Performed ◀──────────────────────┘──▶ report (a line, a counterexample), ci (a certificate)
//!                          └──▶ record ──▶ manifest runs.toml, checks CHECKS.md, proved proved.json, levels.toml
//! ```
//!
//! Reading order: `registry` (the list), `run`, `runner`, `retrace`, `visit`, `outcome`, `judge`, `session`; then `listing`, `manifest`,
//! `checks`, `proved`, `levels`, `record`.

mod checks;
mod coverage_table;
mod effort;
mod hazard_table;
mod judge;
mod levels;
mod listing;
mod manifest;
mod outcome;
mod proved;
mod record;
mod registry;
mod retrace;
mod run;
mod runner;
mod session;
mod visit;

#[cfg(test)]
mod tests;

pub use checks::{checks_text, class_text, tier_text};
pub use effort::Effort;
pub use hazard_table::protection;
pub use judge::{Failure, give_up, judge_counts, judge_expectation, judge_fault, judge_verdict};
pub use levels::{Foreseen, Levels, widest_of};
pub use listing::Registry;
pub use manifest::{Manifest, ManifestError, Record, Recorded, RecordedExpect, Stated, expectation};
pub use outcome::{Exit, Kind, Outcome, Sampled, Scope, Verdict};
pub use proved::{Proved, ProvedClass};
pub use record::{Places, RecordError, files, recorded, stale, write};
pub use registry::registry;
pub use retrace::{Retraced, Script, ScriptStep, Stop};
pub use run::{Class, Expect, Mode, PropertyDoc, Purpose, Ranks, Role, Run, Tier};
pub use runner::{ASSERTION, Progress, Runner, Safety};
pub use session::{Performed, expect_text};
pub use visit::{Offer, Outlook, Visit};
