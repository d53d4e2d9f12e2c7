//! Where an epoch's ranks come from: children of this process, or launchers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use super::anteroom::{Anteroom, CallPlan};
use super::event::Caller;
use super::nursery::{Nursery, StartPlan};

/// Where an epoch's ranks come from.
#[derive(Debug)]
pub enum Muster {
    /// Launchers start them, and they call here.
    Called(TcpListener, CallPlan),
    /// They are started as children, and connect here.
    Started(UnixListener, StartPlan),
}

/// The same at work.
#[derive(Debug)]
pub(crate) enum Source {
    Called(TcpListener, Anteroom, Arc<Semaphore>),
    Started(UnixListener, Nursery),
}

/// Connections to the port for ranks that may be there at once, beside two of each rank.
const STRANGERS: usize = 64;

impl Source {
    pub(crate) fn new(muster: Muster) -> Self {
        match muster {
            Muster::Called(listener, plan) => {
                let most = STRANGERS + 2 * plan.terms.sizes.total() as usize;
                Self::Called(listener, Anteroom::new(plan), Arc::new(Semaphore::new(most)))
            }
            Muster::Started(listener, plan) => Self::Started(listener, Nursery::new(plan)),
        }
    }

    /// Whether the ranks are other people's to start.
    pub(crate) fn is_called(&self) -> bool {
        matches!(self, Self::Called(..))
    }

    /// How long clients wait for ranks that were lost; for as long as it takes where they are started here.
    pub(crate) fn absence(&self) -> Option<Duration> {
        match self {
            Self::Called(_, anteroom, _) => Some(anteroom.absence()),
            Self::Started(..) => None,
        }
    }

    /// Waits for a connection. On the port for ranks, where anybody may call, not while too many are there.
    pub(crate) async fn accept(&self) -> io::Result<Caller> {
        match self {
            Self::Called(listener, _, room) => {
                let permit = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
                Ok(Caller::Stranger(listener.accept().await?.0, permit))
            }
            Self::Started(listener, _) => Ok(Caller::Child(listener.accept().await?.0)),
        }
    }

    /// Whether an epoch could begin now.
    pub(crate) fn is_complete(&mut self) -> bool {
        match self {
            Self::Called(_, anteroom, _) => anteroom.is_full(),
            Self::Started(..) => true,
        }
    }
}
