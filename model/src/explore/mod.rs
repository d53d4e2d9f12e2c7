//! Exhaustive exploration of a `stateright::Model`, and what can be said of the graph it finds.
//!
//! ```text
//! init_states ─▶ search ──block──▶ expand (all threads) ──harvests──▶ merge ─▶ Exploration
//!                  ▲                 looks into `seen`                  │ gives ids      │
//!                  └──────────────── next level ◀───────────────────────┘                ▼
//!                                                          graph ─▶ liveness: trapped states, fair cycles
//! ```
//!
//! Reading order: `model` (what a model offers), `search`, `tally` and `level`, `observe` (who looks on), `expand`, `seen` and
//! `fingerprint`, `trail`, `snapshot` (a search that goes on in another process); then
//! `graph`, `components`, `cycles`, `liveness`; `forecast` and `wander` are for what is too large to exhaust, `cover` for what is small enough to be
//! gone through as a whole; `agreement` is the
//! second opinion; `erased` lets many types of model share all of this.
//!
//! What is promised: no cap unless asked for, and then no verdict when it is reached; the same counts and the same
//! counterexample with any number of threads; the counterexample is a shortest one, and among those the first by
//! action order. States are told apart by 128-bit fingerprints; [`collision_bound`] says how likely that is wrong.

mod agreement;
mod components;
mod cover;
mod cycles;
mod erased;
mod error;
mod event;
mod expand;
mod fingerprint;
mod forecast;
mod graph;
mod level;
mod liveness;
mod model;
mod notes;
mod observe;
mod search;
mod seen;
mod snapshot;
mod tally;
mod trail;
mod wander;

#[cfg(test)]
mod tests;

pub use agreement::{Disagreement, agree_with_stateright};
pub use cover::{Tours, drawn, tours, ways_to_points};
pub use erased::{AnyAction, AnyState, Erased};
pub use error::ExploreError;
pub use event::{Collective, Happening, StepEvent};
pub(crate) use expand::message_of;
pub(crate) use fingerprint::fingerprint;
pub use fingerprint::{Fingerprinter, collision_bound};
pub use forecast::forecast;
pub(crate) use forecast::{real, rounded};
pub(crate) use liveness::goal_in_reach;
pub use liveness::{Stall, explore_live, idle_marks, stall, turning_point};
pub use model::{Explorable, Lane, Live, Obligation, StateMarks, StepMarks, WAITS_IN};
pub use notes::{MOST_NOTES, Notes};
pub use observe::{Observer, Pulse};
pub use search::{Counts, End, Exploration, Settings, Unknown, explore};
pub use snapshot::{Keeper, Resumed, Snapshot};
pub use trail::{Trail, Walk};
pub(crate) use trail::{actions, steps};
pub use wander::{Wandered, wander};
