//! The KV fabric between a prefill rank and its decode ranks: one stream for each pair, over a Unix socket or TCP; beside a Unix socket
//! pages may go through memory that both ends have mapped.
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
//! Over TCP the network is trusted, as for any collective library: nothing is encrypted, and who knows the pair's name may join.
//!
//! Reading order: `leg`, `error`, `address` (who is where), `socket`, `frame` (what is on the wire), `outbox` (how it gets there), `depot` (pages in shared memory),
//! `grants` (the fence), then the two ends `decode` and `prefill`, the
//! latter behind its `door`.

mod address;
mod decode;
mod depot;
mod door;
mod error;
mod frame;
mod grants;
mod leg;
mod outbox;
mod prefill;
mod retry;
mod socket;
#[cfg(test)]
mod tests;

pub use address::{Address, FabricKind, Finder};
pub use decode::{Caller, DecodeFabric};
pub use error::FabricError;
pub use frame::FabricLimits;
pub use grants::{DecodeInbound, LegFailure};
pub use leg::{Leg, Pair, Row};
pub use prefill::{PrefillFabric, PrefillInbound, PrefillLink};
pub use retry::Retry;
