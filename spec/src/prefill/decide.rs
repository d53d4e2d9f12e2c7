//! The decision of the prefill group. The decode side alone orders: a leg takes pages only once its page list has arrived on every rank,
//! all pages of its tokens at once, in acceptance order among the listed.

use crate::brief::Brief;
use crate::configuration::GroupConfiguration;
use crate::fault::Fault;
use crate::ids::SlotIndex;
use crate::poll::{KvPoll, Reason};
use crate::prefill::action::Action;
use crate::prefill::leg::{LegOutcome, LegPhase, LegTenant, PrefillLeg};
use crate::prefill::prefix::own;
use crate::prefill::rules::Rules;
use crate::role::{Applied, Decision};
use crate::table::{Flight, Row, State};
use crate::vote::Outcome;
use crate::why::Why;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// A decision in the making.
pub(crate) struct Deciding<'a, R> {
    pub(super) configuration: &'a GroupConfiguration,
    outcome: &'a Outcome,
    brief: &'a Brief<PrefillLeg>,
    /// Occupant and phase of each slot when the vote was sampled.
    voted: Vec<Option<(u64, LegPhase)>>,
    pub(super) state: State<LegTenant>,
    pub(super) actions: Vec<Action>,
    pub(super) reasons: Vec<Why>,
    applied: Vec<Applied>,
    rules: PhantomData<R>,
}

impl<'a, R: Rules> Deciding<'a, R> {
    pub(crate) fn new(
        configuration: &'a GroupConfiguration,
        state: State<LegTenant>,
        outcome: &'a Outcome,
        brief: &'a Brief<PrefillLeg>,
    ) -> Self {
        Self {
            configuration,
            outcome,
            brief,
            voted: state.enumerate().map(|(index, _)| sampled(&state, index)).collect(),
            state,
            actions: Vec::new(),
            reasons: Vec::new(),
            applied: Vec::new(),
            rules: PhantomData,
        }
    }

    /// Record, close, retire, complete copies, poll, release, compose.
    pub(crate) fn run(mut self) -> Result<Decision<LegTenant, Action>, Fault> {
        self.state.direct(self.outcome.shutdown(), self.brief.pause, &mut self.reasons);
        self.record()?;
        if R::closes_before_retiring() {
            self.close();
        }
        let retired = self.retire()?;
        if !R::closes_before_retiring() {
            self.close();
        }
        let copied = self.outcome.copied();
        self.state.host.settle(copied)?;
        let eligible = self.poll();
        self.release();
        let flight = self.compose(&eligible);
        let Self { state, actions, reasons, applied, .. } = self;
        Ok(Decision { state, actions, flight, retired, copied, reasons, applied })
    }

    pub(super) fn tenant(&mut self, slot: SlotIndex) -> Option<&mut LegTenant> {
        self.state.slots.get_mut(slot.index())?.occupant.as_mut()
    }

    fn record(&mut self) -> Result<(), Fault> {
        for arrival in &self.brief.arrivals {
            if arrival.keys.len() > self.most_keys(arrival.tokens) {
                return Err(Fault::BadBrief("a leg has more keys than pages that may be kept"));
            }
            let index = self.state.occupy(LegTenant::new(arrival.clone()))?;
            self.reasons.push(Why::Recorded);
            if fits(self.configuration, arrival).is_err() {
                self.end(index, LegOutcome::Failed(Reason::NeverFits));
            }
        }
        self.state.flights.judge(&self.brief.verdicts)
    }

    /// Legs whose last chunk every rank has retired are written to the decode side.
    fn retire(&mut self) -> Result<usize, Fault> {
        let retired = self.outcome.retired();
        for index in 0..retired {
            let (flight, _) = self.state.flights.retire()?;
            self.outcome.tokens_equal(index)?;
            for (row, chunk) in flight.rows.iter().enumerate() {
                self.computed(chunk, (index, row));
            }
        }
        Ok(retired)
    }

    /// Takes in a chunk that a forward has computed; `source` is the forward and the row whose token follows it.
    fn computed(&mut self, chunk: &Row, (forward, row): (usize, usize)) {
        let slot = chunk.slot;
        let Some(tenant) = self.tenant(slot) else { return };
        if tenant.phase != LegPhase::Running {
            return self.reasons.push(Why::SurplusDropped);
        }
        let (computed, tokens) = (chunk.position + chunk.tokens, tenant.arrival.tokens);
        if R::keeps(computed, tokens) {
            self.keep(slot);
        }
        if !R::may_write(computed, tokens) {
            return self.reasons.push(Why::ChunkComputed);
        }
        let Some(tenant) = self.tenant(slot) else { return };
        tenant.phase = LegPhase::Inflight;
        let (leg, pages) = (tenant.arrival.leg, tenant.pages.clone());
        self.actions.push(Action::Write { slot, leg, pages, forward, row });
        self.reasons.push(Why::Token);
    }

    /// On its way out, the group gives everything up. It comes before retirement: a leg whose writes this decision starts must not be
    /// released on a vote that was sampled before them.
    fn close(&mut self) {
        let live = |tenant: &LegTenant| !matches!(tenant.phase, LegPhase::Draining(_));
        if self.state.closing {
            for slot in self.state.by_age(live) {
                self.end(slot, LegOutcome::Failed(Reason::Revoked));
            }
        }
    }

    fn end(&mut self, slot: SlotIndex, outcome: LegOutcome) {
        let Some(tenant) = self.tenant(slot) else { return };
        tenant.phase = LegPhase::Draining(outcome);
        let leg = tenant.arrival.leg;
        self.actions.push(Action::End { slot, leg, outcome });
        self.reasons.push(match outcome {
            LegOutcome::Written => Why::LegWritten,
            LegOutcome::Failed(_) => Why::Failed,
        });
    }

