//! Forwards and votes that the device has been asked for and has not answered, in the order of its queue.
//!
//! ```text
//!  forward n-1   rows ─▶ tokens ──┬─▶ the host, which learns them while forward n runs
//!  forward n     rows ◀───────────┘   a row goes on from the token that its slot's row before chose
//! ```
//! On a CPU everything has landed when it was launched.

use super::device::Batch;
use super::error::RankError;
use super::inputs::Input;
use super::pacing::{FLIGHT_PATIENCE, PEER_DEADLINE, micros_of};
use crate::engine::{self, AllReduce, Backend, CollectiveError, Flight, KvCache, Llama, Row, Step};
use crate::group::{AnyMember, Collectives, Tag};
use crate::wire::Draw;
use lockstep_spec::agreed::Entry;
use lockstep_spec::ids::{ForwardId, SlotIndex, TokenId};
use lockstep_spec::ticket::Ticket;
use std::collections::{BTreeMap, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

/// Looks at the device that follow one another at once, before looks with a pause between.
const EAGER_LOOKS: u32 = 200;
/// Between those.
const PAUSE: Duration = Duration::from_micros(50);

/// Looks at the device, one after another.
#[derive(Default)]
pub(super) struct Looks(u32);

impl Looks {
    /// Lets other threads run, and says how long to wait beside that until the next.
    pub(super) fn pause(&mut self) -> Duration {
        self.0 = self.0.saturating_add(1);
        if self.0 > EAGER_LOOKS {
            return PAUSE;
        }
        thread::yield_now();
        Duration::ZERO
    }
}

/// What a slot's next forward starts from.
enum Last {
    /// This token, which no forward of this rank chose.
    Seed(TokenId),
    /// What the row of a forward chooses that has not landed.
    Chosen { by: ForwardId, row: usize },
    /// What a forward chose.
    Landed { by: ForwardId, token: TokenId },
}

/// A forward or a vote.
struct Flying<B: Backend> {
    launched: Instant,
    kind: Kind<B>,
}

enum Kind<B: Backend> {
    Forward {
        forward: ForwardId,
        slots: Vec<SlotIndex>,
        /// Whether a row of it goes on from the forward before.
        goes_on: bool,
        flight: Flight<B>,
    },
    Vote {
        ticket: Ticket,
        fetch: B::Fetch<u64>,
    },
}

/// All of them.
pub(super) struct Flights<B: Backend> {
    flying: VecDeque<Flying<B>>,
    last: BTreeMap<SlotIndex, Last>,
    /// The forward that was launched last.
    before: Option<ForwardId>,
    /// When one landed the last time.
    landed: Instant,
    /// When a forward did.
    forward_landed: Instant,
}

impl<B: Backend> Flights<B> {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            flying: VecDeque::new(),
            last: BTreeMap::new(),
            before: None,
            landed: now,
            forward_landed: now,
        }
    }

    /// Whether everything has landed.
    pub(super) fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }

    /// Whether one more may be launched: two forwards fly at most, since a row can go on from the one launched last alone.
    pub(super) fn has_room(&self) -> bool {
        let forwards = self.flying.iter().filter(|flying| matches!(flying.kind, Kind::Forward { .. }));
        forwards.count() <= 1
    }

    /// The slot's next forward starts from this token.
    pub(super) fn seed(&mut self, slot: SlotIndex, token: TokenId) {
        self.last.insert(slot, Last::Seed(token));
    }

    /// Launches a forward. The entry is what lets it enter the device's collectives.
    pub(super) fn launch(
        &mut self,
        (model, cache): (&mut Llama<B>, &mut KvCache<B::Buffer>),
        mesh: &mut AnyMember,
        entry: &Entry,
        (forward, mut batch): (ForwardId, Batch),
    ) -> Result<(), RankError> {
        let launched = Instant::now();
        let (mut follows, mut goes_on) = (vec![None; batch.len()], false);
        for (row, follows) in batch.iter_mut().zip(&mut follows).filter(|(row, _)| row.tokens.is_empty()) {
            let last = self.last.get(&row.slot).ok_or(RankError::NoTokens(row.slot))?;
            let (token, follow, chooser) = match last {
                Last::Seed(token) => (token.0, None, None),
                Last::Landed { by, token } => (token.0, None, Some(*by)),
                // It is replaced on the device.
                Last::Chosen { by, row } => (0, Some(*row), Some(*by)),
            };
            goes_on |= chooser.is_some() && chooser == self.before;
            *follows = follow;
            row.tokens.push(token);
        }
        let rows: Vec<Row<'_>> = batch
            .iter()
            .map(|row| Row { tokens: &row.tokens, start: row.position as usize, pages: &row.pages })
            .collect();
        let draws: Vec<Option<engine::Draw>> = batch.iter().map(|row| row.draw.and_then(drawn)).collect();
        let step = Step { rows: &rows, draws: &draws, follows: &follows };
        let flight = model.launch(cache, step, &mut Communicator { mesh, ticket: *entry.ticket() })?;
        self.before = Some(forward);
        let slots: Vec<SlotIndex> = batch.iter().map(|row| row.slot).collect();
        self.last.extend(slots.iter().zip(0..).map(|(slot, row)| (*slot, Last::Chosen { by: forward, row })));
        self.flying.push_back(Flying { launched, kind: Kind::Forward { forward, slots, goes_on, flight } });
        Ok(())
    }

    /// Enters a vote.
    pub(super) fn vote(
        &mut self,
        backend: &mut B,
        mesh: &mut AnyMember,
        entry: &Entry,
    ) -> Result<(), RankError> {
        let (launched, ticket) = (Instant::now(), *entry.ticket());
        let fetch = backend.reduce_vote(entry.payload(), &mut Communicator { mesh, ticket })?;
        self.flying.push_back(Flying { launched, kind: Kind::Vote { ticket, fetch } });
        Ok(())
    }

    /// What has landed of those that were launched first; `None` if it has not. Does not wait.
    pub(super) fn land(&mut self, model: &mut Llama<B>) -> Result<Option<Input>, RankError> {
        let Some(Flying { launched, kind }) = self.flying.front_mut() else { return Ok(None) };
        let started = self.landed.max(*launched);
        let input = match kind {
            Kind::Forward { forward, slots, goes_on, flight } => model.land(flight)?.map(|tokens| {
                let tokens: Vec<TokenId> = tokens.into_iter().map(TokenId).collect();
                for (slot, token) in slots.iter().zip(&tokens) {
                    let last = self.last.get_mut(slot).filter(|last| last.is_of(*forward));
                    last.into_iter().for_each(|last| *last = Last::Landed { by: *forward, token: *token });
                }
                let gap = launched.saturating_duration_since(self.forward_landed);
                let gap_micros = if *goes_on { micros_of(gap) } else { 0 };
                self.forward_landed = Instant::now();
                let micros = micros_of(started.elapsed());
                Input::Retired { forward: *forward, tokens, micros, gap_micros }
            }),
            Kind::Vote { ticket, fetch } => {
                let words = model.backend().fetched(fetch)?;
                words.map(|payload| Input::Voted { ticket: *ticket, payload })
            }
        };
        if input.is_some() {
            self.flying.pop_front();
            self.landed = Instant::now();
        } else if started.elapsed() > FLIGHT_PATIENCE {
            // It says what it is stuck in.
            model.backend().settle(Duration::ZERO)?;
        }
        Ok(input)
    }
}

