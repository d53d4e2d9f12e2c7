//! `lockstep serve`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::Parts;
use super::cli::{FrontFlags, GroupFlags, RankSource, ServeFlags};
use super::deployment::{Control, Deployment, Endpoint, Side};
use super::error::LaunchError;
use crate::frontend::{Desk, Standing};
use crate::supervisor::{Departure, Stop, on_signals, say, tell};
use crate::wire::Sizes;

/// Threads for connections and links; the supervisor has the main thread.
const WORKER_THREADS: usize = 2;

/// Longest wait for work that is still on its way when everything else has ended.
const RUNTIME_DEADLINE: Duration = Duration::from_secs(1);

/// Runs `work` on the main thread of a runtime that ends with it.
pub(crate) fn on_runtime<T>(work: impl Future<Output = Result<T, LaunchError>>) -> Result<T, LaunchError> {
    let built = Builder::new_multi_thread().worker_threads(WORKER_THREADS).enable_all().build();
    let runtime: Runtime = built.map_err(LaunchError::system("starting the runtime"))?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(RUNTIME_DEADLINE);
    result
}

/// Serves both groups until a signal asks for the end.
pub(crate) fn run(flags: &ServeFlags, parts: &Parts) -> Result<(), LaunchError> {
    let absence = Duration::from_secs(u64::from(flags.absence_seconds));
    let control = match flags.ranks {
        RankSource::External => Some(Control { address: flags.control, absence }),
        RankSource::Local => None,
    };
    serve(&flags.front, (Side::Both, control), parts)
}

/// Serves one of the two groups until a signal asks for the end.
pub(crate) fn run_apart(flags: &FrontFlags, side: Side, parts: &Parts) -> Result<(), LaunchError> {
    serve(flags, (side, None), parts)
}

fn serve(
    flags: &FrontFlags,
    (side, control): (Side, Option<Control>),
    parts: &Parts,
) -> Result<(), LaunchError> {
    let FrontFlags { host, port, max_queue, restarts, drain_seconds, group } = flags;
    let endpoint = Endpoint {
        host: host.clone(),
        port: *port,
        max_queue: *max_queue,
        restarts: *restarts,
        drain: Duration::from_secs(u64::from(*drain_seconds)),
        control,
        side,
    };
    on_runtime(serve_at(&endpoint, group, parts))
}

async fn serve_at(endpoint: &Endpoint, group: &GroupFlags, parts: &Parts) -> Result<(), LaunchError> {
    let (order, stop) = watch::channel(Stop::Run);
    let signals = on_signals(order).map_err(LaunchError::system("taking over the signals"))?;
    let deployment = Deployment::open(endpoint, group, parts).await?;
    if let Some(placement) = &deployment.placement {
        say(&format!("lockstep: {placement}"));
    }
    if let Some(control) = deployment.control {
        let Sizes { decode, prefill } = group.sizes();
        say(&format!("lockstep: waits at {control} for {prefill} ranks of prefill and {decode} of decode"));
    }
    let ready = ready_line(&deployment, endpoint.side, group);
    let announcement = announce(Arc::clone(&deployment.desk), ready);
    let departure = tokio::select! {
        departure = deployment.run(stop) => departure?,
        never = signals => match never {},
        never = announcement => match never {},
    };
    check(departure)
}

/// Takes an orderly stop, and tells one that was not.
pub(crate) fn check(departure: Departure) -> Result<(), LaunchError> {
    match departure.unclean.is_empty() {
        true => Ok(()),
        false => Err(LaunchError::Unclean { ranks: departure.unclean }),
    }
}

fn ready_line(deployment: &Deployment, side: Side, flags: &GroupFlags) -> String {
    let (address, model) = (deployment.address, &deployment.model.id);
    let (Sizes { decode, prefill }, transport) = (flags.sizes(), flags.transport);
    let kv =
        deployment.bootstrap.map(|server| format!(", KV over tcp by way of {server}")).unwrap_or_default();
    let groups = match side {
        Side::Both => format!("prefill tp {prefill}, decode tp {decode}"),
        Side::Decode(_) => format!("decode tp {decode}"),
        Side::Prefill => format!("prefill tp {prefill}"),
    };
    format!("lockstep: ready on http://{address} (model {model}, {groups}, over {transport}{kv})")
}

/// Prints a line when requests are taken.
async fn announce(desk: Arc<Desk>, line: String) -> Infallible {
    if desk.standing().wait_for(|standing| matches!(standing, Standing::Ready(_))).await.is_ok() {
        tell(&line);
    }
    std::future::pending().await
}
