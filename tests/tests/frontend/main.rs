//! The front end from outside, around mock ranks: HTTP, deaths, wrong starts. What real ranks do is `deployment`'s.

#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;
mod completions;
mod launch;
mod losses;
mod restarts;
