//! From a command line to a working rank: what is proved, the model, the communicators, the fabric, then the loop.

use super::decode::{DecodeHands, sink};
use super::device::{self, Device, Queue};
use super::driver::{Driver, Front};
use super::error::RankError;
use super::hands::Hands;
use super::inputs::{Inbox, Input, Inputs};
use super::meeting;
use super::pacing::{DEADLINE_TICKS, PEER_DEADLINE};
use super::prefill::PrefillHands;
use super::recorder::Recorder;
use crate::engine::{Backend, CpuBackend, DeviceBackend, Llama};
use crate::fabric::{FabricLimits, PrefillFabric};
use crate::group::{AnyMember, Forming};
use crate::launch::{Mode, RankArguments, RankDevice};
use crate::proved::{self, Class};
use crate::supervisor::say;
use crate::wire::{RankEnd, RankReceiver, RankToFront, Role, Room};
use lockstep_kernels::cuda::Cuda;
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::ids::{Epoch, RankIndex, TokenId};
use lockstep_spec::machine::RankMachine;
use lockstep_spec::ticket::Ticket;
use lockstep_spec::trace::{Closing, FORMAT, GroupName, Header};
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

/// Runs a rank until its group leaves or something ends it.
pub fn run(arguments: RankArguments) -> ExitCode {
    let name = arguments.name();
    match RankEnd::connect(&arguments.control_socket, arguments.seat()) {
        Err(error) => {
            say(&format!("lockstep {name}: {error}"));
            ExitCode::FAILURE
        }
        Ok(RankEnd { sender, receiver }) => {
            let front = Front::new(sender);
            let mut last_ticket = None;
            let recorder = Arc::default();
            let lived = live(&arguments, &front, receiver, &recorder, &mut last_ticket);
            leave_record(&arguments, &recorder, &lived);
            end(&format!("{name}"), &front, lived, last_ticket)
        }
    }
}

fn end(name: &str, front: &Front, lived: Result<(), RankError>, last_ticket: Option<Ticket>) -> ExitCode {
    let Err(error) = lived else { return ExitCode::SUCCESS };
    let entered = last_ticket.map_or("no collective".to_string(), |ticket| ticket.to_string());
    say(&format!("lockstep {name}: {error} (this rank last entered {entered})"));
    // A front end that is gone cannot be told, and need not be.
    let _gone = front.send(&error.last_words(last_ticket));
    ExitCode::FAILURE
}

fn live(
    arguments: &RankArguments,
    front: &Front,
    receiver: RankReceiver,
    recorder: &Arc<Recorder>,
    last_ticket: &mut Option<Ticket>,
) -> Result<(), RankError> {
    let class = Class { role: arguments.role, mode: arguments.mode, ranks: arguments.size };
    if !arguments.unchecked {
        proved::require(&class).map_err(RankError::Unproved)?;
    }
    let (inbox, inputs) = Inputs::new(recorder);
    read_front(receiver, inbox.clone())?;
    let start = Start { arguments, front, inbox, recorder };
    match arguments.device {
        RankDevice::Cpu => start.live_on(CpuBackend::new(threads(arguments.size))?, inputs, last_ticket),
        RankDevice::Cuda { ordinal, kv_type } => {
            start.live_on(DeviceBackend::new(Cuda::open(ordinal)?, kv_type), inputs, last_ticket)
        }
    }
}

/// This rank's share of the machine's cores, of which the ranks of both groups have as many.
fn threads(size: u32) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores / (2 * size as usize)).max(1)
}

/// What a rank is put together from, beside its backend.
struct Start<'a> {
    arguments: &'a RankArguments,
    front: &'a Front,
    inbox: Inbox,
    recorder: &'a Recorder,
}

impl Start<'_> {
    fn live_on<B: Backend>(
        self,
        backend: B,
        inputs: Inputs,
        last_ticket: &mut Option<Ticket>,
    ) -> Result<(), RankError> {
        let role = self.arguments.role;
        let rank = Rank::new(self, backend)?;
        match role {
            Role::Decode => rank.decode(inputs, last_ticket),
            Role::Prefill => rank.prefill(inputs, last_ticket),
        }
    }
}

/// Ends the trace, and leaves the last lines where the supervisor looks for them after a loss.
fn leave_record(arguments: &RankArguments, recorder: &Recorder, lived: &Result<(), RankError>) {
    recorder.closed(match lived {
        Ok(()) => Closing::Left,
        Err(error) => Closing::Failed(error.to_string()),
    });
    let path = arguments.last_lines_file();
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    if let Err(error) = made.and_then(|()| recorder.leave(&path)) {
        say(&format!("lockstep {}: {} could not be written: {error}", arguments.name(), path.display()));
    }
}

fn header(arguments: &RankArguments, configuration: &GroupConfiguration) -> Header {
    Header {
        format: FORMAT,
        group: match arguments.role {
            Role::Decode => GroupName::Decode,
            Role::Prefill => GroupName::Prefill,
        },
        rank: RankIndex(arguments.rank),
        configuration: configuration.clone(),
        protocol: lockstep_spec::FINGERPRINT.to_string(),
    }
}

