//! Counterexamples outside the terminal: the trace file, its drawings, and its replay.

#![expect(clippy::unwrap_used, reason = "a test")]

mod bands;
mod command;
mod file;
mod formats;
mod generated;
mod guards;
mod support;
mod way;
