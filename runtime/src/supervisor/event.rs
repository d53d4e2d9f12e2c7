//! What the supervisor's loop waits for, in one queue.

use std::io;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OwnedSemaphorePermit;

use super::anteroom::Recruit;
use super::link::LinkReport;
use super::process::Exit;
use crate::wire::RankName;

/// A connection that nothing was said on yet.
#[derive(Debug)]
pub(crate) enum Caller {
    /// It came to the run's own socket: a rank that was started here.
    Child(UnixStream),
    /// It came over TCP: a rank that a launcher started.
    Stranger(TcpStream, OwnedSemaphorePermit),
}

/// One event.
#[derive(Debug)]
pub(crate) enum Event {
    /// Somebody connected.
    Accepted(io::Result<Caller>),
    /// A rank of a launcher waits for an epoch.
    Enlisted(Recruit),
    /// A process that was started here ended.
    Exited(RankName, Exit),
    /// A connection ended.
    LinkEnded(LinkReport),
    /// Time passed.
    Tick,
}
