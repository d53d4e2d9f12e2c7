//! How a rank is put together: model, communicators, what its group agrees on before the first round, fabric, device, loop.

use super::decode::{DecodeHands, sink};
use super::device::{self, Device, Queue};
use super::driver::{Driver, Front, Surroundings};
use super::error::RankError;
use super::gathering::{Dispatch, Reception};
use super::hands::Hands;
use super::inputs::{Inbox, Input, Inputs};
use super::meeting::{self, Peer};
use super::opening::{Joining, Prepare, open};
use super::pacing::{DEADLINE_TICKS, PEER_DEADLINE, Pacing};
use super::prefill::PrefillHands;
use super::site::{Communicator, Site};
use super::start::{Life, start};
use crate::engine::{Backend, BackendError, KvCache, Llama, Recut};
use crate::fabric::{FabricLimits, PrefillLink};
use crate::group::{AnyMember, Forming};
use crate::launch::{CollectivesWish, GraphsWish, Mode, RankPlan};
use crate::supervisor::say;
use crate::wire::{Keeping, RankToFront, Role, Room};
use lockstep_kernels::NAME_BYTES;
use lockstep_spec::agreed::Words;
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::digest::Digest;
use lockstep_spec::ids::{BlockKey, Epoch, RankIndex, TokenId};
use lockstep_spec::machine::RankMachine;
use lockstep_spec::start::{Offer, Preparation, Starting};
use lockstep_spec::ticket::Ticket;
use lockstep_spec::trace::{FORMAT, GroupName, Header};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a group may take to form: its ranks load the model first.
const FORMING: Duration = Duration::from_secs(60);
/// How long the device waits for room in the queue to a decode peer before it fails the leg: well below what its own peers wait for it.
const ENQUEUE_DEADLINE: Duration = Duration::from_secs(1);
/// How long each of the three waits of joining a communicator may take: all together less than a rank waits for one that prepares.
const JOINING: Duration = Duration::from_secs(15);
/// How long a device that has nothing left to do may take to let go of what it holds.
const LETTING_GO: Duration = Duration::from_secs(2);
/// Bytes of the longest control payload.
const CONTROL_BYTES: usize = 1 << 20;

/// A rank whose group has agreed on what it goes round with.
pub(super) struct Rank<'a, B: Backend> {
    plan: &'a RankPlan,
    site: &'a Site,
    front: &'a Front,
    inbox: Inbox,
    model: Llama<B>,
    cache: KvCache<B::Buffer>,
    control: AnyMember,
    configuration: Arc<GroupConfiguration>,
}

impl<'a, B: Backend> Rank<'a, B> {
    /// Loads the model, meets the other ranks, and goes through the group's start.
    pub(super) fn new(
        life: &'a Life<'_>,
        front: &'a Front,
        inbox: Inbox,
        backend: B,
        last_ticket: &mut Option<Ticket>,
    ) -> Result<Self, RankError> {
        let Life { plan, site, recorder, .. } = life;
        let mut model = Llama::load_on(backend, &plan.model, plan.rank as usize, plan.size as usize)?;
        let end_tokens = model.config().end_tokens.iter().map(|token| TokenId(*token)).collect();
        let proposal = Arc::new(proposal(plan, end_tokens));
        let starting = Starting::new(Arc::clone(&proposal), RankIndex(plan.rank))?;
        let mut control = form((plan, site), Communicator::Control, &proposal, CONTROL_BYTES)?;
        let mut preparing = Preparing { plan, proposal: &proposal, model: &mut model, cache: None };
        let configuration = open(starting, &mut control, &mut preparing, last_ticket)?;
        let cache = preparing.cache.ok_or(RankError::NoCache)?;
        check_wishes(plan, &configuration)?;
        match configuration.forwards {
            Forwards::Captured => {}
            Forwards::Eager => model.forget_captured(),
        }
        let header = header(plan, &configuration);
        recorder.open(header, plan.trace_file().as_deref()).map_err(RankError::Trace)?;
        Ok(Self { plan, site, front, inbox, model, cache, control, configuration })
    }

