//! One front end with its groups, put together: port first, so that a taken one is told before anything is started.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Parts;
use super::cli::GroupFlags;
use super::error::LaunchError;
use super::model::Model;
use super::placement::Placement;
use super::rank_arguments::{RankArguments, RankPlan};
use super::way::Way;
use crate::bootstrap;
use crate::fabric::FabricKind;
use crate::frontend::{Desk, DeskPlan, HttpServer, LineTerms, Prefix, Service};
use crate::proved::Class;
use crate::supervisor::{
    CallPlan, Departure, Evidence, Limits, Muster, RunDirectory, StartPlan, Stop, Supervisor,
    SupervisorError, SupervisorPlan,
};
use crate::wire::{Role, Sizes, Terms};

/// Where the front end listens, and what it takes upon itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A host name or address.
    pub host: String,
    /// A port; 0 takes a free one.
    pub port: u16,
    /// Requests that may be outstanding.
    pub max_queue: u32,
    /// Restarts that may follow losses within ten minutes.
    pub restarts: u32,
    /// Time that running requests get to end when the server is to stop.
    pub drain: Duration,
    /// Where ranks of launchers are to call; none if this program starts its ranks.
    pub control: Option<Control>,
    /// Which groups it has.
    pub side: Side,
}

/// Which groups a front end has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Both, which are lost and started anew together.
    #[default]
    Both,
    /// The decode group; the other is a deployment of its own, with this bootstrap server.
    Decode(SocketAddr),
    /// The prefill group.
    Prefill,
}

impl Side {
    /// The groups.
    pub(crate) fn roles(self) -> &'static [Role] {
        match self {
            Self::Both => &[Role::Decode, Role::Prefill],
            Self::Decode(_) => &[Role::Decode],
            Self::Prefill => &[Role::Prefill],
        }
    }

    /// The bootstrap server of a prefill side elsewhere.
    fn prefill(self) -> Option<SocketAddr> {
        match self {
            Self::Decode(prefill) => Some(prefill),
            Self::Both | Self::Prefill => None,
        }
    }

    /// The flags of a side: what is deployed apart meets over TCP.
    fn flags(self, given: &GroupFlags) -> Result<GroupFlags, LaunchError> {
        let flags = given.clone();
        match self {
            Self::Both => Ok(flags),
            Self::Decode(_) | Self::Prefill if given.bootstrap_server.is_some() => {
                Err(LaunchError::ApartBootstrap)
            }
            Self::Decode(_) if given.bootstrap_port.is_some() => Err(LaunchError::ApartBootstrap),
            Self::Decode(prefill) => {
                Ok(GroupFlags { fabric: FabricKind::Tcp, bootstrap_server: Some(prefill), ..flags })
            }
            Self::Prefill => Ok(GroupFlags { fabric: FabricKind::Tcp, ..flags }),
        }
    }

    fn ranks(self, role: Role, sizes: Sizes) -> u32 {
        if self.roles().contains(&role) { sizes.of(role) } else { 0 }
    }
}

/// How ranks of launchers are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Where they call.
    pub address: SocketAddr,
    /// How long clients wait for those that were lost.
    pub absence: Duration,
}

/// A front end that listens, and groups that are not started yet.
pub struct Deployment {
    /// Where it listens.
    pub address: SocketAddr,
    /// The front end's desk.
    pub desk: Arc<Desk>,
    /// What computes; ranks of launchers say so themselves.
    pub placement: Option<Placement>,
    /// The bootstrap server that the ranks ask, if KV travels over TCP.
    pub bootstrap: Option<SocketAddr>,
    /// Where ranks of launchers call, if they do.
    pub control: Option<SocketAddr>,
    /// The model served.
    pub model: Model,
    servers: Vec<HttpServer>,
    way: Way,
    supervisor: Supervisor,
    run_directory: RunDirectory,
}

