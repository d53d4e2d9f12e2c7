//! A rank's life, from its line to the front end to its end; `assembly` has what lies between.

use super::assembly::Rank;
use super::driver::Front;
use super::error::RankError;
use super::inputs::{Inbox, Input, Inputs};
use super::parting::{Parting, Word};
use super::recorder::Recorder;
use super::site::Site;
use crate::engine::{Backend, CpuBackend, DeviceBackend};
use crate::launch::{Enlisted, RankArguments, RankDevice, RankPlan, START_ANEW};
use crate::proved::{self, Class};
use crate::supervisor::say;
use crate::wire::{RankEnd, RankReceiver, Role};
use lockstep_kernels::cuda::Cuda;
use lockstep_spec::ticket::Ticket;
use lockstep_spec::trace::Closing;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Longest silence of the front end's reader before it looks whether the rank still lives.
const READ_PATIENCE: Duration = Duration::from_secs(1);

/// How long a rank that has left waits for the word that says what follows: its group leaves as soon as one rank has heard it.
const PARTING: Duration = Duration::from_secs(2);

/// Runs a rank that the supervisor started until its group leaves or something ends it.
pub fn run(arguments: RankArguments) -> ExitCode {
    let plan = arguments.plan;
    match RankEnd::connect(&arguments.control_socket, plan.seat()) {
        Err(error) => {
            say(&format!("lockstep {}: {error}", plan.name()));
            ExitCode::FAILURE
        }
        Ok(line) => {
            let lived = Life::new(&plan, Site::OneMachine, plan.last_lines_file()).live(line);
            if lived.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

/// Runs a rank that a launcher started, as [`run`] does. Unless the deployment ends, it is to be started anew.
pub fn run_enlisted(enlisted: Enlisted) -> ExitCode {
    let Enlisted { plan, line, stand, evidence } = enlisted;
    let life = Life::new(&plan, Site::Apart(stand), evidence.join(plan.record_name()));
    match life.live(line).ok().and_then(|()| life.parting.wait(PARTING)) {
        Some(Word::ForGood) => ExitCode::SUCCESS,
        Some(Word::Again) | None => ExitCode::from(START_ANEW),
    }
}

/// This rank's share of the machine's cores, of which the ranks of both groups have as many.
fn threads(plan: &RankPlan) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores / (plan.size.saturating_add(plan.peers) as usize).max(1)).max(1)
}

/// Both directions of a rank's line to the front end.
struct Line<'a> {
    front: &'a Front,
    inbox: Inbox,
    inputs: Inputs,
}

/// A rank's one life: from its line to the front end to its end.
pub(super) struct Life<'a> {
    pub(super) plan: &'a RankPlan,
    pub(super) site: Site,
    pub(super) recorder: Arc<Recorder>,
    /// The file for its last lines.
    last_lines: PathBuf,
    parting: Arc<Parting>,
}

impl<'a> Life<'a> {
    fn new(plan: &'a RankPlan, site: Site, last_lines: PathBuf) -> Self {
        Self { plan, site, recorder: Arc::default(), last_lines, parting: Arc::default() }
    }

    /// Lives, and tells the front end and standard error what ended it, if something did.
    fn live(&self, line: RankEnd) -> Result<(), RankError> {
        let RankEnd { sender, receiver } = line;
        let front = Front::new(sender);
        let mut last_ticket = None;
        let lived = self.serve(&front, receiver, &mut last_ticket);
        self.recorder.closed(match &lived {
            Ok(()) => Closing::Left,
            Err(error) => Closing::Failed(error.to_string()),
        });
        if lived.is_err() || self.site.keeps_all() {
            self.leave_record();
        }
        if let Err(error) = &lived {
            tell_end(self.plan, &front, error, last_ticket);
        }
        lived
    }

    fn serve(
        &self,
        front: &Front,
        receiver: RankReceiver,
        last_ticket: &mut Option<Ticket>,
    ) -> Result<(), RankError> {
        let class = Class { role: self.plan.role, mode: self.plan.mode, ranks: self.plan.size };
        if !self.plan.unchecked {
            proved::require(&class).map_err(RankError::Unproved)?;
        }
        let (inbox, inputs) = Inputs::new(&self.recorder);
        read_front(receiver, inbox.clone(), Arc::clone(&self.parting))?;
        let line = Line { front, inbox, inputs };
        match self.plan.device {
            RankDevice::Cpu => self.serve_on(CpuBackend::new(threads(self.plan))?, line, last_ticket),
            RankDevice::Cuda { ordinal, kv_type, .. } => {
                self.serve_on(DeviceBackend::new(Cuda::open(ordinal)?, kv_type), line, last_ticket)
            }
        }
    }

    fn serve_on<B: Backend>(
        &self,
        backend: B,
        line: Line<'_>,
        last_ticket: &mut Option<Ticket>,
    ) -> Result<(), RankError> {
        let Line { front, inbox, inputs } = line;
        let rank = Rank::new(self, front, inbox, backend, last_ticket)?;
        match self.plan.role {
            Role::Decode => rank.decode(inputs, last_ticket),
            Role::Prefill => rank.prefill(inputs, last_ticket),
        }
    }

    /// Leaves the last lines where somebody looks for them after a loss.
    fn leave_record(&self) {
        let path = &self.last_lines;
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = made.and_then(|()| self.recorder.leave(path)) {
            say(&format!("lockstep {}: {} could not be written: {error}", self.plan.name(), path.display()));
        }
    }
}

fn tell_end(plan: &RankPlan, front: &Front, error: &RankError, last_ticket: Option<Ticket>) {
    let entered = last_ticket.map_or("no collective".to_string(), |ticket| ticket.to_string());
    say(&format!("lockstep {}: {error} (this rank last entered {entered})", plan.name()));
    // A front end that is gone cannot be told, and need not be.
    let _gone = front.send(&error.last_words(last_ticket));
}

/// Starts the thread that reads what the front end says.
fn read_front(mut receiver: RankReceiver, inbox: Inbox, parting: Arc<Parting>) -> Result<(), RankError> {
    start("front end's reader", move || {
        loop {
            let input = match receiver.receive(READ_PATIENCE) {
                Ok(None) => continue,
                Ok(Some(message)) => Input::Front(message),
                Err(error) => Input::FrontGone(error),
            };
            parting.note(&input);
            let last = matches!(input, Input::FrontGone(_));
            if inbox.send(input).is_err() || last {
                return;
            }
        }
    })
}

/// Starts a thread of this rank.
pub(super) fn start(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), RankError> {
    let guarded = move || {
        let _guard = AbortOnPanic;
        body();
    };
    let started = thread::Builder::new().name(name.to_string()).spawn(guarded);
    started.map(drop).map_err(|error| RankError::Thread(name, error))
}

/// A thread that panics takes the rank with it: a rank that lacks one of its threads would wait for ever, and look healthy.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