    /// Serves as a rank of the decode group.
    pub(super) fn decode(self, inputs: Inputs, last_ticket: &mut Option<Ticket>) -> Result<(), RankError> {
        let peers = meeting::peers(self.plan, self.model.config());
        let (queue, commands) = device::queue(self.configuration.pages, peers.len());
        let reception = Arc::new(Mutex::new(Reception::new(peers.len())));
        let connect = |(index, peer): (usize, &Peer)| {
            let (name, inbox) = (self.plan.name(), self.inbox.clone());
            let sink = sink((name, index), inbox, queue.clone(), Arc::clone(&reception));
            meeting::connect(self.plan, self.fabric_limits(), peer, sink)
        };
        let fabrics = peers.iter().enumerate().map(connect).collect::<Result<_, _>>()?;
        let hands = DecodeHands {
            fabrics,
            device: queue.clone(),
            front: self.front.clone(),
            leads: self.plan.rank == 0,
        };
        self.work(hands, (peers, Vec::new()), (queue, commands), inputs, last_ticket)
    }

    /// Serves as a rank of the prefill group.
    pub(super) fn prefill(self, inputs: Inputs, last_ticket: &mut Option<Ticket>) -> Result<(), RankError> {
        let peers = meeting::peers(self.plan, self.model.config());
        let (inbox, dispatch) = (self.inbox.clone(), Mutex::new(Dispatch::new(peers.len())));
        let sink = move |peer, inbound| {
            let mut dispatch = dispatch.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(inbound) = dispatch.hears(peer, inbound) {
                let _gone = inbox.send(Input::Prefill(inbound));
            }
        };
        let limits = self.fabric_limits();
        let (fabric, _registrar) = meeting::listen(self.plan, self.site, limits, &peers, sink)?;
        let links = (0..peers.len()).filter_map(|peer| fabric.to(peer)).collect();
        let (queue, commands) = device::queue(self.configuration.pages, peers.len());
        let hands = PrefillHands::new(queue.clone(), self.plan.rank == 0).admitting(fabric);
        self.work(hands, (peers, links), (queue, commands), inputs, last_ticket)
    }

    /// Forms the engines' communicator, starts the device, and goes round after round.
    fn work<H: Hands>(
        self,
        hands: H,
        (peers, links): (Vec<Peer>, Vec<PrefillLink>),
        (queue, commands): (Queue, std::sync::mpsc::Receiver<device::Command>),
        inputs: Inputs,
        last_ticket: &mut Option<Ticket>,
    ) -> Result<(), RankError> {
        let machine = RankMachine::new(Arc::clone(&self.configuration), RankIndex(self.plan.rank))?;
        let longest = self.longest_activation()?.max(CONTROL_BYTES);
        let mesh = form((self.plan, self.site), Communicator::Device, &self.configuration, longest)?;
        let (room, peers) = (self.room(), self.recuts(&peers));
        let Self { model, cache, control, inbox, front, .. } = self;
        let device = Device { model, cache, mesh, peers, links, inbox };
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        start("device thread", move || {
            device::work(device, &commands);
            drop(ends);
        })?;
        front.send(&RankToFront::Ready(room))?;
        let (pace, front, votes) = (Pacing::new(), front.clone(), Box::new(queue.clone()));
        let surroundings = Surroundings { control, pace, votes, device: queue, inputs, front };
        let mut driver = Driver::new(machine, hands, surroundings);
        let lived = driver.run();
        *last_ticket = driver.last_ticket().or(*last_ticket);
        if lived.is_ok() {
            // Its queue is gone with the loop. What it holds of a driver is given back before the process takes that down.
            drop(driver);
            let _late = ended.recv_timeout(LETTING_GO);
        }
        lived
    }

    /// Bytes of the longest activation that an all-reduce can carry: a plan fills every page at most.
    fn longest_activation(&self) -> Result<usize, RankError> {
        let positions = u64::from(self.configuration.pages) * u64::from(self.configuration.page_size);
        let bytes = positions * self.model.config().hidden as u64 * 4;
        let fits = u32::try_from(bytes).ok().and_then(|bytes| usize::try_from(bytes).ok());
        fits.ok_or(RankError::TooManyPages { positions, hidden: self.model.config().hidden })
    }

    /// Where in this rank's pages the heads are that peers have, too.
    fn recuts(&self, peers: &[Peer]) -> Vec<Recut> {
        let (shape, elements) = (self.cache.shape(), self.cache.shape().page_elements());
        let config = self.model.config();
        let own = config.kv_heads_of(self.plan.rank as usize, self.plan.size as usize);
        let recut =
            |peer: &Peer| Recut::new(shape, own.start, &peer.heads, self.cache.page_bytes() / elements);
        peers.iter().map(recut).collect()
    }

