//! From a command line to a working rank: what is proved, the model, the communicators, the fabric, then the loop.

use super::decode::{DecodeHands, sink};
use super::device::{self, Device, Queue};
use super::driver::{Driver, Front};
use super::error::RankError;
use super::hands::Hands;
use super::inputs::{Inbox, Input, Inputs};
use super::meeting;
use super::pacing::{DEADLINE_TICKS, PEER_DEADLINE};
use super::parting::{Parting, Word};
use super::prefill::PrefillHands;
use super::recorder::Recorder;
use super::site::{Communicator, Site};
use crate::engine::Llama;
use crate::fabric::{FabricLimits, PrefillFabric};
use crate::group::{AnyMember, Forming};
use crate::launch::{Enlisted, Mode, RankArguments, RankPlan, START_ANEW};
use crate::proved::{self, Class};
use crate::supervisor::say;
use crate::wire::{RankEnd, RankReceiver, RankToFront, Role, Room};
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::ids::{Epoch, RankIndex, TokenId};
use lockstep_spec::machine::RankMachine;
use lockstep_spec::ticket::Ticket;
use lockstep_spec::trace::{Closing, FORMAT, GroupName, Header};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a group may take to form: its ranks load the model first.
const FORMING: Duration = Duration::from_secs(60);
/// Longest silence of the front end's reader before it looks whether the rank still lives.
const READ_PATIENCE: Duration = Duration::from_secs(1);
/// How long the device waits for room in the queue to a decode peer before it fails the leg: well below what its own peers wait for it.
const ENQUEUE_DEADLINE: Duration = Duration::from_secs(1);
/// Bytes of the longest control payload.
const CONTROL_BYTES: usize = 1 << 20;

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
    match (life.live(line), life.parting.wait(PARTING)) {
        (Ok(()), Some(Word::ForGood)) => ExitCode::SUCCESS,
        (Ok(()) | Err(_), _) => ExitCode::from(START_ANEW),
    }
}

/// A rank's one life: from its line to the front end to its end.
struct Life<'a> {
    plan: &'a RankPlan,
    site: Site,
    recorder: Arc<Recorder>,
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
        let rank = Rank::new(self, front, inbox)?;
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

