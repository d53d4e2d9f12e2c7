//! What people see: one line a run, and counterexamples they can read.
//!
//! Reading order: `story` (a counterexample as data), `diverged` (where lanes decide differently) with `evidence`, `table` (its drawing) with `row` and
//! `band` and `leaves` (of a value, what changed), `words` (styles and wrapping), `line`.

mod band;
mod diverged;
mod evidence;
mod leaves;
mod line;
mod row;
mod story;
mod table;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use leaves::{leaves, top_level};

pub use diverged::{Decision, Diverged, diverged, together};
pub use line::{RunLine, gaps_line, grouped, narrow_lines, run_line, summary_line};
pub use story::{Change, Scene, Story};
pub use table::{Drawing, draw};