    /// A leg may name as many pages as either group can have.
    fn fabric_limits(&self) -> FabricLimits {
        FabricLimits {
            page_bytes: self.cache.page_bytes(),
            pages_per_leg: self.plan.pages as usize,
            queued_frames: 256,
            enqueue_deadline: ENQUEUE_DEADLINE,
            write_deadline: PEER_DEADLINE,
        }
    }

    fn room(&self) -> Room {
        Room {
            pages: self.configuration.pages,
            page_size: self.configuration.page_size,
            slots: self.configuration.slots,
            context: u32::try_from(self.model.config().context).unwrap_or(u32::MAX),
        }
    }
}

/// What the group is to have, if all its ranks do.
fn proposal(plan: &RankPlan, stop_tokens: Vec<TokenId>) -> GroupConfiguration {
    let Keeping { prefix_pages, host_pages, swap_pages } = plan.keeping;
    let (prefix_pages, host_pages) = match plan.role {
        Role::Decode => (0, swap_pages),
        Role::Prefill => (prefix_pages, host_pages),
    };
    GroupConfiguration {
        epoch: Epoch(plan.epoch),
        ranks: plan.size,
        slots: plan.slots,
        pages: plan.pages,
        page_size: plan.page_size,
        flights: match plan.mode {
            Mode::Normal => 1,
            Mode::Overlap | Mode::Stream => 2,
        },
        chunk_tokens: plan.chunk_tokens,
        prefix_pages,
        host_pages,
        brief_words: GroupConfiguration::least_brief_words(plan.slots)
            .saturating_add(BlockKey::WORDS * prefix_pages)
            .saturating_add(4096),
        deadline_ticks: DEADLINE_TICKS,
        stop_tokens,
        collectives: match plan.device.collectives() {
            CollectivesWish::Auto | CollectivesWish::Nccl => Collectives::Device,
            CollectivesWish::Host => Collectives::Host,
        },
        forwards: match (plan.role, plan.device.graphs()) {
            (Role::Decode, GraphsWish::Auto | GraphsWish::On) => Forwards::Captured,
            // Prompts come in too many lengths.
            (Role::Decode, GraphsWish::Off) | (Role::Prefill, _) => Forwards::Eager,
        },
        votes: match plan.mode {
            Mode::Normal | Mode::Overlap => Votes::Host,
            Mode::Stream => Votes::Stream,
        },
    }
}

/// Ends the group, all its ranks alike, if it has not come to what the operator demands.
fn check_wishes(plan: &RankPlan, configuration: &GroupConfiguration) -> Result<(), RankError> {
    match (plan.device.collectives(), configuration.collectives) {
        (CollectivesWish::Nccl, Collectives::Host) => return Err(RankError::NotJoined),
        (CollectivesWish::Nccl | CollectivesWish::Auto | CollectivesWish::Host, _) => {}
    }
    match (plan.role, plan.device.graphs(), configuration.forwards) {
        (Role::Decode, GraphsWish::On, Forwards::Eager) => Err(RankError::NotCaptured),
        (Role::Decode | Role::Prefill, GraphsWish::On | GraphsWish::Auto | GraphsWish::Off, _) => Ok(()),
    }
}

fn header(plan: &RankPlan, configuration: &GroupConfiguration) -> Header {
    Header {
        format: FORMAT,
        group: match plan.role {
            Role::Decode => GroupName::Decode,
            Role::Prefill => GroupName::Prefill,
        },
        rank: RankIndex(plan.rank),
        configuration: configuration.clone(),
        protocol: lockstep_spec::FINGERPRINT.to_string(),
    }
}

/// A rank's model while its group starts.
struct Preparing<'a, B: Backend> {
    plan: &'a RankPlan,
    proposal: &'a GroupConfiguration,
    model: &'a mut Llama<B>,
    cache: Option<KvCache<B::Buffer>>,
}

