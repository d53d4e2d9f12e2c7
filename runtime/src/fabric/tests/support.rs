//! What the fabric's tests share: two ends in one process, and a hand-driven peer for either.

use lockstep_spec::ids::{Attempt, Epoch, Generation, SlotIndex};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::fabric::LegFailure;
use crate::fabric::address::Gate;
use crate::fabric::depot::Cells;
use crate::fabric::frame::{Frame, Incoming, MAGIC, TICK, ToDecode, ToPrefill, VERSION};
use crate::fabric::socket::Socket;
use crate::fabric::{
    Address, Caller, DecodeFabric, DecodeInbound, FabricError, FabricKind, FabricLimits, Leg, Pair,
    PrefillFabric, PrefillInbound, Retry, Row,
};
use crate::handover;
use crate::socket::reserved_port;

pub(super) const WAIT: Duration = Duration::from_secs(5);

pub(super) const LIMITS: FabricLimits = FabricLimits {
    page_bytes: 64 * 1024,
    pages_per_leg: 64,
    queued_frames: 16,
    enqueue_deadline: Duration::from_secs(2),
    write_deadline: Duration::from_secs(2),
};

pub(super) const RETRY: Retry =
    Retry { first: Duration::from_millis(50), interval: Duration::from_millis(50), count: 40 };

pub(super) const CALLER: Caller =
    Caller { pair: Pair { deployment: 7, decode: 1, prefill: 2 }, epoch: LEG.epoch.0 };

pub(super) const LEG: Leg =
    Leg { epoch: Epoch(3), slot: SlotIndex(1), generation: Generation(2), attempt: Attempt(1) };

pub(super) const ROW: Row = Row { echo: LEG, first_token: 11 };

/// A decode report that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Corrupt(Leg, u32),
    HandshakeFailed(Leg, FabricError),
    HandshakeReady(Leg),
    LegFailed(Leg, LegFailure),
    Page(Leg, u32, u32, Vec<u8>),
    PeerGone(FabricError),
    Row(Leg, Row),
}

impl From<DecodeInbound<'_>> for Heard {
    fn from(inbound: DecodeInbound<'_>) -> Self {
        match inbound {
            DecodeInbound::Corrupt { leg, index } => Self::Corrupt(leg, index),
            DecodeInbound::HandshakeFailed { leg, why } => Self::HandshakeFailed(leg, why),
            DecodeInbound::HandshakeReady { leg } => Self::HandshakeReady(leg),
            DecodeInbound::LegFailed { leg, reason } => Self::LegFailed(leg, reason),
            DecodeInbound::Page { leg, index, page, bytes } => Self::Page(leg, index, page, bytes.to_vec()),
            DecodeInbound::PeerGone { why } => Self::PeerGone(why),
            DecodeInbound::Row { leg, row } => Self::Row(leg, row),
        }
    }
}

/// Where two ends meet; nothing listens there at first.
pub(super) struct Room {
    pub(super) address: Address,
    _dir: Option<TempDir>,
    /// Keeps the port from everybody who asks for a free one, while nobody can connect to it.
    _port: Option<OwnedFd>,
}

impl Room {
    pub(super) fn of(kind: FabricKind) -> Self {
        match kind {
            FabricKind::Tcp => {
                let (port, address) = reserved_port();
                Self { address: Address::Tcp(address), _dir: None, _port: Some(port) }
            }
            FabricKind::Shm => Self::on_one_machine(Address::Shm),
            FabricKind::Unix => Self::on_one_machine(Address::Unix),
        }
    }

    fn on_one_machine(address: fn(PathBuf) -> Address) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { address: address(dir.path().join("kv.sock")), _dir: Some(dir), _port: None }
    }

    /// Listens, and answers nobody.
    pub(super) fn listener(&self) -> Gate {
        Gate::open(&self.address).unwrap().0
    }
}

/// Makes each case a test over each kind of stream.
macro_rules! on_each_fabric {
    ($($case:ident,)*) => {
        mod over_tcp {
            $(#[test]
            fn $case() {
                super::$case(&super::Room::of(crate::fabric::FabricKind::Tcp));
            })*
        }

        mod through_shared_memory {
            $(#[test]
            fn $case() {
                super::$case(&super::Room::of(crate::fabric::FabricKind::Shm));
            })*
        }

        mod over_unix_sockets {
            $(#[test]
            fn $case() {
                super::$case(&super::Room::of(crate::fabric::FabricKind::Unix));
            })*
        }
    };
}
pub(super) use on_each_fabric;

