//! One rank of a conventional group: the loop, with its rules looked up in [`crate::conventional::rules`].
//!
//! Each turn stands at one place and enters that place's collective or passes it; what reached the rank in between is read then.

use crate::conventional::request::{Phase, Request};
use crate::conventional::rules::{
    Admission, GiveUp, HandshakeEntry, Metadata, Payload, Rules, Run, TransferEntry, Variant,
};
use crate::conventional::site::Site;
use lockstep_spec::agreed::Words;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::poll::KvPoll;
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};

/// What reaches one rank alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The next request reached rank 0.
    Arrived,
    /// The prefill address was looked up: a hit for requests to come, a resolved miss for those that wait.
    AddressResolved,
    /// The retries for the prefill address are used up.
    RetriesExhausted,
    /// The receiver of a request is `WaitingForInput`.
    HandshakeDone(usize),
    /// The page that an earlier request held is back in this rank's allocator.
    PageFreed,
    /// A request's KV landed.
    KvLanded(usize),
    /// A request's metadata row landed.
    RowLanded(usize),
    /// The time of a waiting request is up, by this rank's clock.
    TimedOut(usize),
    /// The oldest forward has finished on this rank's device.
    Retired,
}

/// What a rank knows of the prefill address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Nothing: receivers wait.
    Missing,
    /// It was in the cache before a request needed it.
    Cached,
    /// It came after a miss, in this turn of the loop.
    Resolved,
}

/// The next collective of a rank, or that it decides between run and idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Before the request broadcast.
    Requests,
    /// Before the handshake poll.
    HandshakePoll,
    /// Before the transfer poll.
    TransferPoll,
    /// Before run or idle.
    RunOrIdle,
}

/// A forward by the requests in it, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Launch(pub Vec<usize>);

type Effects = Vec<Effect<Posted<Site>, Launch>>;

/// One rank of a conventional group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConventionalRank {
    pub(super) variant: Variant,
    /// Turns of the loop that end before the result of their forward is read: 0 in the normal loop, 1 under overlap.
    pub(super) lag: usize,
    pub(super) leads: bool,
    pub(super) pages: usize,
    pub(super) place: Place,
    pub(super) requests: Vec<Request>,
    /// Requests that have reached this rank's front end.
    pub(super) arrived: usize,
    pub(super) address: Address,
    /// Whether an earlier request's page is not back yet.
    pub(super) page_late: bool,
    /// Whether the leader said that there is a batch.
    pub(super) batch_said: bool,
    /// Batches of the last turns whose results are not read, oldest first; an idle turn's is empty.
    pub(super) unread: Vec<Vec<usize>>,
    /// Finished forwards whose results are not read.
    pub(super) retired: usize,
}

impl ConventionalRank {
    /// A rank before its first turn, with a page for each of `pages` requests.
    #[must_use]
    pub fn new(variant: Variant, overlap: bool, leads: bool, requests: usize, pages: usize) -> Self {
        Self {
            variant,
            lag: usize::from(overlap),
            leads,
            pages,
            place: Place::Requests,
            requests: vec![Request::ABSENT; requests],
            arrived: 0,
            address: Address::Missing,
            page_late: variant.rules().admission == Admission::OwnPages,
            batch_said: false,
            unread: Vec::new(),
            retired: 0,
        }
    }

    pub(super) fn rules(&self) -> Rules {
        self.variant.rules()
    }

    /// Indices of the requests in `queue`, in order of arrival.
    fn queued(&self, queue: fn(&Request) -> bool) -> Vec<usize> {
        (0..self.requests.len()).filter(|index| queue(&self.requests[*index])).collect()
    }

    fn turn(&mut self, effects: &mut Effects) {
        match self.place {
            Place::Requests => self.begin(effects),
            Place::HandshakePoll if self.polls_handshakes() => {
                let words = self.words(shakes, |_, request| request.handshake_poll());
                effects.push(Effect::Enter(Site::HandshakePoll.post(words)));
            }
            Place::HandshakePoll => self.pass_handshakes(),
            Place::TransferPoll if self.polls_transfers() => {
                let words =
                    self.words(transfers, |rules, request| request.transfer_poll(landed(rules, request)));
                effects.push(Effect::Enter(Site::TransferPoll.post(words)));
            }
            Place::TransferPoll => self.place = Place::RunOrIdle,
            Place::RunOrIdle => self.run_or_idle(effects),
        }
    }