impl<B: Backend> Preparing<'_, B> {
    /// Says why sums do not meet on the devices.
    fn tell(&self, why: &BackendError) {
        say(&format!("lockstep {}: {why}; sums meet between the hosts", self.plan.name()));
    }

    /// Takes memory for the largest forward: a row a slot in decode, a chunk of prompts in prefill.
    fn reserve(&mut self) -> Result<(), BackendError> {
        let [slots, chunk] = [self.proposal.slots, self.proposal.chunk_tokens].map(|count| count as usize);
        match self.plan.role {
            Role::Decode => self.model.reserve(slots, slots),
            Role::Prefill => self.model.reserve(chunk, slots),
        }
    }

    /// Captures decode forwards, if the group is to replay them and its sums have a place in a graph. Says how it went.
    fn capture(&mut self, cache: &mut KvCache<B::Buffer>, connected: bool) -> bool {
        let captured = match self.proposal.forwards {
            Forwards::Eager => return false,
            Forwards::Captured if connected || self.plan.size == 1 => {
                self.model.capture(cache, self.proposal.slots as usize).map_err(|error| error.to_string())
            }
            Forwards::Captured => Err("sums that meet between the hosts are in no graph".into()),
        };
        let name = self.plan.name();
        match &captured {
            Ok(rows) => say(&format!("lockstep {name}: captured forwards of {rows:?} rows")),
            Err(why) => say(&format!("lockstep {name}: {why}; no forward is replayed")),
        }
        captured.is_ok()
    }

    /// Pages that fit this rank's memory, which depends on its share of the heads.
    fn room(&mut self) -> Result<u32, RankError> {
        let page = self.model.page_bytes(self.plan.page_size as usize)? as u64;
        let free = self.model.backend().free_bytes().map(|free| self.plan.device.share_of(free));
        let bytes = [self.plan.kv_memory, free].into_iter().flatten().min().unwrap_or(u64::MAX);
        Ok(u32::try_from(bytes / page).unwrap_or(u32::MAX))
    }

    /// The communicator's name, if this rank's device can join one; only the leader makes a name.
    fn name(&mut self) -> Result<Words, BackendError> {
        self.model.backend().joins()?;
        let bytes = if self.plan.rank == 0 { self.model.backend().name_group()? } else { [0; NAME_BYTES] };
        Ok(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    fn join(&mut self, name: &[u64]) -> Result<(), BackendError> {
        let mut bytes = [0; NAME_BYTES];
        bytes.as_chunks_mut().0.iter_mut().zip(name).for_each(|(place, word)| *place = word.to_le_bytes());
        let shard = self.model.shard();
        self.model.backend().join(&bytes, shard, JOINING)
    }
}

impl<B: Backend> Prepare for Preparing<'_, B> {
    fn offer(&mut self) -> Result<Offer, RankError> {
        let pages = self.room()?;
        let name = match self.plan.device.collectives() {
            CollectivesWish::Auto | CollectivesWish::Nccl => {
                self.name().inspect_err(|why| self.tell(why)).ok()
            }
            CollectivesWish::Host => None,
        };
        Ok(Offer { pages, connects: name.is_some(), name: name.unwrap_or_default() })
    }

    fn prepare(&mut self, pages: u32, joining: Option<Joining>) -> Result<Preparation, RankError> {
        let connected = match joining {
            Some((_entry, name)) => self.join(&name).inspect_err(|why| self.tell(why)).is_ok(),
            None => false,
        };
        self.reserve()?;
        let mut cache = self.model.cache(self.plan.page_size as usize, pages as usize)?;
        let captured = self.capture(&mut cache, connected);
        self.cache = Some(cache);
        Ok(Preparation { connected, captured })
    }

    fn disconnect(&mut self) {
        // A graph has collectives of the communicator.
        self.model.forget_captured();
        self.model.backend().leave();
    }
}

fn form(
    (plan, site): (&RankPlan, &Site),
    communicator: Communicator,
    configuration: &GroupConfiguration,
    payload_limit: usize,
) -> Result<AnyMember, RankError> {
    let forming = Forming {
        dir: plan.run_directory.clone(),
        name: format!("{}.{}", plan.role, communicator.name()),
        rank: plan.rank as usize,
        size: plan.size as usize,
        epoch: plan.epoch,
        fingerprint: fingerprint(plan, configuration),
        payload_limit,
        deadline: FORMING.max(PEER_DEADLINE),
    };
    site.form(communicator, plan.transport, &forming)
}

/// What all ranks of a group must have in common: the protocol, the configuration, and what computes.
fn fingerprint(plan: &RankPlan, configuration: &GroupConfiguration) -> [u8; 32] {
    let mut bytes = [0; 32];
    let words = [
        configuration.fingerprint(),
        Digest::of(lockstep_spec::FINGERPRINT),
        Digest::of(env!("CARGO_PKG_VERSION")),
        Digest::of(&plan.device.kind()),
    ];
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}
