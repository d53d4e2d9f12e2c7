//! The device of a rank: a thread that works through a queue in order, as a stream does. Forwards run their own collectives there, on the
//! device communicator, while rounds go on; page traffic queues behind them, so a fence that comes back has nothing in front of it that the
//! device has yet to be asked.
//!
//! A GPU has a queue of its own, and the next forward is launched while one runs: what is launched is a *flight* until it has landed.

use super::error::RankError;
use super::flights::{Flights, Looks};
use super::gathering::unsound;
use super::inputs::{Inbox, Input};
use super::landing::{Landed, Landing};
use crate::engine::{Backend, CacheError, KvCache, Llama, Recut};
use crate::fabric::PrefillLink;
use crate::group::{AnyMember, Collectives};
use crate::wire::Draw;
use lockstep_spec::agreed::Entry;
use lockstep_spec::decode::evidence::LegFact;
use lockstep_spec::host::{Copy, Direction};
use lockstep_spec::ids::{ForwardId, HostPageId, Leg, PageId, SlotIndex, TokenId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;

/// Commands that may wait for the device beside the pages that land.
const QUEUE: usize = 1024;

/// One row of a batch.
#[derive(Debug)]
pub(super) struct BatchRow {
    /// The request's slot.
    pub(super) slot: SlotIndex,
    /// Position of the first input token.
    pub(super) position: u32,
    /// Input tokens; none means the token that this slot's last row, or its seed, left.
    pub(super) tokens: Vec<u32>,
    /// The slot's pages.
    pub(super) pages: Vec<u32>,
    /// How the token after its positions is chosen; the likeliest, if nothing is said.
    pub(super) draw: Option<Draw>,
}

/// What one forward computes.
pub(super) type Batch = Vec<BatchRow>;

/// One command of the device's queue.
pub(super) enum Command {
    /// Reduce a vote.
    Vote(Entry),
    /// Run a forward. The entry is what lets it enter the device's collectives.
    Forward {
        /// The entry.
        entry: Entry,
        /// The forward.
        forward: ForwardId,
        /// Its batch.
        batch: Batch,
    },
    /// The next forward of a slot starts from this token.
    Seed {
        /// The slot.
        slot: SlotIndex,
        /// The token.
        token: TokenId,
    },
    /// These pages of a leg are to land.
    Expect {
        /// The leg.
        leg: Leg,
        /// Which.
        pages: BTreeSet<u32>,
    },
    /// A page landed, or the part of it that a peer has.
    WritePage {
        /// The leg.
        leg: Leg,
        /// Which peer, by index.
        peer: usize,
        /// The page.
        page: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Nothing of the leg is to land any more.
    Fence {
        /// The leg.
        leg: Leg,
    },
    /// Read a leg's pages and write them to the decode side, then its row.
    Send {
        /// The leg.
        leg: Leg,
        /// The pages here.
        from: Vec<PageId>,
        /// The pages there.
        to: Vec<u32>,
        /// The token sampled after the last position.
        token: TokenId,
    },
    /// Tell the decode side that a leg failed here, behind what was posted for it.
    Fail {
        /// The leg.
        leg: Leg,
        /// Why.
        reason: &'static str,
    },
    /// Copy a page between the cache and the host.
    Copy(Copy),
    /// Nothing posted for this leg will be written any more.
    Abandon {
        /// The leg.
        leg: Leg,
    },
}

/// The rank loop's end of the device's queue.
#[derive(Clone)]
pub(super) struct Queue(SyncSender<Command>);

impl Queue {
    /// Queues a command, behind all others.
    pub(super) fn push(&self, command: Command) -> Result<(), RankError> {
        self.0.send(command).map_err(|_| RankError::ThreadGone("device thread"))
    }
}

/// Where votes are entered that are reduced in the device's queue.
pub(super) trait InStream {
    /// Enters one, behind all that was queued before. What comes out of it is an input.
    fn enter(&mut self, entry: Entry) -> Result<(), RankError>;

    /// Notes that the loop waits for what comes out.
    fn awaited(&mut self) {}
}

impl InStream for Queue {
    fn enter(&mut self, entry: Entry) -> Result<(), RankError> {
        self.push(Command::Vote(entry))
    }
}

/// The device's queue and the end that the device works through. Every page of the pool may land at once, in a part from each peer, without filling it: the
/// fabric's sink must not wait for the device while the rank loop waits for the sink.
pub(super) fn queue(pages: u32, peers: usize) -> (Queue, Receiver<Command>) {
    let parts = (pages as usize).saturating_mul(peers);
    let (sender, receiver) = sync_channel(QUEUE.saturating_add(parts));
    (Queue(sender), receiver)
}

/// What the device has.
pub(super) struct Device<B: Backend> {
    /// This rank's share of the model.
    pub(super) model: Llama<B>,
    /// Its pages.
    pub(super) cache: KvCache<B::Buffer>,
    /// The device communicator.
    pub(super) mesh: AnyMember,
    /// By peer of the other group: the heads of this rank's pages that it has, too.
    pub(super) peers: Vec<Recut>,
    /// The ways to them, on the prefill side.
    pub(super) links: Vec<PrefillLink>,
    /// Where reports go.
    pub(super) inbox: Inbox,
}

/// The device at work.
struct Worker<B: Backend> {
    device: Device<B>,
    flights: Flights<B>,
    /// By leg: what has not landed yet.
    expected: BTreeMap<Leg, Landing>,
    /// Pages on the host.
    host: BTreeMap<HostPageId, Vec<u8>>,
}

/// Works through the queue until the rank loop is gone, or something fails.
pub(super) fn work<B: Backend>(device: Device<B>, commands: &Receiver<Command>) {
    let inbox = device.inbox.clone();
    let (flights, expected, host) = (Flights::new(), BTreeMap::new(), BTreeMap::new());
    let mut worker = Worker { device, flights, expected, host };
    if let Err(error) = worker.work(commands) {
        // The rank loop may be gone already, and then nobody waits for the reason.
        let _gone = inbox.send(Input::DeviceFailed(error));
    }
}

impl<B: Backend> Worker<B> {
    fn work(&mut self, commands: &Receiver<Command>) -> Result<(), RankError> {
        while let Some(command) = self.next(commands)? {
            self.make_room_for(&command)?;
            self.take(command)?;
        }
        Ok(())
    }

    /// The next command; what lands before it is reported.
    fn next(&mut self, commands: &Receiver<Command>) -> Result<Option<Command>, RankError> {
        let mut looks = Looks::default();
        loop {
            self.report_landed()?;
            if self.flights.is_empty() {
                return Ok(commands.recv().ok());
            }
            match commands.recv_timeout(looks.pause()) {
                Ok(command) => return Ok(Some(command)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Waits until as much has landed as the command needs.
    fn make_room_for(&mut self, command: &Command) -> Result<(), RankError> {
        let Device { model, mesh, .. } = &mut self.device;
        let ahead = model.backend().runs_ahead(mesh.size());
        let mut looks = Looks::default();
        loop {
            let has_room = match command {
                Command::Forward { .. } | Command::Vote(_) if ahead => self.flights.has_room(),
                Command::Forward { .. } | Command::Vote(_) => self.flights.is_empty(),
                // They read pages back.
                Command::Send { .. } | Command::Copy(Copy { direction: Direction::Store, .. }) => {
                    self.flights.is_empty()
                }
                Command::Copy(Copy { direction: Direction::Load, .. }) => true,
                Command::Seed { .. } | Command::Expect { .. } | Command::WritePage { .. } => true,
                Command::Fence { .. } | Command::Fail { .. } | Command::Abandon { .. } => true,
            };
            if has_room {
                return Ok(());
            }
            thread::sleep(looks.pause());
            self.report_landed()?;
        }
    }

    fn report_landed(&mut self) -> Result<(), RankError> {
        while let Some(landed) = self.flights.land(&mut self.device.model)? {
            self.report(landed)?;
        }
        Ok(())
    }

    fn take(&mut self, command: Command) -> Result<(), RankError> {
        let Device { model, cache, mesh, .. } = &mut self.device;
        match command {
            Command::Vote(entry) => self.flights.vote(model.backend(), mesh, &entry),
            Command::Forward { entry, forward, batch } => {
                self.flights.launch((model, cache), mesh, &entry, (forward, batch))
            }
            Command::Seed { slot, token } => {
                self.flights.seed(slot, token);
                Ok(())
            }
            Command::Expect { leg, pages } => {
                self.expected.insert(leg, Landing::new(pages, self.device.peers.len()));
                Ok(())
            }
            Command::WritePage { leg, peer, page, bytes } => self.land(leg, (page, peer), bytes),
            Command::Fence { leg } => {
                self.expected.remove(&leg);
                self.report(Input::Leg(leg, LegFact::Fenced))
            }
            Command::Send { leg, from, to, token } => self.send(leg, &from, &to, token),
            Command::Fail { leg, reason } => {
                for link in &self.device.links {
                    // A decode side that cannot be told has given the leg up, or notices that its connection is gone.
                    let _unreachable = link.fail(leg, reason);
                }
                Ok(())
            }
            Command::Copy(copy) => self.copy(copy),
            Command::Abandon { leg } => self.report(Input::WriteFailed(leg)),
        }
    }

    fn report(&self, input: Input) -> Result<(), RankError> {
        self.device.inbox.send(input).map_err(|_| RankError::ThreadGone("rank loop"))
    }

    fn land(&mut self, leg: Leg, (page, peer): (u32, usize), part: Vec<u8>) -> Result<(), RankError> {
        let Device { model, cache, peers, .. } = &mut self.device;
        let Some((landing, recut)) = self.expected.get_mut(&leg).zip(peers.get(peer)) else { return Ok(()) };
        let bytes = match landing.take((page, peer), part, recut, cache.page_bytes()) {
            Landed::Nothing => return Ok(()),
            Landed::Page(bytes) => bytes,
            Landed::Misshapen => return self.report(Input::Leg(leg, unsound(leg))),
        };
        let landed = landing.is_complete();
        match model.write_page(cache, page, &bytes) {
            Ok(()) => {}
            Err(error @ CacheError::Backend(_)) => return Err(error.into()),
            Err(CacheError::Page { .. } | CacheError::PageBytes { .. } | CacheError::Size { .. }) => {
                return self.report(Input::Leg(leg, unsound(leg)));
            }
        }
        if !landed {
            return Ok(());
        }
        self.expected.remove(&leg);
        self.report(Input::Leg(leg, LegFact::PagesLanded))
    }

    /// Copies a page behind all that was queued before.
    fn copy(&mut self, Copy { id, direction, page, host }: Copy) -> Result<(), RankError> {
        let Device { model, cache, .. } = &mut self.device;
        match direction {
            Direction::Store => {
                self.host.insert(host, model.read_page(cache, page.0)?);
            }
            Direction::Load => {
                let bytes = self.host.get(&host).ok_or(RankError::NoHostPage(host))?;
                model.write_page(cache, page.0, bytes)?;
            }
        }
        self.report(Input::Copied(id))
    }

    /// Posts a leg's writes. What fails here fails the leg, not the rank.
    fn send(&mut self, leg: Leg, from: &[PageId], to: &[u32], token: TokenId) -> Result<(), RankError> {
        let Device { model, cache, peers, links, .. } = &mut self.device;
        for (index, (PageId(source), target)) in (0..).zip(from.iter().zip(to)) {
            let page = model.read_page(cache, *source)?;
            let parts = links.iter().zip(peers.iter());
            let mut posted =
                parts.map(|(link, recut)| link.write_page(leg, index, *target, recut.taken(&page)));
            if posted.any(|posted| posted.is_err()) {
                return self.report(Input::WriteFailed(leg));
            }
        }
        let row = crate::fabric::Row { echo: leg, first_token: token.0 };
        let posted = links.iter().map(|link| link.write_row(leg, row));
        let failed = posted.filter(Result::is_err).count() > 0;
        if failed { self.report(Input::WriteFailed(leg)) } else { Ok(()) }
    }
}