fn header(plan: &RankPlan, configuration: &GroupConfiguration) -> Header {
    Header {
        format: FORMAT,
        group: match plan.role {
            Role::Decode => GroupName::Decode,
            Role::Prefill => GroupName::Prefill,
        },
        rank: RankIndex(plan.rank),
        configuration: configuration.clone(),
        protocol: lockstep_spec::FINGERPRINT.to_string(),
    }
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

fn start(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), RankError> {
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

/// A rank that is being put together.
struct Rank<'a> {
    plan: &'a RankPlan,
    site: &'a Site,
    front: &'a Front,
    inbox: Inbox,
    model: Llama,
    configuration: Arc<GroupConfiguration>,
}

impl<'a> Rank<'a> {
    fn new(life: &'a Life<'_>, front: &'a Front, inbox: Inbox) -> Result<Self, RankError> {
        let Life { plan, site, recorder, .. } = life;
        let model = Llama::load(&plan.model, plan.rank as usize, plan.size as usize)?;
        let stop_tokens = model.config().end_tokens.iter().map(|token| TokenId(*token)).collect();
        let configuration = GroupConfiguration {
            epoch: Epoch(plan.epoch),
            ranks: plan.size,
            slots: plan.slots,
            pages: plan.pages,
            page_size: plan.page_size,
            flights: match plan.mode {
                Mode::Normal => 1,
                Mode::Overlap => 2,
            },
            chunk_tokens: plan.chunk_tokens,
            brief_words: GroupConfiguration::least_brief_words(plan.slots).saturating_add(4096),
            deadline_ticks: DEADLINE_TICKS,
            stop_tokens,
        };
        configuration.validate()?;
        let header = header(plan, &configuration);
        recorder.open(header, plan.trace_file().as_deref()).map_err(RankError::Trace)?;
        Ok(Self { plan, site, front, inbox, model, configuration: Arc::new(configuration) })
    }

    fn decode(self, inputs: Inputs, last_ticket: &mut Option<Ticket>) -> Result<(), RankError> {
        let limits = self.fabric_limits()?;
        let (queue, commands) = device::queue(self.plan.pages);
        let (inbox, sink_queue) = (self.inbox.clone(), queue.clone());
        let sink = sink(self.plan.name(), inbox, sink_queue);
        let fabric = meeting::connect(self.plan, limits, sink)?;
        let hands = DecodeHands {
            fabric,
            device: queue.clone(),
            front: self.front.clone(),
            leads: self.plan.rank == 0,
        };
        self.work(hands, None, (queue, commands), inputs, last_ticket)
    }

    fn prefill(self, inputs: Inputs, last_ticket: &mut Option<Ticket>) -> Result<(), RankError> {
        let inbox = self.inbox.clone();
        let sink = move |inbound| {
            let _gone = inbox.send(Input::Prefill(inbound));
        };
        let (fabric, _registrar) = meeting::listen(self.plan, self.site, self.fabric_limits()?, sink)?;
        let fabric = Arc::new(fabric);
        let (queue, commands) = device::queue(self.plan.pages);
        let hands = PrefillHands::new(queue.clone(), self.plan.rank == 0);
        self.work(hands, Some(fabric), (queue, commands), inputs, last_ticket)
    }

    /// Forms both communicators, starts the device, and goes round after round.
    fn work<H: Hands>(
        self,
        hands: H,
        fabric: Option<Arc<PrefillFabric>>,
        (queue, commands): (Queue, std::sync::mpsc::Receiver<device::Command>),
        inputs: Inputs,
        last_ticket: &mut Option<Ticket>,
    ) -> Result<(), RankError> {
        let machine = RankMachine::new(Arc::clone(&self.configuration), RankIndex(self.plan.rank))?;
        let control = self.form(Communicator::Control, CONTROL_BYTES)?;
        let mesh = self.form(Communicator::Device, self.longest_activation()?)?;
        let room = self.room();
        let cache = self.model.cache(self.plan.page_size as usize, self.plan.pages as usize)?;
        let device = Device { model: self.model, cache, mesh, fabric, inbox: self.inbox };
        start("device thread", move || device::work(device, &commands))?;
        self.front.send(&RankToFront::Ready(room))?;
        let mut driver = Driver::new(machine, hands, control, queue, inputs, self.front.clone());
        let lived = driver.run();
        *last_ticket = driver.last_ticket();
        lived
    }

    /// Bytes of the longest activation that an all-reduce can carry: a plan fills every page at most.
    fn longest_activation(&self) -> Result<usize, RankError> {
        let positions = u64::from(self.plan.pages) * u64::from(self.plan.page_size);
        let bytes = positions * self.model.config().hidden as u64 * 4;
        let fits = u32::try_from(bytes).ok().and_then(|bytes| usize::try_from(bytes).ok());
        fits.ok_or(RankError::TooManyPages { positions, hidden: self.model.config().hidden })
    }

    fn form(&self, communicator: Communicator, payload_limit: usize) -> Result<AnyMember, RankError> {
        let RankPlan { role, rank, size, epoch, run_directory, transport, .. } = self.plan;
        let forming = Forming {
            dir: run_directory.clone(),
            name: format!("{role}.{}", communicator.name()),
            rank: *rank as usize,
            size: *size as usize,
            epoch: *epoch,
            fingerprint: self.fingerprint(),
            payload_limit,
            deadline: FORMING.max(PEER_DEADLINE),
        };
        self.site.form(communicator, *transport, &forming)
    }

    /// What all ranks of a group must have in common: the protocol and the configuration.
    fn fingerprint(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let words = [
            self.configuration.fingerprint(),
            lockstep_spec::digest::Digest::of(lockstep_spec::FINGERPRINT),
            lockstep_spec::digest::Digest::of(env!("CARGO_PKG_VERSION")),
        ];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    fn fabric_limits(&self) -> Result<FabricLimits, RankError> {
        let page = self.model.cache(self.plan.page_size as usize, 1)?.page_bytes();
        Ok(FabricLimits {
            page_bytes: page,
            pages_per_leg: self.plan.pages as usize,
            queued_frames: 256,
            enqueue_deadline: ENQUEUE_DEADLINE,
            write_deadline: PEER_DEADLINE,
        })
    }

    fn room(&self) -> Room {
        Room {
            pages: self.plan.pages,
            page_size: self.plan.page_size,
            slots: self.plan.slots,
            context: u32::try_from(self.model.config().context).unwrap_or(u32::MAX),
        }
    }
}
