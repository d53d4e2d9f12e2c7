//! The prefill end: listens for its decode ranks, reports their lists, and writes pages and rows.
//!
//! The porter of `door` lets each decode rank in, with one connection at a time, its [`Shared`] link; a connection has a
//! reader, which runs here, and a writer. When it ends its queue is dropped before `PeerGone` is reported, so
//! that nothing of it is written later.

use std::io::{self, BufReader, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::address::{Address, Gate};
use super::depot::Depot;
use super::door::Porter;
use super::error::FabricError;
use super::frame::{
    FabricLimits, Frame, Incoming, Ticking, ToDecode, ToPrefill, bounded_reason, checksum, require_no_body,
};
use super::leg::{Leg, Pair, Row};
use super::outbox::{Ending, Outbox};
use super::socket::Socket;

/// What the fabric reports to a prefill rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefillInbound {
    /// Decode granted these pages to `leg`; may come again for the same leg.
    List {
        /// The leg.
        leg: Leg,
        /// Decode's pages, in prompt order.
        pages: Vec<u32>,
    },
    /// The decode rank is gone; nothing that was queued for it will be written.
    PeerGone {
        /// Epoch of the decode group.
        epoch: u64,
        /// Why the connection ended.
        why: FabricError,
    },
    /// A connection was turned away at the door.
    Rejected {
        /// Why.
        why: FabricError,
    },
    /// Decode no longer wants this leg.
    Revoked {
        /// The leg.
        leg: Leg,
    },
    /// The last frame of this leg, its row or its failure, was handed to the kernel: the leg's
    /// posted writes have completed.
    Written {
        /// The leg.
        leg: Leg,
    },
}

/// Takes a report of the link with this index.
type Sink = Box<dyn Fn(usize, PrefillInbound) + Send>;

/// One prefill rank's end of the fabric.
///
/// The sink is called from the fabric's own threads, one call at a time: it must hand the report on
/// and return, and must neither call back into the fabric nor wait for a thread that does. Dropping
/// the fabric drops what is queued, and reports `PeerGone` like any other end.
pub struct PrefillFabric {
    links: Vec<Arc<Shared>>,
    address: Address,
    porter: Option<JoinHandle<()>>,
}

/// What the door, the connections with one decode rank and the callers share.
pub(super) struct Shared {
    index: usize,
    pair: Mutex<Pair>,
    pub(super) limits: FabricLimits,
    sink: Arc<Mutex<Sink>>,
    link: Mutex<Option<Link>>,
    stopping: Arc<AtomicBool>,
}

/// The connected decode rank.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) epoch: u64,
    pub(super) outbox: Arc<Outbox>,
    /// Memory that both ends share, if they do.
    pub(super) depot: Option<Arc<Depot>>,
}

impl PrefillFabric {
    /// Listens at `address` for the decode ranks of these pairs. Reports name the pair by its index; those of strangers, the first.
    ///
    /// # Errors
    /// `Io` if the socket can not be bound, for instance because a live process listens there, or
    /// if the porter thread can not be started.
    pub fn listen(
        address: &Address,
        pairs: &[Pair],
        limits: FabricLimits,
        sink: impl Fn(usize, PrefillInbound) + Send + 'static,
    ) -> Result<Self, FabricError> {
        let (gate, address) =
            Gate::open(address).map_err(|error| FabricError::io("listening for the decode rank", &error))?;
        let (sink, stopping): (Arc<Mutex<Sink>>, _) = (Arc::new(Mutex::new(Box::new(sink))), Arc::default());
        let link = |(index, pair): (usize, &Pair)| {
            let (sink, stopping) = (Arc::clone(&sink), Arc::clone(&stopping));
            Arc::new(Shared {
                index,
                pair: Mutex::new(*pair),
                limits,
                sink,
                link: Mutex::new(None),
                stopping,
            })
        };
        let links: Vec<_> = pairs.iter().enumerate().map(link).collect();
        let porter = Porter::new(links.clone(), gate);
        let porter = thread::Builder::new()
            .name("fabric-prefill".to_owned())
            .spawn(move || porter.keep_door())
            .map_err(|error| FabricError::io("starting the fabric's thread", &error))?;
        Ok(Self { links, address, porter: Some(porter) })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Lets the decode ranks of another deployment in from now on, and nobody else.
    pub fn admit(&self, deployment: u64) {
        for link in &self.links {
            link.pair.lock().unwrap_or_else(PoisonError::into_inner).deployment = deployment;
        }
    }

    /// The way to the decode rank of the pair with this index, if there is one.
    #[must_use]
    pub fn to(&self, index: usize) -> Option<PrefillLink> {
        self.links.get(index).map(|link| PrefillLink(Arc::clone(link)))
    }
}

/// The way to one decode rank.
pub struct PrefillLink(Arc<Shared>);

impl PrefillLink {
    /// Queues one page: `index` in the published list, `page` as decode numbers it. The bytes are
    /// the fabric's from here on.
    ///
    /// # Errors
    /// `Disconnected` or `OtherEpoch` if the leg's decode rank is gone; `QueueFull` after the
    /// enqueue deadline; `Oversize`.
    pub fn write_page(&self, leg: Leg, index: u32, page: u32, bytes: Vec<u8>) -> Result<(), FabricError> {
        self.0.limits.check_page(bytes.len())?;
        let link = self.0.connected(leg)?;
        let checksum = checksum(leg, index, page, &bytes);
        let held = link.depot.as_ref().and_then(|depot| depot.put(&bytes));
        let message = ToDecode::Page { leg, index, page, checksum, held };
        let body = if held.is_some() { Vec::new() } else { bytes };
        let queued = Frame::new(&message, body).and_then(|frame| self.0.queue(&link, frame));
        if let (Err(_), Some(depot), Some(held)) = (&queued, &link.depot, held) {
            depot.give_back(held.cell);
        }
        queued
    }