impl Deployment {
    /// Puts everything together and binds the port.
    ///
    /// # Errors
    /// [`LaunchError`] for flags, model, tokenizer, port or run directory.
    pub async fn open(endpoint: &Endpoint, flags: &GroupFlags, parts: &Parts) -> Result<Self, LaunchError> {
        let side = endpoint.side;
        let flags = &side.flags(flags)?;
        flags.check()?;
        endpoint.control.map_or(Ok(()), |_| flags.check_called())?;
        flags.trace.as_deref().map_or(Ok(()), empty_directory)?;
        let model = Model::find(flags.model.as_deref())?;
        let codec = (parts.codec)(&model.directory)?;
        let listener = listen(&endpoint.host, endpoint.port, "--port").await?;
        let address = listener.local_addr().map_err(LaunchError::system("asking for the port"))?;
        let run_directory =
            RunDirectory::create().map_err(LaunchError::system("making the run directory"))?;
        let desk = Desk::new(desk_plan(endpoint, flags, &model, &parts.limits));
        let deployment = unique_number();
        let sizes = flags.sizes();
        let placed =
            endpoint.control.map_or_else(|| flags.device.place(sizes.largest()).map(Some), |_| Ok(None))?;
        let terms = |placement: &Placement| LineTerms {
            model: model.digest,
            kv_type: placement.of_rank(0, sizes.largest()).kv_type().name().into(),
            sizes,
            page_size: flags.page_size,
        };
        let way = Way::open(side, (&desk, deployment), placed.as_ref().map(terms)).await?;
        let prefill = side.prefill();
        let service = Service { desk: Arc::clone(&desk), codec, model: model.id.clone(), prefill };
        let mut servers = vec![HttpServer::new(listener, way.router(service), desk.plan().max_queue)];
        let host = match side {
            Side::Both => endpoint.control.map_or(Ipv4Addr::LOCALHOST.into(), |control| control.address.ip()),
            // Its ranks listen there alone.
            Side::Decode(_) | Side::Prefill => Ipv4Addr::LOCALHOST.into(),
        };
        let bootstrap = bootstrap_server((flags, way.port()), host, &desk, &mut servers).await?;
        let (muster, control, placement) = match endpoint.control.zip(bootstrap) {
            Some((control, bootstrap)) => {
                let (muster, bound) = call(control, flags, bootstrap, &model).await?;
                (muster, Some(bound), None)
            }
            None => {
                let plan =
                    start((flags, side, deployment), placed.as_ref(), bootstrap, &model, &run_directory)?;
                (plan, None, placed)
            }
        };
        let limits = parts.limits;
        let plan = SupervisorPlan { muster, limits, restarts: endpoint.restarts, drain: endpoint.drain };
        let supervisor = Supervisor::new(plan, Arc::clone(&desk));
        Ok(Self {
            address,
            desk,
            placement,
            bootstrap,
            control,
            model,
            servers,
            way,
            supervisor,
            run_directory,
        })
    }

    /// The directory that goes at the end.
    pub fn run_directory(&self) -> &Path {
        self.run_directory.path()
    }

    /// Starts the groups and serves until `stop` says so; afterwards nothing is left. To be awaited on the main thread.
    ///
    /// # Errors
    /// [`SupervisorError`] when the ranks did not get ready, or did not go.
    pub async fn run(self, stop: watch::Receiver<Stop>) -> Result<Departure, SupervisorError> {
        let (end, ended) = watch::channel(false);
        let mut web = JoinSet::new();
        for server in self.servers {
            web.spawn(server.run(ended.clone()));
        }
        let departure = match self.way.take(&self.desk, stop.clone()).await {
            Some(mut way) => {
                let departure = self.supervisor.run(stop).await;
                way.shutdown().await;
                departure
            }
            None => Ok(Departure::default()),
        };
        end.send_replace(true);
        while web.join_next().await.is_some() {}
        drop(self.run_directory);
        departure
    }
}

/// What a group's proof is to be about.
pub(crate) fn classes(flags: &GroupFlags) -> [Class; 2] {
    [Role::Decode, Role::Prefill].map(|role| Class {
        role,
        mode: flags.mode(),
        ranks: flags.sizes().of(role),
    })
}

/// Makes the directory for traces: an empty one, since traces are never written over.
fn empty_directory(directory: &Path) -> Result<(), LaunchError> {
    let made = std::fs::create_dir_all(directory).and_then(|()| std::fs::read_dir(directory));
    let mut entries = made.map_err(|source| LaunchError::Trace { directory: directory.into(), source })?;
    if entries.next().is_some() { Err(LaunchError::TraceNotEmpty(directory.into())) } else { Ok(()) }
}

pub(super) async fn listen(host: &str, port: u16, flag: &'static str) -> Result<TcpListener, LaunchError> {
    let bound = TcpListener::bind((host, port)).await;
    let host = host.to_owned();
    bound.map_err(|source| match source.kind() == io::ErrorKind::AddrInUse {
        true => LaunchError::PortTaken { host, port, flag },
        false => LaunchError::Listen { host, port, source },
    })
}

/// Adds the bootstrap server, if there is to be one, at `host`, and says which one the ranks are to ask.
async fn bootstrap_server(
    (flags, line_port): (&GroupFlags, Option<u16>),
    host: IpAddr,
    desk: &Arc<Desk>,
    servers: &mut Vec<HttpServer>,
) -> Result<Option<SocketAddr>, LaunchError> {
    let Some(port) = flags.own_bootstrap_port() else { return Ok(flags.bootstrap_server) };
    let listener = listen(&host.to_string(), port, "--bootstrap-port").await?;
    let own = listener.local_addr().map_err(LaunchError::system("asking for the bootstrap server's port"))?;
    let desk = Arc::clone(desk);
    servers.push(HttpServer::new(listener, bootstrap::routes(move || desk.epoch(), line_port), 0));
    Ok(Some(flags.bootstrap_server.unwrap_or(own)))
}