pub(super) fn prefill(address: &Address) -> (PrefillFabric, Receiver<PrefillInbound>) {
    let (sender, heard) = channel();
    let fabric = PrefillFabric::listen(address, &[CALLER.pair], LIMITS, forward(sender)).unwrap();
    (fabric, heard)
}

fn forward(sender: Sender<PrefillInbound>) -> impl Fn(usize, PrefillInbound) + Send + 'static {
    move |_, inbound| drop(sender.send(inbound))
}

pub(super) fn decode(address: &Address, retry: Retry) -> (DecodeFabric, Receiver<Heard>) {
    let (sender, heard) = channel();
    let sink = move |inbound: DecodeInbound<'_>| drop(sender.send(inbound.into()));
    let fabric = DecodeFabric::connect(address.clone(), CALLER, retry, LIMITS, sink).unwrap();
    (fabric, heard)
}

pub(super) fn next<T>(heard: &Receiver<T>) -> T {
    heard.recv_timeout(WAIT).expect("a report in time")
}

/// Brings `leg` through its handshake and grants it `pages`.
pub(super) fn grant(fabric: &DecodeFabric, heard: &Receiver<Heard>, leg: Leg, pages: &[u32]) {
    fabric.hello(leg).unwrap();
    assert_eq!(next(heard), Heard::HandshakeReady(leg));
    fabric.publish(leg, pages).unwrap();
}

/// A peer that the test drives frame by frame.
pub(super) struct RawPeer {
    pub(super) stream: Socket,
}

impl RawPeer {
    /// A decode rank at the prefill end's door.
    pub(super) fn call(address: &Address, epoch: u64, version: u32) -> Self {
        Self::call_as(address, CALLER.pair, epoch, version)
    }

    pub(super) fn call_as(address: &Address, pair: Pair, epoch: u64, version: u32) -> Self {
        let peer = Self::over(address.connect().unwrap());
        peer.send(&ToPrefill::Open { magic: MAGIC, version, pair, epoch }, &[]);
        peer
    }

    /// A prefill rank that a decode end has just opened.
    pub(super) fn answer(listener: &Gate) -> Self {
        let peer = Self::over(accept(listener));
        assert!(matches!(peer.receive(), ToPrefill::Open { .. }));
        peer.send(&ToDecode::Opened { version: VERSION, memory: None }, &[]);
        peer
    }

    /// Answers the next hello, which is of `leg`, and takes its list.
    pub(super) fn accept_leg(&self, leg: Leg) {
        assert_eq!(self.receive::<ToPrefill>(), ToPrefill::Hello { leg });
        self.send(&ToDecode::HelloAck { leg }, &[]);
    }

    /// Brings a leg of `decode` through its handshake.
    pub(super) fn shake(&self, decode: &DecodeFabric, heard: &Receiver<Heard>, leg: Leg) {
        decode.hello(leg).unwrap();
        self.accept_leg(leg);
        assert_eq!(next(heard), Heard::HandshakeReady(leg));
    }

    /// Takes the answer to the opening, and the memory that comes with it.
    pub(super) fn opened(&self) -> Option<Cells> {
        let ToDecode::Opened { memory, .. } = self.receive() else { panic!("no answer to the opening") };
        let file = || handover::take(&self.stream.0).unwrap().unwrap();
        memory.map(|sizes| Cells::open(file(), sizes).unwrap())
    }

    fn over(stream: Socket) -> Self {
        stream.set_timeouts(WAIT, WAIT).unwrap();
        Self { stream }
    }

    pub(super) fn send<M: Serialize>(&self, message: &M, body: &[u8]) {
        let frame = Frame::new(message, body.to_vec()).unwrap();
        (&self.stream).write_all(&[frame.head, frame.body].concat()).unwrap();
    }

    pub(super) fn receive<M: DeserializeOwned>(&self) -> M {
        Incoming::new(&self.stream, LIMITS).read().unwrap().0
    }

    /// Whether the other end closes the connection, reading what comes before.
    pub(super) fn is_closed(&self) -> bool {
        let mut rest = Vec::new();
        match (&self.stream).read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

fn accept(listener: &Gate) -> Socket {
    let until = Instant::now() + WAIT;
    loop {
        if let Some(stream) = listener.accept(TICK).unwrap() {
            return stream;
        }
        assert!(Instant::now() < until, "a caller in time");
        thread::sleep(Duration::from_millis(1));
    }
}
