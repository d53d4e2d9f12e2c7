//! Who is gone: the sockets over which the group was formed say so, since the kernel closes those of a process that ends.

use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::socket::is_transient;

/// Pause after a poll that the system refused.
const PAUSE: Duration = Duration::from_millis(10);

/// A thread that sleeps until a peer's end of a connection is closed.
#[derive(Debug)]
pub(super) struct Deathwatch {
    streams: Vec<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Deathwatch {
    /// Watches over `peers`, by rank, and tells `fall` of each that is gone.
    pub(super) fn start(
        peers: Vec<(usize, UnixStream)>,
        fall: impl Fn(usize) + Send + 'static,
    ) -> std::io::Result<Self> {
        let streams = peers.iter().map(|(_, stream)| stream.try_clone()).collect::<Result<_, _>>()?;
        let name = "group-deathwatch".to_owned();
        let thread = thread::Builder::new().name(name).spawn(move || watch(peers, &fall))?;
        Ok(Self { streams, thread: Some(thread) })
    }

    /// Closes the connections, by which the peers hear that this rank is gone.
    pub(super) fn close(&mut self) {
        for stream in self.streams.drain(..) {
            // Fails only if the peer closed first, which is as good.
            drop(stream.shutdown(Shutdown::Both));
        }
        if let Some(thread) = self.thread.take() {
            // A watch that panicked has nothing to hand over.
            drop(thread.join());
        }
    }
}

impl Drop for Deathwatch {
    fn drop(&mut self) {
        self.close();
    }
}

fn watch(mut peers: Vec<(usize, UnixStream)>, fall: &impl Fn(usize)) {
    while !peers.is_empty() {
        let mut polled: Vec<PollFd<'_>> =
            peers.iter().map(|(_, stream)| PollFd::new(stream, PollFlags::IN)).collect();
        if poll(&mut polled, None).is_err() {
            thread::sleep(PAUSE);
            continue;
        }
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        let gone = |(_, stream): &mut (usize, UnixStream)| ready.next().unwrap_or(false) && is_gone(stream);
        peers.extract_if(.., gone).for_each(|(rank, _)| fall(rank));
    }
}

/// Whether a connection that has something to read has its end to read. Nothing else is ever sent.
fn is_gone(stream: &mut UnixStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => !is_transient(error.kind()),
    }
}