impl Last {
    fn is_of(&self, forward: ForwardId) -> bool {
        match self {
            Self::Seed(_) | Self::Landed { .. } => false,
            Self::Chosen { by, .. } => *by == forward,
        }
    }
}

/// The draw of a row's token; `None` for the likeliest.
fn drawn(Draw { sampling, index }: Draw) -> Option<engine::Draw> {
    engine::Draw::new(sampling.seed, sampling.temperature_milli, index)
}

/// The device communicator during one forward: every collective carries the forward's ticket.
struct Communicator<'a> {
    mesh: &'a mut AnyMember,
    ticket: Ticket,
}

impl Communicator<'_> {
    /// Of a collective of so many elements.
    fn tag(&self, elements: usize) -> Tag {
        Tag { shape: elements as u64, ..super::collective::tag(&self.ticket) }
    }
}

impl AllReduce for Communicator<'_> {
    fn rank(&self) -> usize {
        self.mesh.rank()
    }

    fn size(&self) -> usize {
        self.mesh.size()
    }

    fn all_reduce_sum(&mut self, data: &mut [f32]) -> Result<(), CollectiveError> {
        self.mesh.all_reduce_sum(self.tag(data.len()), data, PEER_DEADLINE).map_err(CollectiveError::new)
    }

    fn all_reduce_min(&mut self, bids: &mut [u64]) -> Result<(), CollectiveError> {
        self.mesh.all_reduce_min(self.tag(bids.len()), bids, PEER_DEADLINE).map_err(CollectiveError::new)
    }
}
