//! Where ranks of the two groups meet that have heads in common: at a path that both know, or over TCP through a bootstrap server.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use super::error::RankError;
use super::site::Site;
use crate::bootstrap::{Coordinates, Layout, RankFinder, Registrar, Registration, Wanted};
use crate::engine::Config;
use crate::fabric::{
    Address, Caller, DecodeFabric, DecodeInbound, FabricError, FabricKind, FabricLimits, Pair, PrefillFabric,
    PrefillInbound, Retry,
};
use crate::launch::RankPlan;
use crate::supervisor::say;
use crate::wire::Role;

/// The time between two tries, as is the convention.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between the first two, and between all that cost nothing: a whole second would be felt by the first requests after a start.
const QUICK: Duration = Duration::from_millis(100);

/// Opens a prefill rank's end of the fabric. It is known to others for as long as what is returned with it lives.
pub(super) fn listen(
    plan: &RankPlan,
    site: &Site,
    limits: FabricLimits,
    peers: &[Peer],
    sink: impl Fn(usize, PrefillInbound) + Send + 'static,
) -> Result<(PrefillFabric, Option<Registrar>), RankError> {
    let (wanted, server) = match plan.bootstrap {
        Some(server) => (Address::Tcp(SocketAddr::new(site.bind(), 0)), Some(server)),
        None => (path(plan, plan.rank), None),
    };
    let pairs: Vec<Pair> = peers.iter().map(|peer| pair(plan, peer)).collect();
    let fabric = PrefillFabric::listen(&wanted, &pairs, limits, sink)?;
    let registrar = match (fabric.address(), server) {
        (Address::Tcp(bound), Some(server)) => {
            Some(register(plan, SocketAddr::new(site.address(), bound.port()), server)?)
        }
        (Address::Tcp(_) | Address::Shm(_) | Address::Unix(_), _) => None,
    };
    Ok((fabric, registrar))
}

/// Opens a decode rank's end of the fabric to a prefill rank.
pub(super) fn connect(
    plan: &RankPlan,
    limits: FabricLimits,
    peer: &Peer,
    sink: impl Fn(DecodeInbound<'_>) + Send + 'static,
) -> Result<DecodeFabric, RankError> {
    let &RankPlan { peers: size, page_size, epoch, apart, handshake_tries: count, .. } = plan;
    let (rank, caller) = (peer.rank, Caller { pair: pair(plan, peer), epoch });
    let fabric = match plan.bootstrap {
        None => {
            let often = Retry { first: QUICK, interval: QUICK, count: count.saturating_mul(10) };
            DecodeFabric::connect(path(plan, rank), caller, often, limits, sink)
        }
        Some(server) => {
            let epoch = (!apart).then_some(epoch);
            let wanted = Wanted { rank, size, page_size, epoch };
            let finder = RankFinder::new(server, wanted)
                .map_err(|error| FabricError::io("preparing to ask the bootstrap server", &error))?;
            let retry = Retry { first: QUICK, interval: INTERVAL, count };
            DecodeFabric::connect(finder, caller, retry, limits, sink)
        }
    };
    Ok(fabric?)
}

fn register(plan: &RankPlan, address: SocketAddr, server: SocketAddr) -> Result<Registrar, RankError> {
    let registration = Registration {
        layout: Layout::of_heads(plan.size, plan.page_size),
        at: Coordinates { attn_tp_rank: plan.rank, ..Coordinates::default() },
        rank_ip: address.ip(),
        rank_port: address.port(),
        prefill_http_port: None,
        epoch: Some(plan.epoch),
    };
    let name = plan.name();
    let failed = move |error| say(&format!("lockstep {name}: not registered yet, and tries again: {error}"));
    let registrar = Registrar::start(server, registration, failed);
    Ok(registrar.map_err(|error| FabricError::io("starting to register", &error))?)
}

/// Where a prefill rank listens on the same machine.
fn path(plan: &RankPlan, rank: u32) -> Address {
    let path = plan.run_directory.join(format!("kv.{rank}.sock"));
    match plan.fabric {
        FabricKind::Shm => Address::Shm(path),
        // Over TCP they find each other through a bootstrap server.
        FabricKind::Unix | FabricKind::Tcp => Address::Unix(path),
    }
}

fn pair(plan: &RankPlan, peer: &Peer) -> Pair {
    let deployment = plan.deployment;
    match plan.role {
        Role::Decode => Pair { deployment, decode: plan.rank, prefill: peer.rank },
        Role::Prefill => Pair { deployment, decode: peer.rank, prefill: plan.rank },
    }
}

/// A rank of the other group that has heads of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its index in its group.
    pub(super) rank: u32,
    /// The heads that both have, counted over the whole model.
    pub(super) heads: Range<usize>,
}

/// The ranks of the other group that have heads of this one.
pub(super) fn peers(plan: &RankPlan, model: &Config) -> Vec<Peer> {
    let own = model.kv_heads_of(plan.rank as usize, plan.size as usize);
    let peer = |rank: u32| {
        let theirs = model.kv_heads_of(rank as usize, plan.peers as usize);
        let heads = own.start.max(theirs.start)..own.end.min(theirs.end);
        (!heads.is_empty()).then_some(Peer { rank, heads })
    };
    (0..plan.peers).filter_map(peer).collect()
}
