//! The decision of the decode group: pure, and the same on every rank. [`Deciding::run`] follows the order of work of the rules; each
//! kind of work is one function here or, where pages are concerned, in [`crate::decode::pages`].

use crate::brief::Brief;
use crate::configuration::GroupConfiguration;
use crate::decode::action::{Action, TokenSource};
use crate::decode::phase::{Outcome as End, Phase, Tenant};
use crate::decode::request::Request;
use crate::decode::rules::{Pressure, Rules, Work};
use crate::fault::Fault;
use crate::ids::{Attempt, Epoch, Generation, Leg, RequestId, SlotIndex, TokenId};
use crate::poll::{KvPoll, Reason};
use crate::role::{Applied, Decision};
use crate::table::{Flight, Row, State};
use crate::vote::{FirstToken, Outcome};
use crate::why::Why;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Occupant, attempt and phase of a slot.
type Sampled = Option<(Generation, Attempt, Phase)>;

/// A decision in the making.
pub(crate) struct Deciding<'a, R> {
    pub(crate) configuration: &'a GroupConfiguration,
    pub(crate) epoch: Epoch,
    pub(crate) outcome: &'a Outcome,
    brief: &'a Brief<Request>,
    /// What the vote's elements were sampled for, by slot.
    voted: Vec<Sampled>,
    pub(crate) state: State<Tenant>,
    pub(crate) actions: Vec<Action>,
    pub(crate) reasons: Vec<Why>,
    applied: Vec<Applied>,
    flight: Option<Flight>,
    retired: usize,
    copied: usize,
    pub(crate) pressure: Pressure,
    rules: PhantomData<R>,
}

impl<'a, R: Rules> Deciding<'a, R> {
    pub(crate) fn new(
        configuration: &'a GroupConfiguration,
        epoch: Epoch,
        state: State<Tenant>,
        outcome: &'a Outcome,
        brief: &'a Brief<Request>,
    ) -> Self {
        Self {
            configuration,
            epoch,
            outcome,
            brief,
            voted: state.enumerate().map(|(index, _)| sampled(&state, index)).collect(),
            state,
            actions: Vec::new(),
            reasons: Vec::new(),
            applied: Vec::new(),
            flight: None,
            retired: 0,
            copied: 0,
            pressure: Pressure { growth_lacks: false, retracted_waits: false },
            rules: PhantomData,
        }
    }

    /// Follows the order of work.
    pub(crate) fn run(mut self) -> Result<Decision<Tenant, Action>, Fault> {
        self.state.direct(self.outcome.shutdown(), self.brief.pause, &mut self.reasons);
        for work in R::order() {
            match work {
                Work::Record => self.record()?,
                Work::Retire => self.retire()?,
                Work::Copy => self.copy()?,
                Work::Abort => self.abort(),
                Work::Poll => self.poll()?,
                Work::Release => self.release(),
                Work::Grow => self.grow(),
                Work::Resume => self.resume(),
                Work::Admit => self.admit(),
                Work::Compose => self.compose(),
            }
        }
        let Self { state, actions, flight, retired, copied, reasons, applied, .. } = self;
        Ok(Decision { state, actions, flight, retired, copied, reasons, applied })
    }

    pub(crate) fn leg(&self, slot: SlotIndex) -> Leg {
        let found = self.state.slot(slot);
        let (generation, attempt) =
            found.map_or((Generation(0), Attempt(0)), |slot| (slot.generation, slot.attempt));
        Leg { epoch: self.epoch, slot, generation, attempt }
    }

    pub(crate) fn tenant(&mut self, slot: SlotIndex) -> Option<&mut Tenant> {
        self.state.slots.get_mut(slot.index())?.occupant.as_mut()
    }

    pub(crate) fn flying(&self, slot: SlotIndex) -> u32 {
        self.state.flights.naming(slot)
    }

    /// New requests take the lowest free slots; verdicts wait for their forwards.
    fn record(&mut self) -> Result<(), Fault> {
        for request in &self.brief.arrivals {
            if request.admissible(self.configuration).is_err() {
                return Err(Fault::BadBrief("an arrival that could never run"));
            }
            let same = |tenant: &Tenant| tenant.request.id == request.id && !tenant.ended();
            if !self.state.by_age(same).is_empty() {
                return Err(Fault::BadBrief("an arrival that is in the table already"));
            }
            let index = self.state.occupy(Tenant::new(*request))?;
            self.handshake(index);
            self.reasons.push(Why::Recorded);
        }
        self.state.flights.judge(&self.brief.verdicts)
    }

