//! `lockstep rank`: one rank that a launcher starts, on whichever machine. It finds its front end by address, says which rank it is, and
//! serves in the epoch that it is given.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use thiserror::Error;

use super::Parts;
use super::launcher::{self, Asked, Launcher, Place, PlaceError};
use super::model::{Model, ModelError};
use super::placement::{DeviceFlags, PlacementError, RankDevice};
use super::rank_arguments::RankPlan;
use crate::fabric::FabricKind;
use crate::group::Transport;
use crate::supervisor::say;
use crate::wire::{Answer, Assignment, Enlistment, Meeting, RankEnd, Role, WireError, version};

/// Exit code of a rank that is to be started anew: its epoch is over, or did not begin. What a launcher restarts on.
pub const START_ANEW: u8 = 75;

/// Longest wait for one attempt to connect, and the pause before the next.
const CONNECT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(250);

/// Longest silence of a front end that is to say every second that it waits.
const SILENCE: Duration = Duration::from_secs(10);

/// What `rank` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct RankFlags {
    /// Group of the rank
    #[arg(long)]
    role: Role,
    /// Where the front end waits for ranks (its --control), as HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    frontend: String,
    /// Index of the rank in its group [default: as the launcher's variables say]
    #[arg(long)]
    rank: Option<u32>,
    /// Ranks of the group [default: as the launcher's variables say]
    #[arg(long, value_name = "RANKS")]
    world_size: Option<u32>,
    /// The launcher whose variables count [default: all, which must agree]
    #[arg(long, value_enum)]
    launcher: Option<Launcher>,
    /// Address to listen on for other ranks; 0.0.0.0 listens on all, and others use the one from which the front end is reached
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// What computes; without --cuda-devices, the device of the index that the launcher gives the rank on its machine
    #[command(flatten)]
    device: DeviceFlags,
    /// Directory of the model: config.json, tokenizer.json, model.safetensors [default: the bundled kjv-1m]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Directory in which the rank writes a trace of each epoch for `lockstep-check validate`
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Directory for the last lines of the rank when it fails [default: lockstep-evidence among the temporary files]
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
    /// Seconds in which the front end must be reached
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = value_parser!(u32).range(1..=86_400))]
    frontend_seconds: u32,
}

/// A rank that has its place in an epoch.
#[derive(Debug)]
pub struct Enlisted {
    /// What it is and does.
    pub plan: RankPlan,
    /// Its line to the front end.
    pub line: RankEnd,
    /// Where it stands.
    pub stand: Stand,
    /// The directory for its last lines.
    pub evidence: PathBuf,
}

/// Where a rank stands whose peers may be on other machines.
#[derive(Debug)]
pub struct Stand {
    /// What it listens on for the other rank loops.
    pub control: TcpListener,
    /// What it listens on for the other engines.
    pub device: TcpListener,
    /// Where rank 0 of the group listens.
    pub meeting: Meeting,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The address at which others reach it.
    pub address: IpAddr,
}

/// Why a rank came to no place.
#[derive(Debug, Error)]
pub(crate) enum EnlistError {
    /// The command line and the environment.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// What is to compute.
    #[error(transparent)]
    Device(#[from] PlacementError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The address to listen on.
    #[error("{bind} can not be listened on: {source}; name an address of this machine with --bind")]
    Bind {
        /// The address.
        bind: IpAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The directory for traces.
    #[error("traces cannot be written to {}: {source}; name another directory with --trace", .directory.display())]
    Trace {
        /// The directory.
        directory: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The front end did not take the connection.
    #[error(
        "the front end at {frontend} was not reached within {seconds} s: {source}; start `lockstep serve --ranks external`, and name its --control with --frontend"
    )]
    Unreached {
        /// Its address.
        frontend: String,
        /// The time that it had.
        seconds: u32,
        /// The last reason.
        source: io::Error,
    },
    /// The front end said no.
    #[error("the front end has no place for this rank: {why}")]
    Refused {
        /// Why, and what to do.
        why: String,
        /// Whether a new start would be refused again.
        for_good: bool,
    },
    /// The front end says nothing.
    #[error("the front end has been silent for {} s while this rank waited for its epoch", SILENCE.as_secs())]
    Silent,
    /// The line broke.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl EnlistError {
    /// The exit code: 2 for what a new start can not repair.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Place(_) | Self::Device(_) | Self::Model(_) | Self::Bind { .. } | Self::Trace { .. } => 2,
            Self::Refused { for_good: true, .. } => 2,
            Self::Unreached { .. } | Self::Refused { .. } | Self::Silent | Self::Wire(_) => START_ANEW,
        }
    }
}

