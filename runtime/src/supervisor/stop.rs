//! The order to stop, and the signals that give it.

use std::convert::Infallible;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How urgent the end is. Only ever grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// No end is asked for.
    Run,
    /// Running requests get time to end; then ranks are asked to leave, and given time.
    Leave,
    /// Ranks are killed at once.
    Now,
}

/// Takes SIGTERM and SIGINT over and gives what hears them: the first asks for an orderly end, the second for an end at once.
///
/// # Errors
/// The system's reason, when the signals can not be taken over.
pub fn on_signals(order: watch::Sender<Stop>) -> io::Result<impl Future<Output = Infallible>> {
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    Ok(hear(terminate, interrupt, order))
}

async fn hear(mut terminate: Signal, mut interrupt: Signal, order: watch::Sender<Stop>) -> Infallible {
    for stop in [Stop::Leave, Stop::Now] {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        order.send_if_modified(|current| std::mem::replace(current, stop.max(*current)) < stop);
    }
    std::future::pending().await
}
