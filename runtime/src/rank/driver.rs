//! The rank loop. Its turn is fixed: drain inputs, step, perform effects, park.

use super::collective::meet;
use super::device::{Batch, Command, InStream, Queue};
use super::error::RankError;
use super::hands::{FactOf, Hands};
use super::inputs::{Input, Inputs};
use super::pacing::{BELL_PATIENCE, FORWARD_PATIENCE, PEER_DEADLINE, Pace, VOTE_PATIENCE, micros_of};
use super::recorder::Recorder;
use crate::group::Collectives;
use crate::wire::{FrontToRank, Progress, RankSender, RankToFront};
use lockstep_spec::agreed::Entry;
use lockstep_spec::ids::ForwardId;
use lockstep_spec::machine::{Fact, Local, Position, RankMachine};
use lockstep_spec::program::{Effect, Event, RankProgram};
use lockstep_spec::role::Role;
use lockstep_spec::ticket::{Communicator, Kind, Site, SiteName, Ticket};
use lockstep_spec::why::Why;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The connection to the front end, shared by the loop and a role's hands.
#[derive(Clone)]
pub(super) struct Front(Arc<Mutex<RankSender>>);

impl Front {
    pub(super) fn new(sender: RankSender) -> Self {
        Self(Arc::new(Mutex::new(sender)))
    }

    pub(super) fn send(&self, message: &RankToFront) -> Result<(), RankError> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(sender.send(message)?)
    }
}

type EventOf<R> = Event<FactOf<R>, Site>;
type EffectOf<R> = Effect<Entry, Local<<R as Role>::Effect>>;

/// How a turn ended.
enum Turned {
    /// The round is over.
    Round,
    /// The group left.
    Left,
}

/// What the rank loop waits for and speaks to.
pub(super) struct Surroundings<C, P> {
    pub(super) control: C,
    pub(super) pace: P,
    pub(super) votes: Box<dyn InStream>,
    pub(super) device: Queue,
    pub(super) inputs: Inputs,
    pub(super) front: Front,
}

/// One rank at work.
pub(super) struct Driver<H: Hands, C, P> {
    machine: RankMachine<H::Role>,
    hands: H,
    control: C,
    votes: Box<dyn InStream>,
    device: Queue,
    inputs: Inputs,
    front: Front,
    recorder: Arc<Recorder>,
    pace: P,
    counters: Progress,
    /// A forward that is ready, and not entered.
    launching: Option<(ForwardId, Batch)>,
    /// When the forwards were launched that have not retired here.
    launched: VecDeque<Instant>,
    last_ticket: Option<Ticket>,
    /// The vote in the device's queue that it has entered, and whose outcome it has not taken; and when.
    voting: Option<(Ticket, Instant)>,
    /// What broke on this rank, until the group has been told by vote.
    broken: Option<RankError>,
    digest: u64,
}

impl<H: Hands, C: Collectives, P: Pace> Driver<H, C, P> {
    pub(super) fn new(
        machine: RankMachine<H::Role>,
        hands: H,
        Surroundings { control, pace, votes, device, inputs, front }: Surroundings<C, P>,
    ) -> Self {
        let recorder = inputs.recorder();
        Self {
            machine,
            hands,
            control,
            votes,
            device,
            inputs,
            front,
            recorder,
            pace,
            counters: Progress::default(),
            launching: None,
            launched: VecDeque::new(),
            last_ticket: None,
            voting: None,
            broken: None,
            digest: 0,
        }
    }

    /// The ticket that this rank entered last, or awaits.
    pub(super) fn last_ticket(&self) -> Option<Ticket> {
        self.voting.map(|(ticket, _)| ticket).or(self.last_ticket)
    }

    /// Goes round after round until the group leaves.
    pub(super) fn run(&mut self) -> Result<(), RankError> {
        loop {
            self.drain()?;
            self.tell_progress()?;
            if !self.park()? {
                continue;
            }
            self.drain()?;
            match self.turn().map_err(|error| self.broken.take().unwrap_or(error))? {
                Turned::Round => {}
                Turned::Left => return Ok(()),
            }
        }
    }

    /// Takes every input that is there.
    fn drain(&mut self) -> Result<(), RankError> {
        self.check_forwards()?;
        while let Some(input) = self.inputs.next() {
            self.take(input)?;
        }
        self.tick()
    }

    /// Ends the wait for a device that hangs.
    fn check_forwards(&self) -> Result<(), RankError> {
        let oldest = self.launched.front().into_iter().chain(self.voting.as_ref().map(|(_, since)| since));
        let waited = oldest.map(Instant::elapsed).find(|waited| *waited > FORWARD_PATIENCE);
        waited.map_or(Ok(()), |waited| Err(RankError::ForwardHangs { seconds: waited.as_secs() }))
    }

