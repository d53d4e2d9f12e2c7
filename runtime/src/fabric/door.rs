//! The prefill end's door: lets its decode ranks in and turns everybody else away.
//!
//! A newer connection of a decode rank, of the same or a later epoch, replaces the one before; an older epoch, another
//! version, another pair of ranks and strangers are refused and reported, and disturb nobody who is connected.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::address::Gate;
use super::depot::Depot;
use super::error::FabricError;
use super::frame::{
    Frame, Incoming, MAGIC, TICK, Ticking, ToDecode, ToPrefill, VERSION, bounded_reason, require_before,
};
use super::outbox::Outbox;
use super::prefill::{Link, PrefillInbound, Shared};
use super::socket::Socket;
use crate::socket::{WRITE_SLICE, after, write_by};

/// How long a caller at the door may take to open the connection, and the pause after a failure of
/// the door itself.
const OPEN_DEADLINE: Duration = Duration::from_secs(1);

/// The thread at the door.
pub(super) struct Porter {
    guests: Vec<Guest>,
    gate: Gate,
}

/// A decode rank that may come in.
struct Guest {
    shared: Arc<Shared>,
    newest: u64,
    connection: Option<Connection>,
}

/// The connection in use; dropping it ends it and waits until its end is reported.
struct Connection {
    stream: Arc<Socket>,
    reader: Option<JoinHandle<()>>,
}

impl Porter {
    pub(super) fn new(links: Vec<Arc<Shared>>, gate: Gate) -> Self {
        let guest = |shared| Guest { shared, newest: 0, connection: None };
        Self { guests: links.into_iter().map(guest).collect(), gate }
    }

    /// Answers callers until the fabric stops.
    pub(super) fn keep_door(mut self) {
        while self.guests.first().is_some_and(|guest| !guest.shared.is_stopping()) {
            match self.gate.accept(TICK) {
                Ok(Some(stream)) => self.answer(stream),
                Ok(None) => {}
                Err(error) => {
                    self.reject(FabricError::io("accepting a decode rank", &error));
                    thread::sleep(OPEN_DEADLINE);
                }
            }
        }
    }

    fn answer(&mut self, stream: Socket) {
        let shares = self.gate.shares();
        match self.open(&stream).and_then(|opening| self.judge(&opening)) {
            Ok((guest, epoch)) => guest.replace(stream, epoch, shares),
            Err(why) => {
                refuse(&stream, &why);
                self.reject(why);
            }
        }
    }

    fn reject(&self, why: FabricError) {
        if let Some(guest) = self.guests.first() {
            guest.reject(why);
        }
    }

    fn open(&self, stream: &Socket) -> Result<ToPrefill, FabricError> {
        let Some(Guest { shared, .. }) = self.guests.first() else { return Err(FabricError::Disconnected) };
        let until = after(OPEN_DEADLINE);
        let tick = || require_before(until).and_then(|()| shared.go_on());
        let caller = Ticking::new(stream, tick);
        Ok(Incoming::new(caller, shared.limits).read()?.0)
    }

    /// The guest who calls, with its epoch, if it may come in.
    fn judge(&mut self, opening: &ToPrefill) -> Result<(&mut Guest, u64), FabricError> {
        let ToPrefill::Open { magic: MAGIC, version, pair, epoch } = *opening else {
            return Err(FabricError::Malformed("no opening of a connection"));
        };
        if version != VERSION {
            return Err(FabricError::Version { ours: VERSION, theirs: version });
        }
        let ours = self.guests.first().map(|guest| guest.shared.pair());
        let Some(guest) = self.guests.iter_mut().find(|guest| guest.shared.pair() == pair) else {
            return Err(
                ours.map_or(FabricError::Disconnected, |ours| FabricError::OtherPair { ours, theirs: pair })
            );
        };
        if epoch < guest.newest {
            return Err(FabricError::OldEpoch { newest: guest.newest, theirs: epoch });
        }
        Ok((guest, epoch))
    }
}

impl Guest {
    fn replace(&mut self, stream: Socket, epoch: u64, shares: bool) {
        self.newest = epoch;
        // The old one must have ended, and have said so, before the new one starts.
        drop(self.connection.take());
        match self.start(stream, epoch, shares) {
            Ok(connection) => self.connection = Some(connection),
            Err(why) => self.reject(why),
        }
    }

    fn reject(&self, why: FabricError) {
        self.shared.report(PrefillInbound::Rejected { why });
    }

    fn start(&self, stream: Socket, epoch: u64, shares: bool) -> Result<Connection, FabricError> {
        let limits = self.shared.limits;
        let outbox = Arc::new(Outbox::new(limits.queued_frames, limits.write_deadline));
        // Without that memory pages go over the stream.
        let (depot, file) = shares.then(|| Depot::create(limits.page_bytes).ok()).flatten().unzip();
        let memory = depot.as_ref().map(Depot::sizes);
        let opened = Frame::new(&ToDecode::Opened { version: VERSION, memory }, Vec::new())?;
        let opened = Frame { file, ..opened };
        outbox.push(opened, Duration::ZERO)?;
        let stream = Arc::new(stream);
        let (shared, streaming) = (Arc::clone(&self.shared), Arc::clone(&stream));
        let reader = thread::Builder::new()
            .name("fabric-prefill-reader".to_owned())
            .spawn(move || shared.serve(&streaming, Link { epoch, outbox, depot: depot.map(Arc::new) }))
            .map_err(|error| FabricError::io("starting a reader", &error))?;
        Ok(Connection { stream, reader: Some(reader) })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Fails only if the connection is gone already.
        drop(self.stream.end());
        if let Some(reader) = self.reader.take() {
            // A reader that panicked (in the sink) has nothing left to hand over.
            drop(reader.join());
        }
    }
}

fn refuse(stream: &Socket, why: &FabricError) {
    let why = bounded_reason(&why.to_string());
    if let Ok(frame) = Frame::new(&ToDecode::Refused { why }, Vec::new()) {
        // Best effort: a stranger need not understand it.
        drop(write_by(stream, &frame.head, after(WRITE_SLICE)));
    }
}