/// Starts the thread that reads what the front end says.
fn read_front(mut receiver: RankReceiver, inbox: Inbox) -> Result<(), RankError> {
    start("front end's reader", move || {
        loop {
            let input = match receiver.receive(READ_PATIENCE) {
                Ok(None) => continue,
                Ok(Some(message)) => Input::Front(message),
                Err(error) => Input::FrontGone(error),
            };
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
struct Rank<'a, B: Backend> {
    arguments: &'a RankArguments,
    front: &'a Front,
    inbox: Inbox,
    model: Llama<B>,
    configuration: Arc<GroupConfiguration>,
}

impl<'a, B: Backend> Rank<'a, B> {
    fn new(start: Start<'a>, backend: B) -> Result<Self, RankError> {
        let Start { arguments, front, inbox, recorder } = start;
        let (rank, size) = (arguments.rank as usize, arguments.size as usize);
        let model = Llama::load_on(backend, &arguments.model, rank, size)?;
        let stop_tokens = model.config().end_tokens.iter().map(|token| TokenId(*token)).collect();
        let configuration = GroupConfiguration {
            epoch: Epoch(arguments.epoch),
            ranks: arguments.size,
            slots: arguments.slots,
            pages: arguments.pages,
            page_size: arguments.page_size,
            flights: match arguments.mode {
                Mode::Normal => 1,
                Mode::Overlap => 2,
            },
            chunk_tokens: arguments.chunk_tokens,
            brief_words: GroupConfiguration::least_brief_words(arguments.slots).saturating_add(4096),
            deadline_ticks: DEADLINE_TICKS,
            stop_tokens,
        };
        configuration.validate()?;
        let header = header(arguments, &configuration);
        recorder.open(header, arguments.trace_file().as_deref()).map_err(RankError::Trace)?;
        Ok(Self { arguments, front, inbox, model, configuration: Arc::new(configuration) })
    }

    fn decode(mut self, inputs: Inputs, last_ticket: &mut Option<Ticket>) -> Result<(), RankError> {
        let limits = self.fabric_limits()?;
        let (queue, commands) = device::queue(self.arguments.pages);
        let (inbox, sink_queue) = (self.inbox.clone(), queue.clone());
        let sink = sink(self.arguments.name(), inbox, sink_queue);
        let fabric = meeting::connect(self.arguments, limits, sink)?;
        let hands = DecodeHands {
            fabric,
            device: queue.clone(),
            front: self.front.clone(),
            leads: self.arguments.rank == 0,
        };
        self.work(hands, None, (queue, commands), inputs, last_ticket)
    }

    fn prefill(mut self, inputs: Inputs, last_ticket: &mut Option<Ticket>) -> Result<(), RankError> {
        let inbox = self.inbox.clone();
        let sink = move |inbound| {
            let _gone = inbox.send(Input::Prefill(inbound));
        };
        let (fabric, _registrar) = meeting::listen(self.arguments, self.fabric_limits()?, sink)?;
        let fabric = Arc::new(fabric);
        let (queue, commands) = device::queue(self.arguments.pages);
        let hands = PrefillHands::new(queue.clone(), self.arguments.rank == 0);
        self.work(hands, Some(fabric), (queue, commands), inputs, last_ticket)
    }

    /// Forms both communicators, starts the device, and goes round after round.
    fn work<H: Hands>(
        mut self,
        hands: H,
        fabric: Option<Arc<PrefillFabric>>,
        (queue, commands): (Queue, std::sync::mpsc::Receiver<device::Command>),
        inputs: Inputs,
        last_ticket: &mut Option<Ticket>,
    ) -> Result<(), RankError> {
        let machine = RankMachine::new(Arc::clone(&self.configuration), RankIndex(self.arguments.rank))?;
        let control = self.form("control", CONTROL_BYTES)?;
        let mesh = self.form("device", self.longest_activation()?)?;
        let room = self.room();
        let cache = self.model.cache(self.arguments.page_size as usize, self.arguments.pages as usize)?;
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
        let positions = u64::from(self.arguments.pages) * u64::from(self.arguments.page_size);
        let bytes = positions * self.model.config().hidden as u64 * 4;
        let fits = u32::try_from(bytes).ok().and_then(|bytes| usize::try_from(bytes).ok());
        fits.ok_or(RankError::TooManyPages { positions, hidden: self.model.config().hidden })
    }

    fn form(&self, name: &str, payload_limit: usize) -> Result<AnyMember, RankError> {
        let RankArguments { role, rank, size, epoch, run_directory, transport, .. } = self.arguments;
        Ok(transport.form(&Forming {
            dir: run_directory.clone(),
            name: format!("{role}.{name}"),
            rank: *rank as usize,
            size: *size as usize,
            epoch: *epoch,
            fingerprint: self.fingerprint(),
            payload_limit,
            deadline: FORMING.max(PEER_DEADLINE),
        })?)
    }

    /// What all ranks of a group must have in common: the protocol, the configuration, and what computes.
    fn fingerprint(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let words = [
            self.configuration.fingerprint(),
            lockstep_spec::digest::Digest::of(lockstep_spec::FINGERPRINT),
            lockstep_spec::digest::Digest::of(env!("CARGO_PKG_VERSION")),
            lockstep_spec::digest::Digest::of(&self.arguments.device.kind()),
        ];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    fn fabric_limits(&mut self) -> Result<FabricLimits, RankError> {
        let page = self.model.cache(self.arguments.page_size as usize, 1)?.page_bytes();
        Ok(FabricLimits {
            page_bytes: page,
            pages_per_leg: self.arguments.pages as usize,
            queued_frames: 256,
            enqueue_deadline: ENQUEUE_DEADLINE,
            write_deadline: PEER_DEADLINE,
        })
    }

    fn room(&self) -> Room {
        Room {
            pages: self.arguments.pages,
            page_size: self.arguments.page_size,
            slots: self.arguments.slots,
            context: u32::try_from(self.model.config().context).unwrap_or(u32::MAX),
        }
    }
}
