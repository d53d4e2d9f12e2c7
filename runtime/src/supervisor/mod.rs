//! The supervisor: starts the rank processes of both groups, watches them, starts them anew, and leaves none behind. Or launchers start
//! them, on whichever machines: then it gives those that have come their epoch, watches their connections, and waits for others.
//!
//! ```text
//!   Supervisor::run ─ start ─▶ process (one task a rank: output, end) ─ Exited ─────┐
//!        ▲      └─ accept ───▶ link (one task a connection: hello, both ways) ─ LinkEnded ─┤
//!        └──────────────── one queue of events, a tick, the stop order ◀────────────┘
//!        └── accept ───▶ recruit (of a launcher) ─ Enlisted ─▶ anteroom ─ all are there ─▶ as a link
//!   a death, a Fatal, a silence ─▶ EpochWatch: End ─▶ the rest ends, or is killed ─▶ Gone ─▶ the next epoch, or none
//! ```
//! A rank dies with the front end: it asks the kernel for that itself (`deathwatch`), before anything else.
//! Reading order: `plan`, `muster` with `nursery` (ranks started here) and `anteroom` (ranks of launchers), `run_directory`, `deathwatch`,
//! `process`, `link`, `recruit`, `epoch_watch` and `restarts` (what follows from what, without
//! I/O), `epoch`, `supervise`, `stop`.

mod anteroom;
mod console;
mod deathwatch;
mod epoch;
mod epoch_watch;
mod event;
mod evidence;
mod link;
mod muster;
mod nursery;
mod plan;
mod process;
mod recruit;
mod restarts;
mod run_directory;
mod stop;
mod supervise;

pub use anteroom::CallPlan;
pub use console::{say, tell};
pub use deathwatch::{OrphanError, die_with};
pub use evidence::Evidence;
pub use muster::Muster;
pub use nursery::StartPlan;
pub use plan::{Departure, Limits, SupervisorError, SupervisorPlan};
pub use run_directory::RunDirectory;
pub use stop::{Stop, on_signals};
pub use supervise::Supervisor;
