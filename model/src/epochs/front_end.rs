//! The front end with its real journal, what leaders have said that it has not heard, and what each client was told.

use crate::decode::client::Client;
use crate::decode::setting::RequestKind;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::phase::Outcome;
use lockstep_spec::decode::request::Request;
use lockstep_spec::ids::{Epoch, RequestId, TokenId};
use lockstep_spec::invariant::{epoch_fenced, no_fault, token_exact};
use lockstep_spec::journal::{Account, Journal, JournalFault, Received};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

/// How front end and leader deal with the journal. The only implementation without a fault is [`Shipped`]; mutants override one method.
pub trait Conduct: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// The epoch as which something is heard that was said in the epoch `said`.
    fn heard_as(said: Epoch, _current: Epoch) -> Epoch {
        said
    }

    /// Whether the epoch is raised before the journal is read for the next group.
    fn raises_before_reading() -> bool {
        true
    }

    /// Whether the epoch is raised before the group is dismissed because the other one is lost.
    fn raises_before_dismissing() -> bool {
        true
    }

    /// Whether the epoch is raised before streams are closed because no epoch follows.
    fn raises_before_closing() -> bool {
        true
    }

    /// What the next group is told of an open request.
    fn resubmission(account: &Account) -> Option<Request> {
        Some(account.submission())
    }

    /// Whether the end of an output travels with its last token.
    fn ends_with_token() -> bool {
        true
    }

    /// Whether legs that an earlier group wants are dropped unread.
    fn fences_legs() -> bool {
        true
    }
}

/// The conduct that ships.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shipped;

impl Conduct for Shipped {}

/// What a leader says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// A token, and the end where it came along.
    Token {
        /// The request.
        request: RequestId,
        /// Index of the token in the output.
        index: u32,
        /// The token.
        token: TokenId,
        /// The end.
        ended: Option<Outcome>,
    },
    /// An end without a token.
    End {
        /// The request.
        request: RequestId,
        /// How.
        outcome: Outcome,
    },
    /// A leg is wanted of the prefill group: the prompt and the first `generated` tokens.
    Leg {
        /// The request.
        request: RequestId,
        /// Tokens of the output so far.
        generated: u32,
    },
}

/// A client, and whether it is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guest {
    /// The client.
    pub client: Client,
    /// Whether it left.
    pub left: bool,
}

/// The front end, and what it has not heard yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrontEnd<C> {
    /// The journal: the type that the runtime executes.
    pub journal: Journal,
    /// Clients of open requests.
    pub clients: BTreeMap<RequestId, Guest>,
    /// What each epoch's leader said and the front end has not heard, in order; empty lines are left out.
    pub lines: BTreeMap<Epoch, Vec<Said>>,
    /// The epoch, as an observer counts: it ends when its ranks are gone.
    pub epoch: Epoch,
    /// Whether the server stops: streams end with this epoch.
    pub stops: bool,
    /// Whether the other group is lost: this one is to leave, and its epoch is over although its ranks live.
    pub dismisses: bool,
    /// Ranks of the current group that were asked to leave.
    asked: BTreeSet<usize>,
    /// What was read of the journal when the epoch ended, where that comes before raising it.
    read: Vec<Request>,
    conduct: PhantomData<C>,
}

impl<C: Conduct> FrontEnd<C> {
    /// A front end that knows of no request.
    #[must_use]
    pub fn new(epoch: Epoch) -> Self {
        Self {
            journal: Journal::new(epoch),
            clients: BTreeMap::new(),
            lines: BTreeMap::new(),
            epoch,
            stops: false,
            dismisses: false,
            asked: BTreeSet::new(),
            read: Vec::new(),
            conduct: PhantomData,
        }
    }

    /// Takes a request in.
    pub fn accept(&mut self, kind: RequestKind) -> Request {
        let request = self.journal.accept(kind.request(RequestId(0)));
        self.clients.insert(request.id, Guest { client: Client::new(kind), left: false });
        request
    }