    /// Reads the results that are due, and goes on if they are there.
    fn begin(&mut self, effects: &mut Effects) {
        if self.unread.len() > self.lag && !self.read_oldest() {
            return;
        }
        if self.address == Address::Resolved {
            self.address = Address::Cached;
        }
        let words = self.news();
        effects.push(Effect::Enter(Site::Requests.post(words)));
    }

    /// This rank's payload of the request broadcast; the leader's counts.
    fn news(&self) -> Words {
        let batch = self.requests.iter().any(|request| request.phase == Phase::Landed || own_landed(request));
        match self.rules().run {
            Run::ReducedLanded | Run::OwnLanded => vec![self.arrived as u64],
            Run::LeaderBit => vec![self.arrived as u64, u64::from(batch)],
        }
    }

    /// Ends the requests of the oldest batch, if its forward has retired.
    fn read_oldest(&mut self) -> bool {
        let ran = self.unread.first().is_some_and(|batch| !batch.is_empty());
        if ran && self.retired == 0 {
            return false;
        }
        self.retired -= usize::from(ran);
        for index in self.unread.remove(0) {
            self.requests[index].end(Phase::Done);
        }
        true
    }

    pub(super) fn polls_handshakes(&self) -> bool {
        let mut queue = self.requests.iter().filter(|request| shakes(request));
        match self.rules().handshake {
            HandshakeEntry::Always => true,
            HandshakeEntry::UnlessOwnShaken => {
                queue.any(|request| request.handshake_poll() != KvPoll::WaitingForInput)
            }
            HandshakeEntry::UnlessReducedShaken => queue.any(|request| request.phase != Phase::Handshaken),
        }
    }

    pub(super) fn polls_transfers(&self) -> bool {
        match self.rules().transfer {
            TransferEntry::Always => true,
            TransferEntry::UnlessEmpty => self.requests.iter().any(transfers),
        }
    }

    /// This rank's payload of a poll over `queue`.
    fn words(&self, queue: fn(&Request) -> bool, poll: fn(Rules, &Request) -> KvPoll) -> Words {
        let rules = self.rules();
        let polled = self.polled(queue).into_iter();
        polled.map(|index| poll(rules, &self.requests[index]).code()).collect()
    }

    /// The requests that the words of a poll over `queue` stand for.
    fn polled(&self, queue: fn(&Request) -> bool) -> Vec<usize> {
        match self.rules().payload {
            Payload::Fixed => self.queued(|_| true),
            Payload::AsQueue => self.queued(queue),
        }
    }

    /// The reduced polls of the requests in `queue`.
    fn reduced(&self, queue: fn(&Request) -> bool, words: &[u64]) -> Vec<(usize, KvPoll)> {
        let polls = words.iter().copied().map(KvPoll::from_code);
        let polled = self.polled(queue).into_iter().zip(polls);
        polled.filter(|(index, _)| queue(&self.requests[*index])).collect()
    }

    fn completed(&mut self, site: Site, words: &[u64]) {
        match site {
            Site::Requests => self.take_requests(words),
            Site::HandshakePoll => self.take_handshakes(words),
            Site::TransferPoll => self.take_transfers(words),
            Site::Forward => {}
        }
    }

    fn take_requests(&mut self, words: &[u64]) {
        for (index, request) in (0..).zip(&mut self.requests) {
            if request.phase == Phase::Absent && words.first().is_some_and(|arrived| index < *arrived) {
                request.phase = Phase::Handshaking;
            }
        }
        self.batch_said = words.get(1) == Some(&1);
        self.place = Place::HandshakePoll;
    }

    fn take_handshakes(&mut self, words: &[u64]) {
        for (index, poll) in self.reduced(shakes, words) {
            if poll.failure().is_some() {
                self.requests[index].end(Phase::Dropped);
            } else if poll == KvPoll::WaitingForInput {
                self.requests[index].phase = Phase::Handshaken;
            }
        }
        self.admit();
    }

    /// Goes on without the poll: by the guard, whoever is in the queue is `WaitingForInput`.
    fn pass_handshakes(&mut self) {
        for index in self.queued(shakes) {
            self.requests[index].phase = Phase::Handshaken;
        }
        self.admit();
    }

