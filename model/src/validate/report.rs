//! What came of a group's traces.

use std::fmt;
use std::path::PathBuf;

use lockstep_spec::ids::Epoch;
use lockstep_spec::trace::{Closing, GroupName};
use serde::Serialize;

/// Traces that are one behaviour of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Which group.
    pub group: GroupName,
    /// Which life of it.
    pub epoch: Epoch,
    /// Rounds that every rank completed.
    pub rounds: u64,
    /// Lines that were taken.
    pub lines: u64,
    /// By rank: how its trace ends; none where it is cut off, as a killed process leaves it.
    pub endings: Vec<Option<Closing>>,
}

/// The first line at which traces leave the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Which group.
    pub group: GroupName,
    /// Which life of it.
    pub epoch: Epoch,
    /// The rank.
    pub rank: usize,
    /// Its round.
    pub round: u64,
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: u64,
    /// What it says, and why that is not a step of the model.
    pub happened: String,
    /// What the model allowed there.
    pub allowed: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, epoch, rounds, lines, endings } = self;
        let ranks = endings.len();
        write!(
            formatter,
            "{group} {epoch}: one behaviour of the model ({ranks} ranks, {rounds} rounds, {lines} lines)"
        )?;
        for (rank, ending) in endings.iter().enumerate() {
            match ending {
                Some(Closing::Left) => {}
                Some(Closing::Failed(why)) => {
                    write!(formatter, "\n  rank {rank} ended: {}", why.escape_debug())?
                }
                None => {
                    write!(formatter, "\n  rank {rank}'s trace is cut off, as when a process is killed")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, epoch, rank, round, path, line, happened, allowed } = self;
        writeln!(formatter, "{group} {epoch}: not a behaviour of the model")?;
        writeln!(formatter, "  rank {rank}, round {round}; {}, line {line}:", path.display())?;
        write!(formatter, "  {happened}")?;
        if allowed.is_empty() {
            Ok(())
        } else {
            write!(formatter, "\n  allowed there: {}", allowed.join(", "))
        }
    }
}