fn desk_plan(endpoint: &Endpoint, flags: &GroupFlags, model: &Model, limits: &Limits) -> DeskPlan {
    DeskPlan {
        decode_ranks: endpoint.side.ranks(Role::Decode, flags.sizes()),
        prefill_ranks: endpoint.side.ranks(Role::Prefill, flags.sizes()),
        connections: flags.sizes().total(),
        max_queue: usize::try_from(endpoint.max_queue).unwrap_or(usize::MAX),
        vocabulary: model.vocabulary,
        prefix: Prefix { page_size: flags.page_size, pages: flags.keeping.prefix_pages },
        silence_ticks: limits.ticks(limits.silence),
        stall_ticks: limits.ticks(limits.stall),
    }
}

/// Ranks that this program is to start, and the socket to which they connect.
fn start(
    (flags, side, deployment): (&GroupFlags, Side, u64),
    placement: Option<&Placement>,
    bootstrap: Option<SocketAddr>,
    model: &Model,
    run_directory: &RunDirectory,
) -> Result<Muster, LaunchError> {
    let socket = UnixListener::bind(run_directory.control_socket())
        .map_err(LaunchError::system("making the control socket"))?;
    let plan = StartPlan {
        program: std::env::current_exe().map_err(LaunchError::system("finding the own executable"))?,
        ranks: placement.map_or_else(Vec::new, |placement| {
            ranks((flags, side, deployment), placement, bootstrap, model, run_directory)
        }),
        run_directory: run_directory.path().into(),
        evidence: Evidence::new(flags.evidence.as_deref()),
    };
    Ok(Muster::Started(socket, plan))
}

/// Ranks that launchers start, and where they call.
async fn call(
    Control { address, absence }: Control,
    flags: &GroupFlags,
    bootstrap: SocketAddr,
    model: &Model,
) -> Result<(Muster, SocketAddr), LaunchError> {
    let listener = listen(&address.ip().to_string(), address.port(), "--control").await?;
    let bound = listener.local_addr().map_err(LaunchError::system("asking for the control port"))?;
    let terms = Terms {
        deployment: unique_number(),
        sizes: flags.sizes(),
        bootstrap,
        handshake_tries: flags.handshake_tries,
        mode: flags.mode(),
        slots: flags.slots,
        pages: flags.pages,
        page_size: flags.page_size,
        chunk_tokens: flags.chunk_tokens,
        keeping: flags.keeping,
        unchecked: flags.unchecked,
    };
    let plan = CallPlan { model: model.digest, terms, absence };
    Ok((Muster::Called(listener, plan), bound))
}

/// The ranks of a side's groups, before their first epoch.
fn ranks(
    (flags, side, deployment): (&GroupFlags, Side, u64),
    placement: &Placement,
    bootstrap: Option<SocketAddr>,
    model: &Model,
    run_directory: &RunDirectory,
) -> Vec<RankArguments> {
    let sizes = flags.sizes();
    let first = RankPlan {
        role: Role::Decode,
        rank: 0,
        size: sizes.decode,
        peers: sizes.prefill,
        epoch: 0,
        deployment,
        run_directory: run_directory.path().into(),
        device: placement.of_rank(0, sizes.decode),
        transport: flags.transport,
        bootstrap,
        handshake_tries: flags.handshake_tries,
        model: model.directory.clone(),
        mode: flags.mode(),
        slots: flags.slots,
        pages: flags.pages,
        kv_memory: flags.device.kv_bytes(),
        page_size: flags.page_size,
        chunk_tokens: flags.chunk_tokens,
        fabric: flags.fabric,
        keeping: flags.keeping,
        trace: flags.trace.clone(),
        unchecked: flags.unchecked,
        apart: side != Side::Both,
    };
    let roles = side.roles().iter().copied();
    let plans =
        roles.flat_map(|role| (0..sizes.of(role)).map(move |rank| (role, rank))).map(|(role, rank)| {
            RankPlan {
                role,
                rank,
                size: sizes.of(role),
                peers: sizes.of(role.other()),
                device: placement.of_rank(rank, sizes.of(role)),
                ..first.clone()
            }
        });
    let (front, control_socket) = (std::process::id(), run_directory.control_socket());
    plans.map(|plan| RankArguments { front, control_socket: control_socket.clone(), plan }).collect()
}

/// A number that no other deployment draws: it need not be a secret.
fn unique_number() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