/// Takes a place, and serves: exit code 0 when the deployment has ended, [`START_ANEW`] when the epoch has.
pub(crate) fn run(flags: &RankFlags, parts: &Parts) -> ExitCode {
    match enlist(flags) {
        Ok(Some(enlisted)) => (parts.enlisted)(enlisted),
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("lockstep {} rank: {error}", flags.role));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Comes to a place in an epoch; to none if the deployment ends first.
fn enlist(flags: &RankFlags) -> Result<Option<Enlisted>, EnlistError> {
    let &RankFlags { role, rank, world_size: size, launcher, bind, .. } = flags;
    let place = launcher::find(Asked { rank, size, launcher }, |name| std::env::var(name).ok())?;
    let computes = flags.device.place(1)?.of_rank(launcher::local_rank(|name| std::env::var(name).ok()), 1);
    say(&format!("lockstep {role} rank {}: {computes} computes", place.rank));
    let model = Model::find(flags.model.as_deref())?;
    if let Some(directory) = &flags.trace {
        let refused = |source| EnlistError::Trace { directory: directory.clone(), source };
        std::fs::create_dir_all(directory).map_err(refused)?;
    }
    let stream = reach(&flags.frontend, flags.frontend_seconds)?;
    let (own, front) = ends(&stream)?;
    let address = if bind.is_unspecified() { own } else { bind };
    if address.is_loopback() && !front.is_loopback() {
        say(&format!("lockstep {role} rank: others are told to find this rank at {address}: see --bind"));
    }
    let [control, device] = [listen(bind)?, listen(bind)?];
    let at =
        |listener: &TcpListener| listener.local_addr().map(|bound| SocketAddr::new(address, bound.port()));
    let unbound = |source| EnlistError::Bind { bind, source };
    let listens = Meeting { control: at(&control).map_err(unbound)?, device: at(&device).map_err(unbound)? };
    let mut line = RankEnd::over(stream)?;
    let Place { rank, size } = place;
    let (version, pid) = (version(), std::process::id());
    line.sender.say(&Enlistment {
        version,
        model: model.digest,
        role,
        rank,
        size,
        pid,
        kv_type: computes.kv_type().name().into(),
        listens,
    })?;
    let Some(assignment) = wait(&mut line)? else { return Ok(None) };
    let stand = Stand { control, device, meeting: assignment.meeting, bind, address };
    let plan = plan(flags, (place, computes), model, &assignment, front);
    let evidence = flags.evidence.clone();
    let evidence = evidence.unwrap_or_else(|| std::env::temp_dir().join("lockstep-evidence"));
    let evidence = evidence.join(format!("{:016x}-e{}", plan.deployment, plan.epoch));
    Ok(Some(Enlisted { plan, line, stand, evidence }))
}

/// Connects to the front end; launchers start things in any order, so it may not be there yet.
fn reach(frontend: &str, seconds: u32) -> Result<TcpStream, EnlistError> {
    let until = Instant::now() + Duration::from_secs(seconds.into());
    loop {
        match connect(frontend) {
            Ok(stream) => return Ok(stream),
            Err(source) if Instant::now() >= until => {
                return Err(EnlistError::Unreached { frontend: frontend.into(), seconds, source });
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn connect(frontend: &str) -> io::Result<TcpStream> {
    let mut failed = io::ErrorKind::NotFound.into();
    for address in frontend.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            // A port of its own that nobody listened on yet: a stream can be connected to itself.
            Ok(stream) if stream.local_addr()? == address => failed = io::ErrorKind::ConnectionRefused.into(),
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The addresses of both ends.
fn ends(stream: &TcpStream) -> Result<(IpAddr, IpAddr), WireError> {
    let ends = stream.local_addr().and_then(|own| Ok((own, stream.peer_addr()?)));
    let (own, front) = ends.map_err(|source| WireError::Io { peer: "the front end".into(), source })?;
    Ok((own.ip().to_canonical(), front.ip().to_canonical()))
}

fn listen(bind: IpAddr) -> Result<TcpListener, EnlistError> {
    TcpListener::bind((bind, 0)).map_err(|source| EnlistError::Bind { bind, source })
}

fn wait(line: &mut RankEnd) -> Result<Option<Assignment>, EnlistError> {
    loop {
        match line.receiver.hear(SILENCE)? {
            None => return Err(EnlistError::Silent),
            Some(Answer::Leave) => return Ok(None),
            Some(Answer::Refuse { why, for_good }) => return Err(EnlistError::Refused { why, for_good }),
            Some(Answer::Serve(assignment)) => return Ok(Some(assignment)),
            Some(Answer::Wait) => {}
        }
    }
}

fn plan(
    flags: &RankFlags,
    (place, device): (Place, RankDevice),
    model: Model,
    assignment: &Assignment,
    front: IpAddr,
) -> RankPlan {
    let Assignment { epoch, terms, .. } = *assignment;
    let server = terms.bootstrap;
    let ip = if server.ip().is_unspecified() { front } else { server.ip() };
    RankPlan {
        role: flags.role,
        rank: place.rank,
        size: place.size,
        peers: terms.sizes.of(flags.role.other()),
        epoch: epoch.0,
        deployment: terms.deployment,
        run_directory: PathBuf::new(),
        device,
        transport: Transport::Tcp,
        bootstrap: Some(SocketAddr::new(ip, server.port())),
        handshake_tries: terms.handshake_tries,
        model: model.directory,
        mode: terms.mode,
        slots: terms.slots,
        pages: terms.pages,
        kv_memory: flags.device.kv_bytes(),
        page_size: terms.page_size,
        chunk_tokens: terms.chunk_tokens,
        fabric: FabricKind::Tcp,
        keeping: terms.keeping,
        trace: flags.trace.clone(),
        unchecked: terms.unchecked,
        apart: false,
    }
}
