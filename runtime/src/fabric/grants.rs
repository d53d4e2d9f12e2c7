//! Decode's legs: how far each one's handshake is, by spec's client, which are granted which pages, and the gate that every write passes.
//!
//! The table and the sink live under one lock. A page is checked against its grant and handed to
//! the sink without letting go of it, and a revocation takes the same lock: when it returns, no
//! write of that leg is in the sink and none can follow. That is the whole fence; it needs nothing
//! of the peer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockstep_spec::handshake::{Deed, Fact, HandshakeClient, Outcome};

use super::address::Address;
use super::error::FabricError;
use super::frame::{Frame, ToDecode, ToPrefill, require_no_body};
use super::leg::{Leg, Row};
use super::outbox::Outbox;
use super::retry::{Clock, Retry};

/// What the fabric reports to a decode rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeInbound<'a> {
    /// A page of a granted leg came with a wrong checksum; its bytes are withheld.
    Corrupt {
        /// The leg.
        leg: Leg,
        /// The page's index in the published list.
        index: u32,
    },
    /// A hello was not answered before its retries were used up.
    HandshakeFailed {
        /// The leg.
        leg: Leg,
        /// Why the last attempt failed.
        why: FabricError,
    },
    /// The peer answered a hello: pages may be published.
    HandshakeReady {
        /// The leg.
        leg: Leg,
    },
    /// A leg is over without a row; its grant is closed.
    LegFailed {
        /// The leg.
        leg: Leg,
        /// Why.
        reason: LegFailure,
    },
    /// A page of a granted leg. It must be stored before the sink returns: the fence ends there.
    Page {
        /// The leg.
        leg: Leg,
        /// The page's index in the published list.
        index: u32,
        /// The decode page that it belongs to.
        page: u32,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// The connection ended; the legs that depended on it were reported before.
    PeerGone {
        /// Why.
        why: FabricError,
    },
    /// The row of a granted leg; its grant is closed. The row is not judged here.
    Row {
        /// The leg that the row came under.
        leg: Leg,
        /// The row.
        row: Row,
    },
}

/// Why a leg is over without a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegFailure {
    /// The connection to prefill ended.
    Disconnected(FabricError),
    /// Prefill gave the leg up, in its own words.
    Prefill(String),
}

/// The body of a frame, and whether it has its checksum.
#[derive(Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) is_whole: bool,
}

pub(super) type Sink = Box<dyn Fn(DecodeInbound<'_>) + Send>;

/// What the handshake client wants of the thread that keeps the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// To find out where the peer is.
    Find,
    /// To connect to it.
    Open(Address),
}

/// The legs of one decode rank, the way to its peer, and its sink.
pub(super) struct Grants {
    sink: Sink,
    client: HandshakeClient<Address>,
    clock: Clock,
    /// For the keeper, until it takes it.
    errand: Option<Errand>,
    /// Why a hello that is exhausted now was not answered.
    why: FabricError,
    /// By leg: the pages that may be written, in the order of its list. Each leg's handshake is done.
    granted: BTreeMap<Leg, Vec<u32>>,
    link: Option<Arc<Outbox>>,
    dropped: u64,
}

