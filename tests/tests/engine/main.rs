//! The engine on a real model, through its public API only: the same tokens as the reference, the same bits however a
//! batch is put together, and a clear refusal of everything that does not fit.

#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod bad_input;
mod batch;
mod common;
mod device;
mod formats;
mod golden;
mod paging;
mod text;