    /// Gives pages out in order of arrival.
    fn admit(&mut self) {
        let held = self.queued(|request| request.phase.holds_page()).len();
        let late = match self.rules().admission {
            Admission::AgreedPages => 0,
            Admission::OwnPages => usize::from(self.page_late),
        };
        let ready = self.queued(|request| request.phase == Phase::Handshaken);
        for index in ready.into_iter().take(self.pages.saturating_sub(held + late)) {
            self.requests[index].phase = Phase::Transferring;
        }
        self.place = Place::TransferPoll;
    }

    fn take_transfers(&mut self, words: &[u64]) {
        for (index, poll) in self.reduced(transfers, words) {
            if poll.failure().is_some() {
                self.requests[index].end(Phase::Dropped);
            } else if poll == KvPoll::Success && self.keeps_landed(index) {
                self.requests[index].land();
            }
        }
        self.place = Place::RunOrIdle;
    }

    /// Whether nothing is left to look for on this rank once the reduced poll says success.
    fn keeps_landed(&self, index: usize) -> bool {
        match self.rules().metadata {
            Metadata::WithKv | Metadata::BeforeReduce => true,
            Metadata::AfterReduce => self.requests[index].row,
        }
    }

    pub(super) fn batch(&self) -> Vec<usize> {
        match self.rules().run {
            Run::ReducedLanded => self.queued(|request| request.phase == Phase::Landed),
            Run::OwnLanded => self.queued(|request| request.phase == Phase::Landed || own_landed(request)),
            Run::LeaderBit if self.batch_said => {
                self.queued(|request| matches!(request.phase, Phase::Transferring | Phase::Landed))
            }
            Run::LeaderBit => Vec::new(),
        }
    }

    fn run_or_idle(&mut self, effects: &mut Effects) {
        let batch = self.batch();
        for index in &batch {
            self.requests[*index].phase = Phase::Running;
        }
        if !batch.is_empty() {
            effects.push(Effect::Local(Launch(batch.clone())));
            effects.push(Effect::Enter(Site::launch(batch.len())));
        }
        self.unread.push(batch);
        self.place = Place::Requests;
    }

    fn see(&mut self, fact: Fact) {
        match fact {
            Fact::Arrived => self.arrived += 1,
            Fact::AddressResolved => {
                let missed = self.requests.iter().any(shakes);
                self.address = if missed { Address::Resolved } else { Address::Cached };
            }
            Fact::RetriesExhausted => {
                let unresolved = self.queued(|request| request.phase == Phase::Handshaking);
                unresolved.into_iter().for_each(|index| self.give_up(index, self.rules().retries));
            }
            Fact::HandshakeDone(index) => self.requests[index].shaken = true,
            Fact::PageFreed => self.page_late = false,
            Fact::KvLanded(index) => {
                self.requests[index].kv = true;
                self.requests[index].row |= self.rules().metadata == Metadata::WithKv;
            }
            Fact::RowLanded(index) => self.requests[index].row = true,
            Fact::TimedOut(index) => self.give_up(index, self.rules().clock),
            Fact::Retired => self.retired += 1,
        }
    }

    fn give_up(&mut self, index: usize, how: GiveUp) {
        match how {
            GiveUp::ThroughPoll => self.requests[index].failed = true,
            GiveUp::AtOnce => self.requests[index].end(Phase::Dropped),
        }
    }
}

fn shakes(request: &Request) -> bool {
    request.phase.shakes()
}

fn transfers(request: &Request) -> bool {
    request.phase == Phase::Transferring
}

fn own_landed(request: &Request) -> bool {
    transfers(request) && request.whole()
}

/// What a rank's element of the transfer poll waits for.
fn landed(rules: Rules, request: &Request) -> bool {
    match rules.metadata {
        Metadata::WithKv | Metadata::BeforeReduce => request.whole(),
        Metadata::AfterReduce => request.kv,
    }
}

impl RankProgram for ConventionalRank {
    type Site = Site;
    type Fact = Fact;
    type Entry = Posted<Site>;
    type Local = Launch;

    fn step(&mut self, event: Event<Fact, Site>, effects: &mut Effects) {
        match event {
            Event::Turn => self.turn(effects),
            Event::Fact(fact) => self.see(fact),
            Event::Completed { ticket, payload } => self.completed(ticket.site, &payload),
        }
    }
}

/// Nothing here counts without bound: requests are few and end.
impl Counters for ConventionalRank {
    fn visit(&mut self, _: &mut dyn FnMut(Counter, &mut u64)) {}
}