    /// A client leaves; `true` when the group is to be told. Without a group to tell, the request ends here.
    pub fn leave(&mut self, request: RequestId, group: bool) -> bool {
        let first = self.journal.abandon(request);
        if let Some(guest) = self.clients.get_mut(&request) {
            guest.left = true;
        }
        if first && !group {
            // Abandoned requests are open, so their end cannot be refused.
            self.journal.ended(self.journal.epoch(), request, Outcome::Aborted).ok();
            self.clients.remove(&request);
        }
        first && group
    }

    /// Notes what the current leader does that the front end is to hear of.
    pub fn say(&mut self, done: &Do) {
        let line = self.lines.entry(self.epoch).or_default();
        match *done {
            Do::Emit { request, index, token, ended: Some(outcome) } if !C::ends_with_token() => {
                line.push(Said::Token { request, index, token, ended: None });
                line.push(Said::End { request, outcome });
            }
            Do::Emit { request, index, token, ended } => {
                line.push(Said::Token { request, index, token, ended });
            }
            Do::End { request, outcome } => line.push(Said::End { request, outcome }),
            Do::Handshake { request, generated, .. } => line.push(Said::Leg { request, generated }),
            Do::Copy(_) | Do::Publish { .. } | Do::Withdraw { .. } | Do::Fence { .. } | Do::Seed { .. } => {}
        }
        self.lines.retain(|_, line| !line.is_empty());
    }

