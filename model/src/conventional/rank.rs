//! One rank of a conventional group: the loop, with its rules looked up in [`crate::conventional::rules`].
//!
//! Each turn stands at one place and enters that place's collective or passes it; what reached the rank in between is read then. What
//! it does there is in [`super::polls`] (the two polls), [`super::pages`], [`super::batch`] (run or idle) and [`super::cache`].

use crate::conventional::fact::Fact;
use crate::conventional::request::{Phase, Request};
use crate::conventional::rules::{Receive, Rules, Run, Switch, Word};
use crate::conventional::site::Site;
use crate::conventional::variant::Variant;
use lockstep_spec::agreed::Words;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};

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
    /// Before the reduction of host copies.
    CacheDrain,
    /// Before run or idle.
    RunOrIdle,
}

/// A forward by the requests in it, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Launch(pub Vec<usize>);

pub(super) type Effects = Vec<Effect<Posted<Site>, Launch>>;

/// What the front end told this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Heard {
    /// Requests that have arrived.
    pub arrived: usize,
    /// Whether all requests are to end.
    pub abort: bool,
    /// Whether the group is to pause.
    pub pause: bool,
    /// Whether the group is to take the other role.
    pub switch: bool,
}

/// Where finished requests' pages are kept, by indices of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cache {
    /// Copies to the host that are not drained, in the order in which they were asked for.
    pub issued: Vec<usize>,
    /// Those of them that are done on this rank, in the order in which they were.
    pub done: Vec<usize>,
    /// Whether this rank's host has no room.
    pub host_full: bool,
    /// Landings, in the order of the clock that the prefix cache goes by.
    pub touched: Vec<usize>,
}

/// One rank of a conventional group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConventionalRank {
    pub(super) variant: Variant,
    /// Turns of the loop that end before the result of their forward is read: 0 in the normal loop, 1 under overlap.
    pub(super) lag: usize,
    pub(super) index: usize,
    pub(super) pages: usize,
    pub(super) place: Place,
    pub(super) requests: Vec<Request>,
    pub(super) heard: Heard,
    pub(super) cache: Cache,
    pub(super) address: Address,
    /// Whether what an earlier request held is not back yet.
    pub(super) page_late: bool,
    /// Whether giving the next page back throws.
    pub(super) throws: bool,
    /// Pages that are neither free nor held.
    pub(super) lost: usize,
    /// Whether the leader said that there is a batch.
    pub(super) batch_said: bool,
    /// Whether a switch of role is being voted on.
    pub(super) switch_said: bool,
    /// Whether this rank has taken the other role.
    pub(super) switched: bool,
    /// Whether the last forward lets this rank pass the request broadcast once.
    pub(super) deaf: bool,
    /// Whether this rank's next sample differs.
    pub(super) drifted: bool,
    /// Rows of the last forward, where they are compared.
    pub(super) rows: Vec<usize>,
    /// Batches of the last turns whose results are not read, oldest first; an idle turn's is empty.
    pub(super) unread: Vec<Vec<usize>>,
    /// Finished forwards whose results are not read.
    pub(super) retired: usize,
}

/// Words of the request broadcast.
const ARRIVED: usize = 0;
const BATCH: usize = 1;
const ABORT: usize = 2;
const PAUSE: usize = 3;
const SWITCH: usize = 4;

impl ConventionalRank {
    /// A rank before its first turn, with `pages` pages for `requests` requests.
    #[must_use]
    pub fn new(variant: Variant, overlap: bool, index: usize, requests: usize, pages: usize) -> Self {
        Self {
            variant,
            lag: usize::from(overlap),
            index,
            pages,
            place: Place::Requests,
            requests: vec![Request::ABSENT; requests],
            heard: Heard::default(),
            cache: Cache::default(),
            address: Address::Missing,
            page_late: variant.rules().memory_lags(),
            throws: false,
            lost: 0,
            batch_said: false,
            switch_said: false,
            switched: false,
            deaf: false,
            drifted: false,
            rows: Vec::new(),
            unread: Vec::new(),
            retired: 0,
        }
    }

    pub(super) fn rules(&self) -> Rules {
        self.variant.rules()
    }

    /// Whether this rank is the one that the front end talks to.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.index == 0
    }

    /// Indices of the requests in `queue`, in order of arrival.
    pub(super) fn queued(&self, queue: impl Fn(&Request) -> bool) -> Vec<usize> {
        (0..self.requests.len()).filter(|index| queue(&self.requests[*index])).collect()
    }

    fn turn(&mut self, effects: &mut Effects) {
        match self.place {
            Place::Requests => self.begin(effects),
            Place::HandshakePoll => self.turn_handshakes(effects),
            Place::TransferPoll => self.turn_transfers(effects),
            Place::CacheDrain => self.turn_drain(effects),
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
        if core::mem::take(&mut self.deaf) {
            self.place = Place::HandshakePoll;
            return;
        }
        let words = self.news();
        effects.push(Effect::Enter(Site::Requests.post(words)));
    }

    /// This rank's payload of the request broadcast; the leader's counts. What is broadcast once is forgotten.
    fn news(&mut self) -> Words {
        let Rules { run, aborts, pause, .. } = self.rules();
        let landed =
            self.requests.iter().any(|request| request.phase == Phase::Landed || own_landed(request));
        let mut words = vec![self.heard.arrived as u64];
        words.resize(SWITCH + 1, 0);
        words[BATCH] = u64::from(run == Run::LeaderBit && landed);
        words[ABORT] = u64::from(aborts == Word::Broadcast && core::mem::take(&mut self.heard.abort));
        words[PAUSE] = u64::from(pause == Word::Broadcast && self.heard.pause);
        words[SWITCH] = u64::from(core::mem::take(&mut self.heard.switch));
        words
    }

    fn take_requests(&mut self, words: &[u64]) {
        let said = |word: usize| words.get(word) == Some(&1);
        for (index, request) in (0..).zip(&mut self.requests) {
            let arrived = words.get(ARRIVED).is_some_and(|arrived| index < *arrived);
            if request.phase == Phase::Absent && arrived && !self.switched {
                request.phase = Phase::Handshaking;
            }
        }
        self.batch_said = said(BATCH);
        if said(ABORT) {
            self.abort_all();
        }
        match self.rules().switch {
            Switch::Unasked => {}
            Switch::Voted => self.switch_said = said(SWITCH),
            Switch::OwnMemory => self.switched |= said(SWITCH) && !self.page_late,
        }
        let paused = match self.rules().pause {
            Word::Unsaid => false,
            Word::Broadcast => said(PAUSE),
            Word::AsHeard => self.heard.pause,
        };
        self.place = if paused { Place::Requests } else { Place::HandshakePoll };
    }

    /// Whether the next request broadcast is passed after a forward of `batch`.
    pub(super) fn deafened(&self, batch: &[usize]) -> bool {
        match self.rules().receive {
            Receive::Always => false,
            Receive::UnlessBatchRan => !batch.is_empty(),
            // Data-parallel attention deals requests out to the ranks in turn; at the sizes explored there are no more requests than ranks.
            Receive::UnlessOwnRowsRan => batch.contains(&self.index),
        }
    }

    fn completed(&mut self, site: Site, words: &[u64]) {
        match site {
            Site::Requests => self.take_requests(words),
            Site::HandshakePoll => self.take_handshakes(words),
            Site::TransferPoll => self.take_transfers(words),
            Site::CacheDrain => self.take_drained(words),
            Site::Forward => {}
        }
    }
}

pub(super) fn own_landed(request: &Request) -> bool {
    request.phase == Phase::Transferring && request.whole()
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