    /// Starts the handshake of a slot's current attempt.
    pub(crate) fn handshake(&mut self, slot: SlotIndex) {
        let leg = self.leg(slot);
        if let Some(tenant) = self.state.occupant(slot) {
            let (request, generated) = (tenant.request.id, tenant.generated);
            self.actions.push(Action::Handshake { leg, request, generated });
        }
    }

    /// Accepts the tokens of the forwards that every rank has retired.
    fn retire(&mut self) -> Result<(), Fault> {
        self.retired = self.outcome.retired();
        for index in 0..self.retired {
            let (flight, verdicts) = self.state.flights.retire()?;
            self.outcome.tokens_equal(index)?;
            for (row, (slot, stops)) in flight.rows.iter().map(|row| row.slot).zip(verdicts).enumerate() {
                self.accept(slot, TokenSource::Forward { index, row }, stops);
            }
        }
        Ok(())
    }

    /// Accepts a token of a slot's request, unless it ended meanwhile.
    fn accept(&mut self, slot: SlotIndex, source: TokenSource, stops: bool) {
        let Some(tenant) = self.tenant(slot) else { return };
        if tenant.ended() {
            self.reasons.push(Why::SurplusDropped);
            return;
        }
        let (request, index) = (tenant.request.id, tenant.generated);
        tenant.generated += 1;
        let ended = if stops {
            Some(End::Stop)
        } else {
            (tenant.generated >= tenant.request.max_tokens).then_some(End::Length)
        };
        self.actions.push(Action::Accept { slot, request, index, source, ended });
        self.reasons.push(match ended {
            None => Why::Token,
            Some(End::Length) => Why::FinishedByLength,
            Some(End::Stop | End::Aborted | End::Failed(_)) => Why::FinishedByStop,
        });
        if let Some(outcome) = ended {
            self.drain(slot, outcome);
        }
    }

    /// Ends a request: its attempt is over, and its pages wait until nothing can touch them.
    fn drain(&mut self, slot: SlotIndex, outcome: End) {
        if let Some(tenant) = self.tenant(slot) {
            tenant.phase = Phase::Draining(outcome);
            let leg = self.leg(slot);
            self.actions.push(Action::EndAttempt { leg });
        }
    }

    /// Ends a request without a further token.
    fn end(&mut self, slot: SlotIndex, request: RequestId, outcome: End) {
        self.actions.push(Action::End { request, outcome });
        self.drain(slot, outcome);
    }

    /// Takes in the copies that every rank has made: whoever's pages have all come back may run.
    fn copy(&mut self) -> Result<(), Fault> {
        self.copied = self.outcome.copied();
        self.state.host.settle(self.copied)?;
        for slot in self.state.by_age(|tenant| tenant.phase == Phase::Restoring) {
            let Some(tenant) = self.state.slots[slot.index()].occupant.as_mut() else { continue };
            if R::restored(self.state.host.loading(&tenant.pages)) {
                tenant.phase = Phase::Ready;
                self.reasons.push(Why::Restored);
            }
        }
        Ok(())
    }

    /// Ends what the brief names, and everything once the group is on its way out.
    fn abort(&mut self) {
        let (aborts, closing) = (&self.brief.aborts, self.state.closing);
        let live = |tenant: &Tenant| !tenant.ended() && (closing || aborts.contains(&tenant.request.id));
        for slot in self.state.by_age(live) {
            if let Some(request) = self.state.occupant(slot).map(|tenant| tenant.request.id) {
                self.end(slot, request, End::Aborted);
                self.reasons.push(Why::Aborted);
            }
        }
    }

    /// The agreed poll of a slot, if it was sampled for what is there now. A slot whose phase this round's brief or retirements
    /// changed is skipped.
    pub(crate) fn fresh_poll(&mut self, slot: SlotIndex) -> Option<KvPoll> {
        let now = sampled(&self.state, slot)?;
        let voted = self.voted.get(slot.index()).copied().flatten();
        if voted != Some(now) && !R::applies_stale() {
            return None;
        }
        self.applied.push(Applied { slot, generation: now.0, attempt: now.1 });
        Some(self.outcome.poll(slot))
    }

