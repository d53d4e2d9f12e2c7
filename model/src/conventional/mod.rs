//! The conventional design: replicated schedulers with conditional collectives, as disaggregated decode engines have it. One loop, one
//! table of rules, and variants that each change a row of it: the negative controls of the checker, and the early-outs that are safe.
//!
//! ```text
//!   ┌▶ Requests ──▶ HandshakePoll ──▶ admit ──▶ TransferPoll ──▶ CacheDrain ──▶ run or idle ─┐
//!   │  broadcast    MIN, may be        a page     MIN, may be     MIN of counts,  Forward, on  │
//!   │  of rank 0    skipped                       skipped         if copied       the device   │
//!   └──────────────── wait for the forward (normal), or for the one before (overlap) ◀────────┘
//! ```
//! Agreed state is compared when the last poll of a turn has completed, before the run decision, and again after the next requests.
//!
//! Reading order: [`site`] (where ranks meet), [`request`] (what a rank knows of a request), [`rules`] (the table), [`variant`] (who
//! changes which row), [`rank`] (the loop) with [`fact`], `polls`, `pages`, `batch` and `cache`; [`surroundings`] and `facts` (what may
//! happen to a rank), `guards` (by name, for drawings), [`hazards`] (what must come out).

mod batch;
mod cache;
pub mod fact;
mod facts;
mod guards;
pub mod hazards;
mod pages;
mod polls;
pub mod rank;
pub mod request;
pub mod rules;
pub mod site;
pub mod surroundings;
pub mod variant;
mod witnesses;

pub use hazards::{Hazard, variants};
pub use rank::ConventionalRank;
pub use site::Site;
pub use surroundings::{ConventionalSetting, Surroundings, model};
pub use variant::Variant;