    /// Queues the row that completes `leg`, behind its pages; `Written` follows.
    ///
    /// # Errors
    /// As [`PrefillLink::write_page`].
    pub fn write_row(&self, leg: Leg, row: Row) -> Result<(), FabricError> {
        self.0.queue_last(leg, &ToDecode::Row { leg, row })
    }

    /// Queues the end of `leg` without a row; of `reason`, 256 bytes travel. `Written` follows.
    ///
    /// # Errors
    /// As [`PrefillLink::write_page`].
    pub fn fail(&self, leg: Leg, reason: &str) -> Result<(), FabricError> {
        let reason = bounded_reason(reason);
        self.0.queue_last(leg, &ToDecode::Fail { leg, reason })
    }
}

impl Drop for PrefillFabric {
    fn drop(&mut self) {
        self.links.iter().for_each(|link| link.stopping.store(true, Ordering::Release));
        if let Some(porter) = self.porter.take() {
            // A porter that panicked has nothing left to hand over.
            drop(porter.join());
        }
    }
}

impl Shared {
    fn queue_last(&self, leg: Leg, message: &ToDecode) -> Result<(), FabricError> {
        let mut frame = Frame::new(message, Vec::new())?;
        frame.ends = Some(leg);
        self.queue(&self.connected(leg)?, frame)
    }

    /// The connection to the decode rank of a leg.
    fn connected(&self, leg: Leg) -> Result<Link, FabricError> {
        let link = self.link().clone().ok_or(FabricError::Disconnected)?;
        require_epoch(leg, link.epoch).map(|()| link)
    }

    fn queue(&self, link: &Link, frame: Frame) -> Result<(), FabricError> {
        link.outbox.push(frame, self.limits.enqueue_deadline)
    }

    fn link(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn report(&self, inbound: PrefillInbound) {
        (self.sink.lock().unwrap_or_else(PoisonError::into_inner))(self.index, inbound);
    }

    /// The pair that a connection must name.
    pub(super) fn pair(&self) -> Pair {
        *self.pair.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl Shared {
    /// Runs one connection to its end, then reports that it ended.
    pub(super) fn serve(&self, stream: &Socket, link: Link) {
        let Link { epoch, outbox, depot } = link.clone();
        let why = thread::scope(|scope| {
            let ending = Ending::new(&outbox, stream);
            let writer = || outbox.write_out(stream, |leg| self.report(PrefillInbound::Written { leg }));
            let why = match thread::Builder::new().spawn_scoped(scope, writer) {
                Ok(_) => {
                    *self.link() = Some(link);
                    self.read_all(stream, &Link { epoch, outbox: Arc::clone(&outbox), depot })
                }
                Err(error) => FabricError::io("starting a writer", &error),
            };
            *self.link() = None;
            ending.end(why)
        });
        self.report(PrefillInbound::PeerGone { epoch, why });
    }

    fn read_all(&self, stream: &Socket, link: &Link) -> FabricError {
        let input = BufReader::new(Ticking::new(stream, || self.go_on()));
        let mut incoming = Incoming::new(input, self.limits);
        loop {
            let received = incoming.read().and_then(|(message, body)| {
                require_no_body(body)?;
                self.receive(message, link)
            });
            if let Err(why) = received {
                return why;
            }
        }
    }

    fn receive(&self, message: ToPrefill, link: &Link) -> Result<(), FabricError> {
        let Link { epoch, outbox, depot } = link;
        let epoch = *epoch;
        match message {
            ToPrefill::Hello { leg } => {
                require_epoch(leg, epoch)?;
                let answer = Frame::new(&ToDecode::HelloAck { leg }, Vec::new())?;
                outbox.push(answer, self.limits.write_deadline)?;
            }
            ToPrefill::List { leg, pages } => {
                require_epoch(leg, epoch)?;
                self.limits.check_pages(pages.len())?;
                self.report(PrefillInbound::List { leg, pages });
            }
            ToPrefill::Revoke { leg } => {
                require_epoch(leg, epoch)?;
                self.report(PrefillInbound::Revoked { leg });
            }
            ToPrefill::Taken { cell } => {
                let depot = depot.as_ref().ok_or(FabricError::Malformed("a cell where there are none"))?;
                depot.give_back(cell);
            }
            ToPrefill::Open { .. } => return Err(FabricError::Malformed("a second opening")),
        }
        Ok(())
    }

    pub(super) fn go_on(&self) -> io::Result<()> {
        if self.is_stopping() { Err(ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

fn require_epoch(leg: Leg, connected: u64) -> Result<(), FabricError> {
    if leg.epoch.0 == connected { Ok(()) } else { Err(FabricError::OtherEpoch { leg, connected }) }
}
