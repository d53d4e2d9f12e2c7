//! The decode end: connects in the background, publishes grants, and delivers what prefill writes.
//!
//! One keeper thread connects (throttled), reads, and watches the hellos' patience; a second thread
//! per connection writes. No call of this type waits for the peer.

use std::io::{self, BufReader, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::address::{Address, Finder};
use super::depot::Cells;
use super::error::FabricError;
use super::frame::{
    FabricLimits, Frame, Incoming, MAGIC, Sizes, Ticking, ToDecode, ToPrefill, VERSION, is_whole,
    require_before, require_no_body,
};
use super::grants::{Body, DecodeInbound, Errand, Grants};
use super::leg::{Leg, Pair};
use super::outbox::{Ending, Outbox};
use super::retry::Retry;
use super::socket::Socket;
use crate::handover;
use crate::socket::{after, is_transient, write_by};
use lockstep_spec::handshake::Fact;

/// Most messages that wait to be written: they are small, and a hello of every slot must fit.
const CONTROL_FRAMES: usize = 4096;

/// How long the peer may take to answer the opening of a connection.
const OPEN_DEADLINE: Duration = Duration::from_secs(1);

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The pair that the rank belongs to.
    pub pair: Pair,
    /// The epoch of its group.
    pub epoch: u64,
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

/// A connection, and the memory that its ends share.
type Opened = (Socket, Option<Cells>);

struct Shared {
    caller: Caller,
    limits: FabricLimits,
    grants: Mutex<Grants>,
    stopping: AtomicBool,
}

impl DecodeFabric {
    /// Starts to connect to the prefill rank that `finder` finds, and returns at once.
    ///
    /// # Errors
    /// `Io` if the keeper thread can not be started. A peer that is not there is no error here: it
    /// shows as `HandshakeFailed`.
    pub fn connect(
        finder: impl Finder,
        caller: Caller,
        retry: Retry,
        limits: FabricLimits,
        sink: impl Fn(DecodeInbound<'_>) + Send + 'static,
    ) -> Result<Self, FabricError> {
        let shared = Arc::new(Shared {
            caller,
            limits,
            grants: Mutex::new(Grants::new(Box::new(sink), retry)),
            stopping: AtomicBool::new(false),
        });
        let keeper = Arc::clone(&shared);
        let keeper = thread::Builder::new()
            .name("fabric-decode".to_owned())
            .spawn(move || keeper.keep(finder))
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
        let connected = self.caller.epoch;
        if leg.epoch.0 == connected { Ok(()) } else { Err(FabricError::OtherEpoch { leg, connected }) }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Does what the client wants, one thing after another.
    fn keep(&self, mut finder: impl Finder) {
        while !self.is_stopping() {
            let errand = self.grants().take_errand();
            match errand {
                None => self.await_tick(),
                Some(Errand::Find) => match finder.find(&mut || self.tick()) {
                    Ok(address) => self.tell(Fact::Found(address)),
                    Err(why) => self.fail(Fact::Unfound, why),
                },
                Some(Errand::Open(address)) => match self.open(&address) {
                    Ok((stream, cells)) => self.serve(&stream, cells.as_ref()),
                    Err(why) => self.fail(Fact::Refused, why),
                },
            }
        }
    }

    /// Tells the client what happened, and how much time has passed before it did.
    fn tell(&self, fact: Fact<Address>) {
        let mut grants = self.grants();
        grants.pass_time();
        grants.tell(fact);
    }

    fn fail(&self, fact: Fact<Address>, why: FabricError) {
        self.grants().blame(why);
        self.tell(fact);
    }

    /// Waits for a tick.
    fn await_tick(&self) {
        let next = self.grants().next_tick();
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
        self.grants().pass_time();
    }

    fn open(&self, address: &Address) -> Result<Opened, FabricError> {
        let failed = |error| FabricError::io("connecting to the prefill rank", &error);
        let stream = address.connect().map_err(failed)?;
        let Caller { pair, epoch } = self.caller;
        let open = ToPrefill::Open { magic: MAGIC, version: VERSION, pair, epoch };
        let frame = Frame::new(&open, Vec::new())?;
        let until = after(OPEN_DEADLINE);
        write_by(&stream, &frame.head, until).map_err(|(_, error)| failed(error))?;
        let cells = self.await_opened(&stream, until)?;
        Ok((stream, cells))
    }

    /// Waits until the peer has answered, and maps the memory that it shares, if it does.
    fn await_opened(&self, stream: &Socket, until: Instant) -> Result<Option<Cells>, FabricError> {
        self.grants().blame(FabricError::Silent);
        let tick = || require_before(until).and_then(|()| self.tick());
        let mut incoming = Incoming::new(Ticking::new(stream, tick), self.limits);
        match incoming.read::<ToDecode>()?.0 {
            ToDecode::Opened { version: VERSION, memory } => {
                memory.map(|sizes| self.map(stream, sizes, until)).transpose()
            }
            ToDecode::Opened { version: theirs, .. } => Err(FabricError::Version { ours: VERSION, theirs }),
            ToDecode::Refused { why } => Err(FabricError::Refused(why)),
            ToDecode::HelloAck { .. }
            | ToDecode::Page { .. }
            | ToDecode::Row { .. }
            | ToDecode::Fail { .. } => {
                Err(FabricError::Malformed("a message before the connection was opened"))
            }
        }
    }

    /// Maps the memory whose file comes next.
    fn map(&self, stream: &Socket, sizes: Sizes, until: Instant) -> Result<Cells, FabricError> {
        let failed = |error| FabricError::io("receiving the memory of the prefill rank", &error);
        loop {
            match handover::take(&stream.0) {
                Ok(Some(file)) => {
                    return Cells::open(file, sizes)
                        .map_err(|_| FabricError::Malformed("memory for pages of another size"));
                }
                Ok(None) => return Err(FabricError::Closed),
                Err(error) if is_transient(error.kind()) => {
                    require_before(until).and_then(|()| self.tick()).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// What is due while the peer is looked for or connected: the client's time passes, and the wait ends when stopping.
    fn tick(&self) -> io::Result<()> {
        self.grants().pass_time();
        if self.is_stopping() {
            return Err(ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }

    /// Runs one connection to its end.
    fn serve(&self, stream: &Socket, cells: Option<&Cells>) {
        let outbox = Arc::new(Outbox::new(CONTROL_FRAMES, self.limits.write_deadline));
        thread::scope(|scope| {
            let ending = Ending::new(&outbox, stream);
            let writer = || outbox.write_out(stream, |_| {});
            self.grants().connected(Arc::clone(&outbox));
            let why = match thread::Builder::new().spawn_scoped(scope, writer) {
                Ok(_) => self.read_all(stream, cells, &outbox),
                Err(error) => FabricError::io("starting a writer", &error),
            };
            let why = ending.end(why);
            self.grants().disconnected(&why);
        });
    }

    fn read_all(&self, stream: &Socket, cells: Option<&Cells>, outbox: &Outbox) -> FabricError {
        let mut page = Vec::new();
        let tick = || self.tick();
        let mut incoming = Incoming::new(BufReader::new(Ticking::new(stream, tick)), self.limits);
        loop {
            let received = incoming.read().and_then(|(message, body)| {
                let body = self.taken(&message, body, (cells, outbox), &mut page)?;
                // Before the lock: a revocation need not wait for a checksum.
                let body = Body { bytes: body, is_whole: is_whole(&message, body) };
                self.grants().receive(message, body)
            });
            if let Err(why) = received {
                return why;
            }
        }
    }

    /// The bytes of a page: its frame's body, or what a cell holds, which is free from here on.
    fn taken<'a>(
        &self,
        message: &ToDecode,
        body: &'a [u8],
        (cells, outbox): (Option<&Cells>, &Outbox),
        page: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FabricError> {
        let ToDecode::Page { held: Some(held), .. } = message else { return Ok(body) };
        require_no_body(body)?;
        self.limits.check_page(held.bytes as usize)?;
        cells.ok_or(FabricError::Malformed("a page in a cell where there are none"))?.read(*held, page)?;
        outbox.push(Frame::new(&ToPrefill::Taken { cell: held.cell }, Vec::new())?, Duration::ZERO)?;
        Ok(page)
    }
}
