//! What the tests of this package share: a started program, an HTTP client without cleverness, the reference answers.
//!
//! Reading order: [`server`] (a `lockstep serve` as a child of the test), [`http`], [`process`], [`golden`], [`places`]. The tests are in `tests/`:
//! `deployment` (real ranks), `frontend` (mock ranks), `engine` and `oracle` (the model), `structure` (the tree), `proof` (the record).

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

pub mod golden;
pub mod http;
pub mod places;
pub mod process;
pub mod sample;
pub mod server;
pub mod standin;