    /// Hears the next of what the leader of the epoch `said` said. Gives back what is to be submitted once more.
    ///
    /// # Errors
    /// The violated property.
    pub fn hear(&mut self, said: Epoch) -> Result<Option<Request>, &'static str> {
        let Some(line) = self.lines.get_mut(&said) else { return Ok(None) };
        let word = line.remove(0);
        self.lines.retain(|_, line| !line.is_empty());
        let before = self.journal.clone();
        let received = self.record(C::heard_as(said, self.journal.epoch()), word);
        let applied = received != Ok(Received::Late) || self.journal != before;
        if !epoch_fenced::holds(self.epoch, said, applied) {
            return Err(epoch_fenced::PROPERTY.id);
        }
        match received.map_err(violated_by)? {
            Received::Late => Ok(None),
            Received::Again(request) => Ok(Some(request)),
            Received::Taken => self.tell(word).map(|()| None),
        }
    }

    fn record(&mut self, epoch: Epoch, word: Said) -> Result<Received, JournalFault> {
        match word {
            Said::Token { request, index, token, ended } => {
                self.journal.token(epoch, (request, index), token, ended)
            }
            Said::End { request, outcome } => self.journal.ended(epoch, request, outcome),
            Said::Leg { .. } if C::fences_legs() && epoch < self.journal.epoch() => Ok(Received::Late),
            Said::Leg { request, generated } => {
                self.journal.sent(request, generated).map(|_| Received::Taken)
            }
        }
    }

    /// Tells a client, unless it left, and checks that it is to be told that. Who stays is told of an abort only if the server stops.
    fn tell(&mut self, word: Said) -> Result<(), &'static str> {
        let (request, token, ended) = match word {
            Said::Token { request, index, token, ended } => (request, Some((index, token)), ended),
            Said::End { request, outcome } => (request, None, Some(outcome)),
            Said::Leg { .. } => return Ok(()),
        };
        let Guest { client, left } = self.clients.get_mut(&request).ok_or(token_exact::PROPERTY.id)?;
        let (exact, left) = (client.hears(token, ended), *left);
        let aborts = ended == Some(Outcome::Aborted) && !self.stops;
        if ended.is_some() {
            self.clients.remove(&request);
        }
        if left || (exact && !aborts) { Ok(()) } else { Err(token_exact::PROPERTY.id) }
    }

    /// The rest of an earlier leader's words never arrives.
    pub fn lose(&mut self, said: Epoch) {
        self.lines.remove(&said);
    }

    /// Whether a rank of the current group is still to be asked to leave.
    #[must_use]
    pub fn asks(&self, rank: usize) -> bool {
        (self.stops || self.dismisses) && !self.asked.contains(&rank)
    }

    /// Notes that a rank was asked to leave.
    pub fn asked(&mut self, rank: usize) {
        self.asked.insert(rank);
    }

    /// The server stops: no more requests, and ranks are asked to leave. Without a `group`, streams end here.
    ///
    /// # Errors
    /// The property that an end violates.
    pub fn stop(&mut self, group: bool) -> Result<(), &'static str> {
        self.stops = true;
        if group { Ok(()) } else { self.close() }
    }

    /// The other group is lost: whatever this one still says is late, and its ranks are asked to leave.
    ///
    /// # Errors
    /// The property that an end violates.
    pub fn dismiss(&mut self) -> Result<(), &'static str> {
        self.dismisses = true;
        if !C::raises_before_dismissing() {
            return Ok(());
        }
        self.raise();
        if self.stops { self.close() } else { Ok(()) }
    }

    /// The epoch is over: its ranks are gone. Words that are late by one epoch already are left out: two are no later than one.
    ///
    /// # Errors
    /// The property that an end violates.
    pub fn end_epoch(&mut self) -> Result<(), &'static str> {
        self.lines.retain(|epoch, _| *epoch == self.epoch);
        self.epoch.0 += 1;
        self.asked.clear();
        let raised = std::mem::take(&mut self.dismisses) && C::raises_before_dismissing();
        if !C::raises_before_reading() {
            self.read = self.resubmissions();
        } else if !raised && (!self.stops || C::raises_before_closing()) {
            self.raise();
        }
        if self.stops { self.close() } else { Ok(()) }
    }

    /// Ends every stream: no epoch follows.
    fn close(&mut self) -> Result<(), &'static str> {
        let open: Vec<RequestId> = self.journal.open().keys().copied().collect();
        for request in open {
            let outcome = Outcome::Aborted;
            self.journal.ended(self.journal.epoch(), request, outcome).map_err(violated_by)?;
            self.tell(Said::End { request, outcome })?;
        }
        Ok(())
    }

    /// What the group of the new epoch is told.
    pub fn begin_epoch(&mut self) -> Vec<Request> {
        if C::raises_before_reading() {
            return self.resubmissions();
        }
        self.raise();
        std::mem::take(&mut self.read)
    }

    fn raise(&mut self) {
        self.journal.raise_epoch();
        let open = self.journal.open();
        self.clients.retain(|request, guest| !guest.left || open.contains_key(request));
    }

    fn resubmissions(&self) -> Vec<Request> {
        self.journal.open().values().filter_map(C::resubmission).collect()
    }
}

/// The property that a fault of the journal violates: it is the journal that notices.
fn violated_by(fault: JournalFault) -> &'static str {
    match fault {
        JournalFault::Unborn { .. } => epoch_fenced::PROPERTY.id,
        JournalFault::OutOfTurn { .. } => token_exact::PROPERTY.id,
        JournalFault::LegBeyondSent { .. } | JournalFault::Unknown(_) => no_fault::PROPERTY.id,
    }
}

impl Counters for Said {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Self::Token { request, .. } | Self::End { request, .. } | Self::Leg { request, .. } => {
                visit(Counter::Request, &mut request.0);
            }
        }
    }
}

impl<C: Conduct> Counters for FrontEnd<C> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.journal.visit(visit);
        self.read.visit(visit);
        self.lines.values_mut().for_each(|line| line.visit(visit));
        let clients = std::mem::take(&mut self.clients);
        self.clients = clients
            .into_iter()
            .map(|(mut request, client)| {
                visit(Counter::Request, &mut request.0);
                (request, client)
            })
            .collect();
    }
}
