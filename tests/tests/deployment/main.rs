//! Whole deployments from outside: the shipped program, real ranks, the bundled model, HTTP.
//!
//! `answers` (what clients get), `leaving` (clients that go), `losses` (ranks that die), `starts` (wrong starts, orderly ends, the demo).

#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod answers;
mod common;
mod leaving;
mod losses;
mod starts;