    fn poll(&mut self) -> Result<(), Fault> {
        let polled = |tenant: &Tenant| {
            matches!(
                tenant.phase,
                Phase::Bootstrapping | Phase::Handshaken | Phase::Transferring | Phase::Retracted
            )
        };
        for slot in self.state.by_age(polled) {
            let Some(poll) = self.fresh_poll(slot) else { continue };
            match poll.failure() {
                Some(reason) => self.fail(slot, reason),
                None => self.advance(slot, poll)?,
            }
        }
        Ok(())
    }

    fn fail(&mut self, slot: SlotIndex, reason: Reason) {
        if let Some(request) = self.state.occupant(slot).map(|tenant| tenant.request.id) {
            self.end(slot, request, End::Failed(reason));
            self.reasons.push(Why::Failed);
        }
    }

    fn advance(&mut self, slot: SlotIndex, poll: KvPoll) -> Result<(), Fault> {
        let Some(tenant) = self.tenant(slot) else { return Ok(()) };
        match tenant.phase {
            Phase::Bootstrapping if poll == KvPoll::WaitingForInput => {
                tenant.phase = Phase::Handshaken;
                self.reasons.push(Why::HandshakeAgreed);
                Ok(())
            }
            Phase::Transferring if poll == KvPoll::Success => {
                self.arrive(slot);
                Ok(())
            }
            Phase::Bootstrapping | Phase::Handshaken | Phase::Retracted if poll > KvPoll::WaitingForInput => {
                Err(Fault::ImpossiblePoll(slot))
            }
            Phase::Bootstrapping
            | Phase::Handshaken
            | Phase::Transferring
            | Phase::Ready
            | Phase::Running
            | Phase::Retracting
            | Phase::Retracted
            | Phase::Stored
            | Phase::Restoring
            | Phase::Draining(_) => Ok(()),
        }
    }

    /// KV is whole on every rank: the first token is accepted, if it is the same on all.
    fn arrive(&mut self, slot: SlotIndex) {
        match self.outcome.first_token(slot) {
            FirstToken::Unequal => self.fail(slot, Reason::FirstTokenDiffers),
            FirstToken::Equal(token) => {
                let (leg, configuration) = (self.leg(slot), self.configuration);
                let Some(tenant) = self.tenant(slot) else { return };
                tenant.phase = Phase::Ready;
                let stops = ends(configuration, tenant, token);
                let brings_token = R::transfer_brings_token(tenant.generated);
                self.actions.push(Action::EndAttempt { leg });
                self.reasons.push(Why::FirstToken);
                if brings_token {
                    self.accept(slot, TokenSource::FirstToken(token), stops);
                }
            }
        }
    }

    /// Makes the next plan: oldest first, whoever wants a token and has the page for it.
    fn compose(&mut self) {
        if self.state.paused {
            return self.reasons.push(Why::IdlePaused);
        }
        if self.state.flights.queue.len() >= self.configuration.flights as usize {
            return self.reasons.push(Why::IdleAhead);
        }
        let mut rows = Vec::new();
        for slot in R::plan_order(self.state.by_age(Tenant::runs)) {
            let flying = self.flying(slot);
            let (configuration, drained) = (self.configuration, self.outcome.drained(slot));
            let Some(tenant) = self.tenant(slot) else { continue };
            if !R::wants_launch(tenant, flying) {
                continue;
            }
            if !R::may_launch(drained) {
                self.reasons.push(Why::PlanOmitsUnfenced);
                continue;
            }
            let position = tenant.next_position(flying);
            if tenant.pages.len() < configuration.pages_for(position + 1) {
                self.reasons.push(Why::PlanOmitsLacking);
                continue;
            }
            tenant.phase = Phase::Running;
            rows.push(Row { slot, position, tokens: 1, pages: tenant.pages.clone() });
        }
        if rows.is_empty() {
            return self.reasons.push(Why::IdleEmpty);
        }
        self.flight = Some(self.state.flights.launch(rows));
        self.reasons.push(Why::Ran);
    }
}

fn sampled(state: &State<Tenant>, slot: SlotIndex) -> Sampled {
    let slot = state.slot(slot)?;
    slot.occupant.as_ref().map(|tenant| (slot.generation, slot.attempt, tenant.phase))
}

/// Whether a token ends a request's output.
pub(crate) fn ends(configuration: &GroupConfiguration, tenant: &Tenant, token: TokenId) -> bool {
    !tenant.request.ignore_eos && configuration.stop_tokens.contains(&token)
}