    fn tick(&mut self) -> Result<(), RankError> {
        while self.pace.ticks() {
            self.feed(vec![Fact::Tick])?;
        }
        Ok(())
    }

    fn take(&mut self, input: Input) -> Result<(), RankError> {
        self.pace.stir();
        match input {
            Input::FrontGone(error) => Err(error.into()),
            Input::DeviceFailed(error) => {
                self.broken = Some(error.own()?);
                self.feed(vec![Fact::Broken])
            }
            Input::Retired { forward, tokens, micros, gap_micros } => {
                self.launched.pop_front();
                self.counters.forwards += 1;
                self.counters.forward_micros_total += micros;
                self.counters.forward_gap_micros_total += gap_micros;
                self.feed(vec![Fact::Retired { forward, tokens }])
            }
            Input::Copied(copy) => self.feed(vec![Fact::Copied(copy)]),
            // Nobody waits for it: the machine says so.
            Input::Voted { ticket, payload } => {
                self.perform(Event::Completed { ticket, payload }).map(|_| ())
            }
            Input::Front(FrontToRank::Pause) => self.feed(vec![Fact::PauseWanted(true)]),
            Input::Front(FrontToRank::Resume) => self.feed(vec![Fact::PauseWanted(false)]),
            Input::Front(FrontToRank::Dismiss | FrontToRank::Shutdown) => {
                self.feed(vec![Fact::ShutdownWanted])
            }
            input @ (Input::Front(_) | Input::Leg(..) | Input::Prefill(_) | Input::WriteFailed(_)) => {
                let mut facts = Vec::new();
                self.hands.take(input, &mut facts)?;
                self.feed(facts)
            }
        }
    }

    /// Steps the machine on facts. Facts enter no collective.
    fn feed(&mut self, facts: Vec<FactOf<H::Role>>) -> Result<(), RankError> {
        for fact in facts {
            self.perform(Event::Fact(fact))?;
        }
        Ok(())
    }

    /// Waits until a round is due. `false`: something else came first.
    fn park(&mut self) -> Result<bool, RankError> {
        // Whoever launches goes on at once: the leader rings no bell for a vote in the device's queue.
        if !self.machine.leads() && !self.machine.launches_next() {
            return Ok(self.control.wait_for_leader(BELL_PATIENCE)? || self.pace.overdue());
        }
        let busy = !self.machine.state().value().idle();
        let pause = self.pace.due_in(busy);
        if pause.is_zero() {
            return Ok(true);
        }
        match self.inputs.wait(pause)? {
            Some(input) => self.take(input).map(|()| false),
            None => Ok(true),
        }
    }

    /// One round.
    fn turn(&mut self) -> Result<Turned, RankError> {
        let before = self.digest;
        let busy = !self.machine.state().value().idle();
        let agreed = self.perform(Event::Turn)?;
        self.digest = self.machine.state().value().digest();
        let left = *self.machine.position() == Position::Left;
        self.counters.epoch = self.last_ticket.map_or(0, |ticket| ticket.epoch.0);
        self.counters.round = self.machine.round().0;
        self.counters.rounds_with_work += u64::from(busy);
        if busy {
            self.counters.agreement_micros_total += agreed;
        }
        self.pace.round_ended(self.digest != before);
        Ok(if left { Turned::Left } else { Turned::Round })
    }

    /// Steps the machine on an event and performs what follows from it, completions included. Returns the time spent in control
    /// collectives, in microseconds.
    fn perform(&mut self, event: EventOf<H::Role>) -> Result<u64, RankError> {
        let (mut micros, nested) = (0, self.voting.is_some());
        let mut pending = VecDeque::new();
        self.step(event, &mut pending);
        loop {
            while let Some(effect) = pending.pop_front() {
                let mut facts = Vec::new();
                if let Some(completion) = self.act(effect, &mut facts, &mut micros)? {
                    self.step(completion, &mut pending);
                }
                facts.into_iter().for_each(|fact| self.step(Event::Fact(fact), &mut pending));
            }
            if nested || self.voting.is_none() {
                return Ok(micros);
            }
            let completion = self.await_vote()?;
            self.voting = None;
            self.counters.votes += 1;
            self.counters.votes_in_stream += 1;
            self.step(completion, &mut pending);
        }
    }

