//! What people see: one line a run, and counterexamples they can read.
//!
//! Reading order: `story` (a counterexample as data), `table` (its drawing), `words` (styles and wrapping), `line`.

mod line;
mod story;
mod table;
mod words;

#[cfg(test)]
mod tests;

pub use line::{RunLine, grouped, run_line, summary_line};
pub use story::{Scene, Story};
pub use table::draw;