    /// Applies the polls that were sampled for what is there now; returns the legs that are listed on every rank, oldest first.
    fn poll(&mut self) -> Vec<SlotIndex> {
        let mut eligible = Vec::new();
        for slot in self.state.by_age(|tenant| !matches!(tenant.phase, LegPhase::Draining(_))) {
            let found = &self.state.slots[slot.index()];
            let Some(phase) = found.occupant.as_ref().map(|tenant| tenant.phase) else { continue };
            if self.voted.get(slot.index()).copied().flatten() != Some((found.generation.0, phase)) {
                continue;
            }
            self.applied.push(Applied { slot, generation: found.generation, attempt: found.attempt });
            let poll = self.outcome.poll(slot);
            if let Some(reason) = poll.failure() {
                self.end(slot, LegOutcome::Failed(reason));
                continue;
            }
            match phase {
                LegPhase::Waiting if poll >= KvPoll::WaitingForInput || !R::waits_for_lists() => {
                    eligible.push(slot);
                }
                LegPhase::Inflight if poll == KvPoll::Success => self.end(slot, LegOutcome::Written),
                LegPhase::Waiting | LegPhase::Running | LegPhase::Inflight | LegPhase::Draining(_) => {}
            }
        }
        eligible
    }

    /// Frees pages that no forward and no write can touch any more.
    fn release(&mut self) {
        for slot in self.state.by_age(|tenant| matches!(tenant.phase, LegPhase::Draining(_))) {
            let free = R::releasable(self.state.flights.naming(slot), self.outcome.drained(slot));
            let Some(tenant) = self.state.slots[slot.index()].occupant.as_mut().filter(|_| free) else {
                continue;
            };
            let (pages, leg) = (core::mem::take(&mut tenant.pages), tenant.arrival.leg);
            let mut own = own::<R>(&self.state.cache, &tenant.arrival.keys, pages);
            self.state.pool.give(&mut own);
            self.state.slots[slot.index()].occupant = None;
            self.actions.push(Action::Release { slot, leg });
            self.reasons.push(Why::Released);
        }
    }

    fn compose(&mut self, eligible: &[SlotIndex]) -> Option<Flight> {
        if self.state.paused {
            self.reasons.push(Why::IdlePaused);
            return None;
        }
        if self.state.flights.queue.len() >= self.configuration.flights as usize {
            self.reasons.push(Why::IdleAhead);
            return None;
        }
        let mut rows = Vec::new();
        let mut budget = self.configuration.chunk_tokens;
        let running = self.state.by_age(|tenant| tenant.phase == LegPhase::Running);
        for slot in running {
            rows.extend(self.next_chunk(slot, &mut budget));
        }
        for slot in eligible {
            if budget == 0 {
                self.reasons.push(Why::PlanFull);
                break;
            }
            if !self.start(*slot) {
                self.reasons.push(Why::AdmissionLacksPages);
                if R::first_misfit_stops() {
                    break;
                }
                continue;
            }
            rows.extend(self.next_chunk(*slot, &mut budget));
        }
        if rows.is_empty() {
            self.reasons.push(Why::IdleEmpty);
            return None;
        }
        self.reasons.push(Why::Ran);
        Some(self.state.flights.launch(rows))
    }

    /// Takes all pages of a leg at once, those that are kept among them; chunk by chunk two legs could each hold half of what the other needs.
    fn start(&mut self, slot: SlotIndex) -> bool {
        let Some(arrival) = self.state.occupant(slot).map(|tenant| tenant.arrival.clone()) else {
            return false;
        };
        let (prefix, computed) = self.matched(&arrival);
        let Some(pages) = self.take_pages(prefix, self.configuration.pages_for(arrival.tokens)) else {
            return false;
        };
        let Some(tenant) = self.tenant(slot) else { return false };
        tenant.pages = pages;
        tenant.phase = LegPhase::Running;
        tenant.launched = computed;
        true
    }

    /// The next chunk of a running leg: what is left of it, as far as the plan has room. It may follow its predecessor into the queue
    /// of the device, which works in order.
    fn next_chunk(&mut self, slot: SlotIndex, budget: &mut u32) -> Option<Row> {
        let room = *budget;
        if R::waits_for_loads() && self.state.host.loading(&self.state.occupant(slot)?.pages) {
            self.reasons.push(Why::PlanOmitsLoading);
            return None;
        }
        let tenant = self.tenant(slot)?;
        let position = tenant.launched;
        let tokens = (tenant.arrival.tokens - position).min(room);
        tenant.launched += tokens;
        *budget -= tokens;
        (tokens > 0).then(|| Row { slot, position, tokens, pages: tenant.pages.clone() })
    }
}

/// Whether a leg can run at all. Unlike a request at decode's door it is recorded and ended, so that its decode side is told by every rank.
fn fits(configuration: &GroupConfiguration, arrival: &PrefillLeg) -> Result<(), Reason> {
    let pages = configuration.pages_for(arrival.tokens);
    let fits = arrival.tokens > 0 && pages <= configuration.pages as usize;
    if fits { Ok(()) } else { Err(Reason::NeverFits) }
}

fn sampled(state: &State<LegTenant>, slot: SlotIndex) -> Option<(u64, LegPhase)> {
    let slot = state.slot(slot)?;
    slot.occupant.as_ref().map(|tenant| (slot.generation.0, tenant.phase))
}
