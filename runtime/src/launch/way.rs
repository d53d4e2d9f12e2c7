//! The way between the two groups where each is a deployment of its own: decode's line to prefill, or where prefill takes such lines.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::deployment::{Side, listen};
use super::error::LaunchError;
use crate::frontend::{
    Desk, LineTerms, LineToPrefill, LinesToDecode, Pairing, Service, prefill_router, router,
};
use crate::supervisor::{Stop, say};

/// The way to the other group.
pub(super) enum Way {
    /// Both groups are here.
    Inside,
    /// Decode's line.
    ToPrefill(LineToPrefill),
    /// Where prefill takes lines, at this port, and pairs requests.
    ToDecode(LinesToDecode, u16, Arc<Pairing>),
}

impl Way {
    /// The way of a side. Ranks of launchers have none.
    pub(super) async fn open(
        side: Side,
        (desk, deployment): (&Arc<Desk>, u64),
        terms: Option<LineTerms>,
    ) -> Result<Self, LaunchError> {
        let desk = Arc::clone(desk);
        match (side, terms) {
            (Side::Both, _) | (_, None) => Ok(Self::Inside),
            (Side::Decode(prefill), Some(terms)) => {
                Ok(Self::ToPrefill(LineToPrefill::new(desk, prefill, deployment, terms)))
            }
            (Side::Prefill, Some(terms)) => {
                // As the ranks do, whatever the requests' address is: who is here is trusted.
                let listener = listen(&Ipv4Addr::LOCALHOST.to_string(), 0, "--host").await?;
                let bound =
                    listener.local_addr().map_err(LaunchError::system("asking for the line's port"))?;
                let pairing = Pairing::new(desk.plan().max_queue);
                let lines = LinesToDecode::new(listener, desk, Arc::clone(&pairing), terms);
                Ok(Self::ToDecode(lines, bound.port(), pairing))
            }
        }
    }

    /// The port at which decode deployments attach.
    pub(super) fn port(&self) -> Option<u16> {
        match self {
            Self::ToDecode(_, port, _) => Some(*port),
            Self::Inside | Self::ToPrefill(_) => None,
        }
    }

    /// The HTTP routes of the side.
    pub(super) fn router(&self, service: Service) -> Router {
        match self {
            Self::ToDecode(_, _, pairing) => prefill_router(service, Arc::clone(pairing)),
            Self::Inside | Self::ToPrefill(_) => router(service),
        }
    }

    /// Takes the way, for as long as what is returned lives. A decode side finds its prefill side first, however long that takes: none is
    /// returned if `stop` comes before.
    pub(super) async fn take(self, desk: &Arc<Desk>, mut stop: watch::Receiver<Stop>) -> Option<JoinSet<()>> {
        let mut tasks = JoinSet::new();
        match self {
            Self::Inside => {}
            Self::ToDecode(lines, ..) => drop(tasks.spawn(async { match lines.run().await {} })),
            Self::ToPrefill(line) => {
                let fresh = tokio::select! {
                    fresh = line.attach_first() => fresh,
                    _ = stop.wait_for(|stop| *stop > Stop::Run) => return None,
                };
                let desk = Arc::clone(desk);
                tasks.spawn(async move {
                    let reason = format!("{}; stop this program and start it anew", line.keep(fresh).await);
                    say(&format!("lockstep: {reason}"));
                    desk.lose(reason);
                });
            }
        }
        Some(tasks)
    }
}
