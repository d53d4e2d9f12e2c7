//! The supervisor: starts the rank processes of both groups, watches them, and leaves none behind.
//!
//! ```text
//!   Supervisor::run ─ start ─▶ process (one task a rank: output, end) ─ Exited ─────┐
//!        ▲      └─ accept ───▶ link (one task a connection: hello, both ways) ─ LinkEnded ─┤
//!        └──────────────── one queue of events, a tick, the stop order ◀────────────┘
//!   a death, a Fatal, a silence ─▶ GroupWatch: lost ─▶ 8 s to end by themselves ─▶ kill ─▶ one report
//! ```
//! A rank dies with the front end: it asks the kernel for that itself (`deathwatch`), before anything else.
//! Reading order: `run_directory`, `deathwatch`, `process`, `link`, `group_watch`, `supervise`, `stop`.

mod console;
mod deathwatch;
mod group_watch;
mod link;
mod process;
mod run_directory;
mod stop;
mod supervise;

pub use console::{say, tell};
pub use deathwatch::{OrphanError, die_with};
pub use run_directory::RunDirectory;
pub use stop::{Stop, on_signals};
pub use supervise::{Departure, Limits, RankPlan, Supervisor, SupervisorError, SupervisorPlan};
