//! The ranks that the supervisor starts itself, on its own machine, with their sockets in a directory of each epoch.

use std::io;
use std::path::PathBuf;

use super::epoch::EpochDirectory;
use super::evidence::Evidence;
use super::process::RankProcess;
use super::say;
use crate::launch::RankArguments;
use lockstep_spec::ids::Epoch;

/// What to start.
#[derive(Clone, Debug)]
pub struct StartPlan {
    /// The executable of the rank processes.
    pub program: PathBuf,
    /// The ranks of both groups; epoch and run directory are filled in here.
    pub ranks: Vec<RankArguments>,
    /// Directory of the run, for a directory of each epoch.
    pub run_directory: PathBuf,
    /// Where the evidence of losses is kept.
    pub evidence: Evidence,
}

/// Starts ranks.
#[derive(Debug)]
pub(crate) struct Nursery {
    plan: StartPlan,
    directory: Option<(Epoch, EpochDirectory)>,
}

impl Nursery {
    /// Nothing is started yet.
    pub(crate) fn new(plan: StartPlan) -> Self {
        Self { plan, directory: None }
    }

    /// The ranks to start.
    pub(crate) fn ranks(&self) -> Vec<RankArguments> {
        self.plan.ranks.clone()
    }

    /// Starts a rank in an epoch. With the first one of it, the sockets of the epoch before go with its directory.
    pub(crate) fn start(&mut self, arguments: RankArguments, epoch: Epoch) -> io::Result<RankProcess> {
        let name = arguments.plan.name();
        let directory = match &self.directory {
            Some((of, directory)) if *of == epoch => directory,
            Some(_) | None => {
                self.directory = None;
                &self.directory.insert((epoch, EpochDirectory::create(&self.plan.run_directory, epoch)?)).1
            }
        };
        let arguments = arguments.of_epoch(epoch, directory.path());
        RankProcess::start(name, &self.plan.program, &arguments.command_line())
    }

    /// Keeps what the ranks left, before their directory goes.
    pub(crate) fn keep_evidence(&self) {
        let Some((epoch, directory)) = &self.directory else { return };
        match self.plan.evidence.keep(directory.path(), *epoch) {
            Ok(None) => {}
            Ok(Some(bundle)) => say(&format!("lockstep: the ranks' last lines are in {}", bundle.display())),
            Err(error) => say(&format!("lockstep: the ranks' last lines can not be kept: {error}")),
        }
    }
}
