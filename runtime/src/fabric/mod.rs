//! The KV fabric between a prefill rank and its decode rank: one Unix stream socket.
//!
//! ```text
//!   decode rank                                            prefill rank
//!   hello(leg) ───────────────── Hello ──────────────────▶ (answered here)
//!   HandshakeReady ◀──────────── HelloAck ────────────────
//!   publish(leg, pages) ───────▶ List ───────────────────▶ sink(List)
//!     opens the grant
//!   sink(Page), sink(Row) ◀───── Page.. Row ────────────── write_page.., write_row
//!     under a live grant only                              sink(Written) once the kernel has the row
//!   revoke(leg) ───────────────▶ Revoke (best effort) ───▶ sink(Revoked)
//!     closes the grant: the fence
//! ```
//!
//! The fabric moves bytes and reports facts. It orders nothing, retries no leg and judges no row:
//! that is the work of spec's machines. What it does guarantee: after `revoke` has returned, no
//! write of that leg reaches the sink, whatever the peer does; and a dead connection is reported
//! for every leg that depended on it.
//!
//! Reading order: `leg`, `error`, `frame` (what is on the wire), `outbox` (how it gets there),
//! `grants` (the fence), then the two ends `decode` and `prefill`, the
//! latter behind its `door`.

mod decode;
mod door;
mod error;
mod frame;
mod grants;
mod leg;
mod outbox;
mod prefill;
#[cfg(test)]
mod tests;

pub use decode::{DecodeFabric, Retry};
pub use error::FabricError;
pub use frame::FabricLimits;
pub use grants::{DecodeInbound, LegFailure};
pub use leg::{Leg, Row};
pub use prefill::{PrefillFabric, PrefillInbound};
