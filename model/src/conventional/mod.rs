//! The conventional design: replicated schedulers with conditional collectives, as disaggregated decode engines have it. One loop, one
//! table of rules, and variants that each change a row of it: the negative controls of the checker, and the early-outs that are safe.
//!
//! ```text
//!   ┌▶ Requests ──▶ HandshakePoll ──▶ admit ──▶ TransferPoll ──▶ run or idle ─┐
//!   │  broadcast    MIN, may be        a page     MIN, may be     Forward, on  │
//!   │  of rank 0    skipped                       skipped         the device   │
//!   └───────── wait for the forward (normal), or for the one before (overlap) ◀┘
//! ```
//! Agreed state is compared when the last poll of a turn has completed, before the run decision, and again after the next requests.
//!
//! Reading order: [`site`] (where ranks meet), [`request`] (what a rank knows of a request), [`rules`] (the table), [`rank`] (the loop, and its `guards` by name),
//! [`surroundings`] (what may happen to a rank), [`hazards`] (what must come out).

mod guards;
pub mod hazards;
pub mod rank;
pub mod request;
pub mod rules;
pub mod site;
pub mod surroundings;
mod witnesses;

pub use hazards::{Hazard, variants};
pub use rank::ConventionalRank;
pub use rules::Variant;
pub use site::Site;
pub use surroundings::{ConventionalSetting, Surroundings, model};
