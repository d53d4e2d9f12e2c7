//! Where rank i of the decode group and rank i of the prefill group meet: at a path that both know, or over TCP through a bootstrap server.

use std::net::SocketAddr;
use std::time::Duration;

use super::error::RankError;
use super::site::Site;
use crate::bootstrap::{Coordinates, Layout, RankFinder, Registrar, Registration, Wanted};
use crate::fabric::{
    Address, Caller, DecodeFabric, DecodeInbound, FabricError, FabricLimits, Pair, PrefillFabric,
    PrefillInbound, Retry,
};
use crate::launch::RankPlan;
use crate::supervisor::say;

/// The time between two tries, as is the convention.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between the first two, and between all that cost nothing: a whole second would be felt by the first requests after a start.
const QUICK: Duration = Duration::from_millis(100);

/// Opens a prefill rank's end of the fabric. It is known to others for as long as what is returned with it lives.
pub(super) fn listen(
    plan: &RankPlan,
    site: &Site,
    limits: FabricLimits,
    sink: impl Fn(PrefillInbound) + Send + 'static,
) -> Result<(PrefillFabric, Option<Registrar>), RankError> {
    let (wanted, server) = match plan.bootstrap {
        Some(server) => (Address::Tcp(SocketAddr::new(site.bind(), 0)), Some(server)),
        None => (path(plan), None),
    };
    let fabric = PrefillFabric::listen(&wanted, pair(plan), limits, sink)?;
    let registrar = match (fabric.address(), server) {
        (Address::Tcp(bound), Some(server)) => {
            Some(register(plan, SocketAddr::new(site.address(), bound.port()), server)?)
        }
        (Address::Tcp(_) | Address::Unix(_), _) => None,
    };
    Ok((fabric, registrar))
}

/// Opens a decode rank's end of the fabric.
pub(super) fn connect(
    plan: &RankPlan,
    limits: FabricLimits,
    sink: impl Fn(DecodeInbound<'_>) + Send + 'static,
) -> Result<DecodeFabric, RankError> {
    let &RankPlan { rank, size, page_size, epoch, apart, handshake_tries: count, .. } = plan;
    let caller = Caller { pair: pair(plan), epoch };
    let fabric = match plan.bootstrap {
        None => {
            let often = Retry { first: QUICK, interval: QUICK, count: count.saturating_mul(10) };
            DecodeFabric::connect(path(plan), caller, often, limits, sink)
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

fn path(plan: &RankPlan) -> Address {
    Address::Unix(plan.run_directory.join(format!("kv.{}.sock", plan.rank)))
}

fn pair(plan: &RankPlan) -> Pair {
    Pair { deployment: plan.deployment, rank: plan.rank }
}
