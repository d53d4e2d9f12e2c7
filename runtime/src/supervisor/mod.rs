//! The supervisor: starts the rank processes of both groups, watches them, starts them anew, and leaves none behind.
//!
//! ```text
//!   Supervisor::run ─ start ─▶ process (one task a rank: output, end) ─ Exited ─────┐
//!        ▲      └─ accept ───▶ link (one task a connection: hello, both ways) ─ LinkEnded ─┤
//!        └──────────────── one queue of events, a tick, the stop order ◀────────────┘
//!   a death, a Fatal, a silence ─▶ EpochWatch: End ─▶ the rest ends, or is killed ─▶ Gone ─▶ the next epoch, or none
//! ```
//! A rank dies with the front end: it asks the kernel for that itself (`deathwatch`), before anything else.
//! Reading order: `plan`, `run_directory`, `deathwatch`, `process`, `link`, `epoch_watch` and `restarts` (what follows from what, without
//! I/O), `epoch`, `supervise`, `stop`.

mod console;
mod deathwatch;
mod epoch;
mod epoch_watch;
mod evidence;
mod link;
mod plan;
mod process;
mod restarts;
mod run_directory;
mod stop;
mod supervise;

pub use console::{say, tell};
pub use deathwatch::{OrphanError, die_with};
pub use evidence::Evidence;
pub use plan::{Departure, Limits, SupervisorError, SupervisorPlan};
pub use run_directory::RunDirectory;
pub use stop::{Stop, on_signals};
pub use supervise::Supervisor;
