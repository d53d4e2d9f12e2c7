//! How much effort a command may spend on a run, as options of its command line.

use std::time::Duration;

use clap::Args;

use crate::explore::Settings;

/// Options that bound an exploration.
// A name of its own: who flattens these options may well call its struct `Effort`, too, and clap refuses equal names.
#[derive(Args, Clone, Copy, Debug)]
#[group(id = "bounds")]
pub struct Effort {
    /// Threads; 0 means one for each core
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Effort")]
    pub threads: usize,
    /// Give a run up, without a verdict, after so many states
    #[arg(long, value_name = "N", help_heading = "Effort")]
    pub most_states: Option<u64>,
    /// Give a run up, without a verdict, after so many seconds
    #[arg(long, value_name = "N", help_heading = "Effort")]
    pub most_seconds: Option<u64>,
}

impl From<Effort> for Settings<'static> {
    fn from(effort: Effort) -> Self {
        let most_time = effort.most_seconds.map(Duration::from_secs);
        Self { threads: effort.threads, most_states: effort.most_states, most_time, ..Self::default() }
    }
}
