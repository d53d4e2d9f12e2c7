//! Decode's table of legs: which are granted which pages, and the gate that every write passes.
//!
//! The table and the sink live under one lock. A page is checked against its grant and handed to
//! the sink without letting go of it, and a revocation takes the same lock: when it returns, no
//! write of that leg is in the sink and none can follow. That is the whole fence; it needs nothing
//! of the peer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::FabricError;
use super::frame::{Frame, ToDecode, ToPrefill, require_no_body};
use super::leg::{Leg, Row};
use super::outbox::Outbox;

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

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Granted { pages: Vec<u32> },
    Greeting { since: Instant },
    Ready,
}

/// The legs of one decode rank, the way to its peer, and its sink.
pub(super) struct Grants {
    sink: Sink,
    legs: BTreeMap<Leg, Stage>,
    link: Option<Arc<Outbox>>,
    dropped: u64,
}

impl Grants {
    pub(super) fn new(sink: Sink) -> Self {
        Self { sink, legs: BTreeMap::new(), link: None, dropped: 0 }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Starts the handshake of `leg`, now or when a peer is connected. A second hello is ignored.
    pub(super) fn hello(&mut self, leg: Leg) {
        if self.legs.contains_key(&leg) {
            return;
        }
        self.legs.insert(leg, Stage::Greeting { since: Instant::now() });
        // One that finds no way out expires like one that is not answered.
        drop(self.send(&ToPrefill::Hello { leg }));
    }

    /// Opens the grant of `leg` and sends its list; again for the same pages, sends it again.
    pub(super) fn publish(&mut self, leg: Leg, pages: &[u32]) -> Result<(), FabricError> {
        let stage = self.legs.get_mut(&leg).ok_or(FabricError::NotReady { leg })?;
        let fresh = match stage {
            Stage::Greeting { .. } => return Err(FabricError::NotReady { leg }),
            Stage::Granted { pages: granted } if granted != pages => {
                return Err(FabricError::Regranted { leg });
            }
            Stage::Granted { .. } => false,
            Stage::Ready => true,
        };
        let pages = pages.to_vec();
        *stage = Stage::Granted { pages: pages.clone() };
        let sent = self.send(&ToPrefill::List { leg, pages });
        if sent.is_err() && fresh {
            self.legs.insert(leg, Stage::Ready);
        }
        sent
    }

    /// Closes the grant of `leg`, and tells the peer if there is room to.
    pub(super) fn revoke(&mut self, leg: Leg) {
        if self.legs.remove(&leg).is_some() {
            drop(self.send(&ToPrefill::Revoke { leg }));
        }
    }

    /// Takes a fresh connection into use and repeats the hellos that wait for one.
    pub(super) fn connected(&mut self, link: Arc<Outbox>) {
        self.link = Some(link);
        let waiting: Vec<_> = self.greeting().map(|(leg, _)| leg).collect();
        for leg in waiting {
            drop(self.send(&ToPrefill::Hello { leg }));
        }
    }

    /// Ends every leg, since all depended on the connection that is gone.
    pub(super) fn disconnected(&mut self, why: &FabricError) {
        self.link = None;
        for leg in std::mem::take(&mut self.legs).into_keys() {
            let reason = LegFailure::Disconnected(why.clone());
            (self.sink)(DecodeInbound::LegFailed { leg, reason });
        }
        (self.sink)(DecodeInbound::PeerGone { why: why.clone() });
    }

    /// Fails the hellos that have waited for `patience`.
    pub(super) fn expire(&mut self, patience: Duration, why: &FabricError) {
        let now = Instant::now();
        let expired = self.greeting().filter(|(_, since)| now.duration_since(*since) >= patience);
        for leg in expired.map(|(leg, _)| leg).collect::<Vec<_>>() {
            self.legs.remove(&leg);
            let why = why.clone();
            (self.sink)(DecodeInbound::HandshakeFailed { leg, why });
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
        let Some(stage @ Stage::Greeting { .. }) = self.legs.get_mut(&leg) else {
            return false;
        };
        *stage = Stage::Ready;
        (self.sink)(DecodeInbound::HandshakeReady { leg });
        true
    }

    fn page(&self, leg: Leg, index: u32, page: u32, body: Body<'_>) -> bool {
        let Some(Stage::Granted { pages }) = self.legs.get(&leg) else {
            return false;
        };
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
        if !matches!(self.legs.get(&leg), Some(Stage::Granted { .. })) {
            return false;
        }
        self.legs.remove(&leg);
        (self.sink)(inbound);
        true
    }

    fn greeting(&self) -> impl Iterator<Item = (Leg, Instant)> {
        self.legs.iter().filter_map(|(leg, stage)| match stage {
            Stage::Greeting { since } => Some((*leg, *since)),
            Stage::Granted { .. } | Stage::Ready => None,
        })
    }

    /// Queues a message without waiting: the callers hold the lock that deliveries need.
    fn send(&self, message: &ToPrefill) -> Result<(), FabricError> {
        let link = self.link.as_ref().ok_or(FabricError::Disconnected)?;
        link.push(Frame::new(message, Vec::new())?, Duration::ZERO)
    }
}
