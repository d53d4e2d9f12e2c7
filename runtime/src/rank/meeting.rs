//! Where rank i of the decode group and rank i of the prefill group meet: at a path that both know, or over TCP through a bootstrap server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::error::RankError;
use crate::bootstrap::{Coordinates, Layout, RankFinder, Registrar, Registration, Wanted};
use crate::fabric::{
    Address, Caller, DecodeFabric, DecodeInbound, FabricError, FabricLimits, Pair, PrefillFabric,
    PrefillInbound, Retry,
};
use crate::launch::RankArguments;
use crate::supervisor::say;

/// The time between two tries, as is the convention.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between the first two, and between all that cost nothing: a whole second would be felt by the first requests after a start.
const QUICK: Duration = Duration::from_millis(100);

/// Opens a prefill rank's end of the fabric. It is known to others for as long as what is returned with it lives.
pub(super) fn listen(
    arguments: &RankArguments,
    limits: FabricLimits,
    sink: impl Fn(PrefillInbound) + Send + 'static,
) -> Result<(PrefillFabric, Option<Registrar>), RankError> {
    let (wanted, server) = match arguments.bootstrap {
        Some(server) => (Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), Some(server)),
        None => (path(arguments), None),
    };
    let fabric = PrefillFabric::listen(&wanted, pair(arguments), limits, sink)?;
    let registrar = match (fabric.address(), server) {
        (Address::Tcp(address), Some(server)) => Some(register(arguments, *address, server)?),
        (Address::Tcp(_) | Address::Unix(_), _) => None,
    };
    Ok((fabric, registrar))
}

/// Opens a decode rank's end of the fabric.
pub(super) fn connect(
    arguments: &RankArguments,
    limits: FabricLimits,
    sink: impl Fn(DecodeInbound<'_>) + Send + 'static,
) -> Result<DecodeFabric, RankError> {
    let &RankArguments { rank, size, page_size, epoch, handshake_tries: count, .. } = arguments;
    let caller = Caller { pair: pair(arguments), epoch };
    let fabric = match arguments.bootstrap {
        None => {
            let often = Retry { first: QUICK, interval: QUICK, count: count.saturating_mul(10) };
            DecodeFabric::connect(path(arguments), caller, often, limits, sink)
        }
        Some(server) => {
            let wanted = Wanted { rank, size, page_size, epoch };
            let finder = RankFinder::new(server, wanted)
                .map_err(|error| FabricError::io("preparing to ask the bootstrap server", &error))?;
            let retry = Retry { first: QUICK, interval: INTERVAL, count };
            DecodeFabric::connect(finder, caller, retry, limits, sink)
        }
    };
    Ok(fabric?)
}

fn register(
    arguments: &RankArguments,
    address: SocketAddr,
    server: SocketAddr,
) -> Result<Registrar, RankError> {
    let registration = Registration {
        layout: Layout::of_heads(arguments.size, arguments.page_size),
        at: Coordinates { attn_tp_rank: arguments.rank, ..Coordinates::default() },
        rank_ip: address.ip(),
        rank_port: address.port(),
        prefill_http_port: None,
        epoch: Some(arguments.epoch),
    };
    let name = arguments.name();
    let failed = move |error| say(&format!("lockstep {name}: not registered yet, and tries again: {error}"));
    let registrar = Registrar::start(server, registration, failed);
    Ok(registrar.map_err(|error| FabricError::io("starting to register", &error))?)
}

fn path(arguments: &RankArguments) -> Address {
    Address::Unix(arguments.run_directory.join(format!("kv.{}.sock", arguments.rank)))
}

fn pair(arguments: &RankArguments) -> Pair {
    Pair { deployment: arguments.deployment, rank: arguments.rank }
}
