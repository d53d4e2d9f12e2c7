//! One rank process: the rank loop on the main thread, the device on a thread of its own, and what feeds them.
//!
//! ```text
//!  front end ──▶ reader ──┐                                   ┌──▶ front end (tokens, ends, progress)
//!  KV fabric ──▶ sink   ──┼──▶ inputs ──▶ rank loop ─▶ machine┼──▶ KV fabric (hello, publish, revoke)
//!  device    ──▶ reports ─┘                  │  ▲             └──▶ device (forwards, page traffic)
//!                                            ▼  │
//!                                  control collectives (one vote a round)
//! ```
//! The loop's turn is fixed: drain inputs, step, perform effects, park. It has no branch on protocol state: what a rank does follows
//! from the machine of spec alone.
//!
//! Reading order: `driver` (the turn), `hands` (what a role adds), `decode` and `prefill` (the two roles), `gathering` (of several peers), `device`, `flights` (what it has yet to answer), `landing` (pages
//! that come), `pacing`, `recorder`,
//! `start`, `assembly`, `site`, `opening`, `meeting` and `parting` (how all of it comes together, and ends); `collective` is the way to the
//! group's transport; `rehearsal` leads the loop along a written trace.

mod assembly;
mod collective;
mod decode;
mod device;
mod driver;
mod error;
mod flights;
mod gathering;
mod hands;
mod inputs;
mod landing;
mod meeting;
mod opening;
mod pacing;
mod parting;
mod prefill;
mod recorder;
mod rehearsal;
mod site;
mod start;

pub use rehearsal::{Departure, rehearse};
pub use start::{run, run_enlisted};
