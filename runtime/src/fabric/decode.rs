//! The decode end: connects in the background, publishes grants, and delivers what prefill writes.
//!
//! One keeper thread connects (throttled), reads, and watches the hellos' patience; a second thread
//! per connection writes. No call of this type waits for the peer.

use std::io::{self, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::FabricError;
use super::frame::{
    FabricLimits, Frame, Incoming, MAGIC, TICK, Ticking, ToDecode, ToPrefill, VERSION, is_whole,
    require_before,
};
use super::grants::{Body, DecodeInbound, Grants};
use super::leg::Leg;
use super::outbox::{Ending, Outbox};
use crate::socket::{WRITE_SLICE, after, write_by};

/// Most messages that wait to be written: they are small, and a hello of every slot must fit.
const CONTROL_FRAMES: usize = 4096;

/// How long the peer may take to answer the opening of a connection.
const OPEN_DEADLINE: Duration = Duration::from_secs(1);

/// How a handshake is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// The least time between two attempts to connect.
    pub interval: Duration,
    /// How many attempts a hello outlives; it fails `count` intervals after it was made.
    pub count: u32,
}

impl Retry {
    fn patience(self) -> Duration {
        self.interval.saturating_mul(self.count)
    }
}

/// One decode rank's end of the fabric.
///
/// The sink is called from the fabric's own threads, one call at a time, with the grants locked: it
/// must store what it gets and return, and must neither call back into the fabric nor wait for a
/// thread that does. Dropping the fabric ends the connection, and reports that like any other end.
pub struct DecodeFabric {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

struct Shared {
    path: PathBuf,
    epoch: u64,
    retry: Retry,
    limits: FabricLimits,
    grants: Mutex<Grants>,
    stopping: AtomicBool,
}

impl DecodeFabric {
    /// Starts to connect to the prefill rank that listens at `path`, and returns at once.
    ///
    /// # Errors
    /// `Io` if the keeper thread can not be started. A peer that is not there is no error here: it
    /// shows as `HandshakeFailed`.
    pub fn connect(
        path: &Path,
        epoch: u64,
        retry: Retry,
        limits: FabricLimits,
        sink: impl Fn(DecodeInbound<'_>) + Send + 'static,
    ) -> Result<Self, FabricError> {
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            epoch,
            retry,
            limits,
            grants: Mutex::new(Grants::new(Box::new(sink))),
            stopping: AtomicBool::new(false),
        });
        let keeper = Arc::clone(&shared);
        let keeper = thread::Builder::new()
            .name("fabric-decode".to_owned())
            .spawn(move || keeper.keep())
            .map_err(|error| FabricError::io("starting the fabric's thread", &error))?;
        Ok(Self { shared, keeper: Some(keeper) })
    }

    /// Starts the handshake of `leg`; the answer is `HandshakeReady` or `HandshakeFailed`, or
    /// `LegFailed` if the connection dies before.
    ///
    /// # Errors
    /// `OtherEpoch` for a leg of another epoch.
    pub fn hello(&self, leg: Leg) -> Result<(), FabricError> {
        self.shared.check_epoch(leg)?;
        self.shared.grants().hello(leg);
        Ok(())
    }

    /// Grants `pages` to `leg`, in this order, and sends the list. Repeating it with the same pages
    /// sends the list again.
    ///
    /// # Errors
    /// `NotReady` before `HandshakeReady`; `Regranted`; `Oversize`; `Disconnected` or `QueueFull`,
    /// after which the leg is granted nothing new.
    pub fn publish(&self, leg: Leg, pages: &[u32]) -> Result<(), FabricError> {
        self.shared.limits.check_pages(pages.len())?;
        self.shared.grants().publish(leg, pages)
    }

    /// Closes the grant of `leg`. When it returns, no write of the leg is in the sink and none will
    /// come; the peer is told if there is a way to tell it.
    pub fn revoke(&self, leg: Leg) {
        self.shared.grants().revoke(leg);
    }

    /// How many frames were dropped because no live grant covered them.
    pub fn dropped(&self) -> u64 {
        self.shared.grants().dropped()
    }
}