impl Grants {
    pub(super) fn new(sink: Sink, retry: Retry) -> Self {
        let (client, clock) = (HandshakeClient::new(retry.in_ticks()), Clock::new(retry));
        let why = FabricError::Disconnected;
        Self { sink, client, clock, errand: None, why, granted: BTreeMap::new(), link: None, dropped: 0 }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Starts the handshake of `leg`, now or when a peer is connected. A second hello is ignored.
    pub(super) fn hello(&mut self, leg: Leg) {
        // Time passes in the fabric's own threads alone: it may have the sink called.
        self.tell(Fact::Hello(leg));
    }

    /// Opens the grant of `leg` and sends its list; again for the same pages, sends it again.
    pub(super) fn publish(&mut self, leg: Leg, pages: &[u32]) -> Result<(), FabricError> {
        if !self.client.is_ready(leg) {
            return Err(FabricError::NotReady { leg });
        }
        let fresh = match self.granted.get(&leg) {
            Some(granted) if granted != pages => return Err(FabricError::Regranted { leg }),
            Some(_) => false,
            None => true,
        };
        let pages = pages.to_vec();
        self.granted.insert(leg, pages.clone());
        let sent = self.send(&ToPrefill::List { leg, pages });
        if sent.is_err() && fresh {
            self.granted.remove(&leg);
        }
        sent
    }

    /// Closes the grant of `leg`, and tells the peer if there is room to.
    pub(super) fn revoke(&mut self, leg: Leg) {
        if self.client.knows(leg) {
            self.close(leg);
            drop(self.send(&ToPrefill::Revoke { leg }));
        }
    }

    /// Takes a fresh connection into use.
    pub(super) fn connected(&mut self, link: Arc<Outbox>) {
        self.link = Some(link);
        self.pass_time();
        self.tell(Fact::Opened);
    }

    /// Ends every leg, since all depended on the connection that is gone.
    pub(super) fn disconnected(&mut self, why: &FabricError) {
        self.link = None;
        self.granted.clear();
        self.pass_time();
        self.blame(why.clone());
        self.tell(Fact::Lost);
        (self.sink)(DecodeInbound::PeerGone { why: why.clone() });
    }

    /// Notes what hellos wait in vain for.
    pub(super) fn blame(&mut self, why: FabricError) {
        self.why = why;
    }

    /// Tells the client how much time has passed.
    pub(super) fn pass_time(&mut self) {
        for _ in 0..self.clock.ticks() {
            self.tell(Fact::Tick);
        }
    }

    /// When the next tick is due.
    pub(super) fn next_tick(&self) -> Instant {
        self.clock.next
    }

    /// What the client wants of the keeper.
    pub(super) fn take_errand(&mut self) -> Option<Errand> {
        self.errand.take()
    }

    /// Steps the client, and does what follows, but for the keeper's part.
    pub(super) fn tell(&mut self, fact: Fact<Address>) {
        let mut deeds = Vec::new();
        self.client.step(fact, &mut deeds);
        for deed in deeds {
            match deed {
                Deed::Find => self.errand = Some(Errand::Find),
                Deed::Open(address) => self.errand = Some(Errand::Open(address)),
                // One that finds no way out is exhausted like one that is not answered.
                Deed::Say(leg) => drop(self.send(&ToPrefill::Hello { leg })),
                Deed::Tell(leg, Outcome::Ready) => (self.sink)(DecodeInbound::HandshakeReady { leg }),
                Deed::Tell(leg, Outcome::Exhausted) => {
                    (self.sink)(DecodeInbound::HandshakeFailed { leg, why: self.why.clone() });
                }
                Deed::Tell(leg, Outcome::Disconnected) => {
                    let reason = LegFailure::Disconnected(self.why.clone());
                    (self.sink)(DecodeInbound::LegFailed { leg, reason });
                }
            }
        }
    }

    /// Hands a message of the peer to the sink, or drops and counts it.
    pub(super) fn receive(&mut self, message: ToDecode, body: Body<'_>) -> Result<(), FabricError> {
        if !matches!(message, ToDecode::Page { .. }) {
            require_no_body(body.bytes)?;
        }
        let delivered = match message {
            ToDecode::HelloAck { leg } => self.acknowledge(leg),
            ToDecode::Page { leg, index, page, .. } => self.page(leg, index, page, body),
            ToDecode::Row { leg, row } => self.finish(leg, DecodeInbound::Row { leg, row }),
            ToDecode::Fail { leg, reason } => {
                let reason = LegFailure::Prefill(reason);
                self.finish(leg, DecodeInbound::LegFailed { leg, reason })
            }
            ToDecode::Opened { .. } | ToDecode::Refused { .. } => {
                return Err(FabricError::Malformed("a second answer to the opening"));
            }
        };
        self.dropped += u64::from(!delivered);
        Ok(())
    }

    fn acknowledge(&mut self, leg: Leg) -> bool {
        let waited = !self.client.is_ready(leg);
        self.tell(Fact::Acknowledged(leg));
        waited && self.client.is_ready(leg)
    }

    fn page(&self, leg: Leg, index: u32, page: u32, body: Body<'_>) -> bool {
        let Some(pages) = self.granted.get(&leg) else { return false };
        let granted = usize::try_from(index).ok().and_then(|index| pages.get(index));
        if granted != Some(&page) {
            return false;
        }
        let bytes = body.bytes;
        (self.sink)(if body.is_whole {
            DecodeInbound::Page { leg, index, page, bytes }
        } else {
            DecodeInbound::Corrupt { leg, index }
        });
        true
    }

    fn finish(&mut self, leg: Leg, inbound: DecodeInbound<'_>) -> bool {
        if !self.granted.contains_key(&leg) {
            return false;
        }
        self.close(leg);
        (self.sink)(inbound);
        true
    }

    fn close(&mut self, leg: Leg) {
        self.granted.remove(&leg);
        self.tell(Fact::Withdrawn(leg));
    }

    /// Queues a message without waiting: the callers hold the lock that deliveries need.
    fn send(&self, message: &ToPrefill) -> Result<(), FabricError> {
        let link = self.link.as_ref().ok_or(FabricError::Disconnected)?;
        link.push(Frame::new(message, Vec::new())?, Duration::ZERO)
    }
}