    /// Waits for a vote in the device's queue: for as long as the forward before it takes. What comes before the outcome is taken first.
    fn await_vote(&mut self) -> Result<EventOf<H::Role>, RankError> {
        loop {
            self.check_forwards()?;
            self.votes.awaited();
            let input = match self.inputs.next() {
                Some(input) => Some(input),
                None => {
                    self.tick()?;
                    self.tell_progress()?;
                    self.inputs.wait(VOTE_PATIENCE)?
                }
            };
            match input {
                Some(Input::Voted { ticket, payload }) => return Ok(Event::Completed { ticket, payload }),
                Some(input) => self.take(input)?,
                None => {}
            }
            if let Some(error) = self.broken.take() {
                return Err(error);
            }
        }
    }

    fn step(&mut self, event: EventOf<H::Role>, pending: &mut VecDeque<EffectOf<H::Role>>) {
        self.recorder.took::<H::Role>(&event);
        let mut effects = Vec::new();
        self.machine.step(event, &mut effects);
        pending.extend(effects);
    }

    /// Performs one effect; returns the completion that it waited for, if any.
    fn act(
        &mut self,
        effect: EffectOf<H::Role>,
        facts: &mut Vec<FactOf<H::Role>>,
        micros: &mut u64,
    ) -> Result<Option<EventOf<H::Role>>, RankError> {
        match effect {
            Effect::Enter(entry) => {
                let started = Instant::now();
                let completion = self.enter(entry)?;
                if completion.is_some() {
                    *micros += micros_of(started.elapsed());
                }
                Ok(completion)
            }
            Effect::Local(local) => {
                self.recorder.did::<H::Role>(&local);
                self.do_alone(local, facts).map(|()| None)
            }
            Effect::Fault(fault) => Err(fault.into()),
            Effect::Leave => Ok(None),
        }
    }

    fn do_alone(
        &mut self,
        local: Local<<H::Role as Role>::Effect>,
        facts: &mut Vec<FactOf<H::Role>>,
    ) -> Result<(), RankError> {
        match local {
            Local::Launch { forward, rows } => {
                // Now: what comes before it is entered may be of later requests in its slots.
                self.launching = Some((forward, self.hands.batch(&self.machine, rows)?));
                Ok(())
            }
            Local::Decided(whys) => {
                let count = |of: Why| whys.iter().filter(|why| **why == of).count() as u64;
                self.counters.pages_matched += count(Why::PrefixMatched);
                self.counters.pages_loaded += count(Why::BlockLoaded);
                self.counters.restored += count(Why::Restored);
                Ok(())
            }
            Local::Role(effect) => self.hands.perform(effect, facts),
        }
    }

    /// Enters a collective, and waits for what comes out of it; a forward comes out of the device's queue.
    fn enter(&mut self, entry: Entry) -> Result<Option<EventOf<H::Role>>, RankError> {
        let ticket = *entry.ticket();
        self.last_ticket = Some(ticket);
        self.recorder.entered(entry.clone().into());
        if ticket.site.awaited() && ticket.site.communicator() == Communicator::Device {
            self.voting = Some((ticket, Instant::now()));
            return self.votes.enter(entry).map(|()| None);
        }
        let entered = Instant::now();
        let payload = meet(&mut self.control, &entry, PEER_DEADLINE)?;
        match ticket.kind {
            Kind::MinReduce => {
                self.counters.votes += 1;
                self.counters.vote_wait_micros_total += micros_of(entered.elapsed());
            }
            Kind::Broadcast => self.counters.briefs += 1,
            Kind::Forward => self.launch(entry)?,
            Kind::Connect => {}
        }
        Ok(payload.map(|payload| Event::Completed { ticket, payload }))
    }

    fn launch(&mut self, entry: Entry) -> Result<(), RankError> {
        let (forward, batch) = self.launching.take().ok_or(RankError::NoPlan)?;
        self.launched.push_back(Instant::now());
        self.device.push(Command::Forward { entry, forward, batch })
    }

    fn tell_progress(&mut self) -> Result<(), RankError> {
        if !self.pace.reports() {
            return Ok(());
        }
        let state = self.machine.state().value();
        let used = state.slots.len() - state.free_slots();
        self.counters.slots_used = u32::try_from(used).unwrap_or(u32::MAX);
        self.counters.pages_free = u32::try_from(state.spare_pages()).unwrap_or(u32::MAX);
        self.counters.pages_kept = u32::try_from(state.cache.pages().count()).unwrap_or(u32::MAX);
        self.counters.site = self.last_ticket().map(|ticket| ticket.site);
        // The vote waits for a forward that was launched before the one behind it.
        self.counters.awaits_forward = self.voting.is_some() && self.launched.len() > 1;
        self.counters.paused = state.paused && state.flights.queue.is_empty();
        self.front.send(&RankToFront::Progress(self.counters))
    }
}