impl Drop for DecodeFabric {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(keeper) = self.keeper.take() {
            keeper.thread().unpark();
            // A keeper that panicked (in the sink) has nothing left to hand over.
            drop(keeper.join());
        }
    }
}

impl Shared {
    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_epoch(&self, leg: Leg) -> Result<(), FabricError> {
        let connected = self.epoch;
        if leg.epoch.0 == connected { Ok(()) } else { Err(FabricError::OtherEpoch { leg, connected }) }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn keep(&self) {
        while !self.is_stopping() {
            let next = after(self.retry.interval);
            let why = match self.open() {
                Ok(stream) => self.serve(&stream),
                Err(why) => why,
            };
            self.pause_until(next, &why);
        }
    }

    /// Waits for the next attempt, in ticks so that hellos expire on time.
    fn pause_until(&self, next: Instant, why: &FabricError) {
        while !self.is_stopping() {
            self.grants().expire(self.retry.patience(), why);
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left.min(TICK));
        }
    }

    fn open(&self) -> Result<UnixStream, FabricError> {
        let failed = |error| FabricError::io("connecting to the prefill rank", &error);
        let stream = UnixStream::connect(&self.path).map_err(failed)?;
        stream.set_read_timeout(Some(TICK)).map_err(failed)?;
        stream.set_write_timeout(Some(WRITE_SLICE)).map_err(failed)?;
        let open = ToPrefill::Open { magic: MAGIC, version: VERSION, epoch: self.epoch };
        let frame = Frame::new(&open, Vec::new())?;
        let until = after(OPEN_DEADLINE);
        write_by(&stream, &frame.head, until).map_err(|(_, error)| failed(error))?;
        self.await_opened(&stream, until)?;
        Ok(stream)
    }

    fn await_opened(&self, stream: &UnixStream, until: Instant) -> Result<(), FabricError> {
        let tick = || require_before(until).and_then(|()| self.tick());
        let mut incoming = Incoming::new(Ticking::new(stream, tick), self.limits);
        match incoming.read::<ToDecode>()?.0 {
            ToDecode::Opened { version: VERSION } => Ok(()),
            ToDecode::Opened { version: theirs } => Err(FabricError::Version { ours: VERSION, theirs }),
            ToDecode::Refused { why } => Err(FabricError::Refused(why)),
            ToDecode::HelloAck { .. }
            | ToDecode::Page { .. }
            | ToDecode::Row { .. }
            | ToDecode::Fail { .. } => {
                Err(FabricError::Malformed("a message before the connection was opened"))
            }
        }
    }

    /// What is due while the peer is connected or about to be: it ends the wait when stopping.
    fn tick(&self) -> io::Result<()> {
        let patience = self.retry.patience();
        self.grants().expire(patience, &FabricError::Silent);
        if self.is_stopping() {
            return Err(ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }

    /// Runs one connection to its end and says why it ended.
    fn serve(&self, stream: &UnixStream) -> FabricError {
        let outbox = Arc::new(Outbox::new(CONTROL_FRAMES, self.limits.write_deadline));
        thread::scope(|scope| {
            let ending = Ending::new(&outbox, stream);
            let writer = || outbox.write_out(stream, |_| {});
            let why = match thread::Builder::new().spawn_scoped(scope, writer) {
                Ok(_) => {
                    self.grants().connected(Arc::clone(&outbox));
                    self.read_all(stream)
                }
                Err(error) => FabricError::io("starting a writer", &error),
            };
            let why = ending.end(why);
            self.grants().disconnected(&why);
            why
        })
    }

    fn read_all(&self, stream: &UnixStream) -> FabricError {
        let mut incoming = Incoming::new(BufReader::new(Ticking::new(stream, || self.tick())), self.limits);
        loop {
            let received = incoming.read().and_then(|(message, body)| {
                // Before the lock: a revocation need not wait for a checksum.
                let body = Body { bytes: body, is_whole: is_whole(&message, body) };
                self.grants().receive(message, body)
            });
            if let Err(why) = received {
                return why;
            }
        }
    }
}
