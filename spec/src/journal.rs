//! The front end's journal: which requests were accepted and which tokens their clients have. It outlives the decode group, and the next
//! epoch starts from it.
//!
//! ```text
//!  accept ─▶ open ── token, in turn ─▶ open ── last token, or an end ─▶ gone
//!              │                        ├── an attempt failed, the first time ─▶ submitted once more
//!              │                        └── the epoch ended ─▶ submitted to the next, with the tokens that were sent
//!              └── abandoned: nobody waits; gone with its end or with the epoch
//! ```
//! What a group says counts only if it is of the current epoch. The front end raises the epoch before it reads the journal for the next
//! group, so that nothing which an old group said meanwhile can slip in between.
//!
//! Where the prefill group is a deployment of its own it may be away. That explains failures, of which two kinds are heard late or early: an
//! attempt that fails because of prefill's end may be heard of before the end itself, and counts until then; a request that the group holds
//! meanwhile may come to its deadline when prefill is there again. So an absence forgives what was counted, and excuses the next failure of
//! whatever is open.

use crate::counters::{Counter, Counters};
use crate::decode::phase::Outcome;
use crate::decode::request::Request;
use crate::ids::{Epoch, RequestId, TokenId};
use crate::poll::Reason;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

/// A request that the decode group has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// The request as it was accepted: nothing generated.
    pub request: Request,
    /// The tokens of its output that were sent.
    pub tokens: Vec<TokenId>,
    /// Whether nobody waits for it any more.
    pub abandoned: bool,
    /// How often it was submitted once more because an attempt failed, since prefill was last away.
    pub retries: u32,
    /// Whether prefill has been away since it was last submitted.
    pub excused: bool,
}

impl Account {
    /// The request to submit: the group goes on behind the tokens that were sent.
    #[must_use]
    pub fn submission(&self) -> Request {
        Request { generated: u32::try_from(self.tokens.len()).unwrap_or(u32::MAX), ..self.request }
    }
}

/// What becomes of something that a group said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is of an earlier epoch and changes nothing.
    Late,
    /// It is recorded; the client is to be told.
    Taken,
    /// The request is to be submitted once more; the client is told nothing.
    Again(Request),
}

/// What a group may not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFault {
    /// It speaks of an epoch that has not begun.
    Unborn {
        /// The epoch it speaks of.
        epoch: Epoch,
        /// The current epoch.
        current: Epoch,
    },
    /// It wants more tokens of a request than were sent.
    LegBeyondSent {
        /// The request.
        request: RequestId,
        /// Tokens that it asks for.
        generated: u32,
        /// Tokens that were sent.
        sent: usize,
    },
    /// A token that is not the next one, or is past the request's limit.
    OutOfTurn {
        /// The request.
        request: RequestId,
        /// Index of the token in the output.
        index: u32,
        /// The index that is due; the request's limit if none is.
        expected: usize,
    },
    /// A request that was never accepted, or has ended.
    Unknown(RequestId),
}

impl fmt::Display for JournalFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unborn { epoch, current } => {
                write!(formatter, "it speaks of epoch {}, but the current one is {}", epoch.0, current.0)
            }
            Self::LegBeyondSent { request, generated, sent } => write!(
                formatter,
                "a leg of request {} covers {generated} generated tokens, but only {sent} were sent",
                request.0
            ),
            Self::OutOfTurn { request, index, expected } => write!(
                formatter,
                "token {index} of request {} came where token {expected} was due",
                request.0
            ),
            Self::Unknown(request) => write!(formatter, "request {} is not open", request.0),
        }
    }
}

impl core::error::Error for JournalFault {}

/// The accepted requests that the decode group has not ended, in acceptance order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Journal {
    epoch: Epoch,
    next: RequestId,
    open: BTreeMap<RequestId, Account>,
    away: bool,
    /// How often a request is submitted once more because an attempt failed.
    retries: u32,
}

impl Journal {
    /// A journal of which nothing is recorded.
    #[must_use]
    pub fn new(epoch: Epoch) -> Self {
        Self { epoch, next: RequestId(0), open: BTreeMap::new(), away: false, retries: 1 }
    }

    /// The same with another number of retries than one. A prefill side that dies ends a connection of each decode rank, each at its own time,
    /// and each end may fail another attempt of the same request before any of it is known to the front end; those of the side before it may
    /// be late. So where prefill is a deployment of its own, two for each connection between the groups.
    #[must_use]
    pub fn retrying(self, retries: u32) -> Self {
        Self { retries, ..self }
    }

    /// The current epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The open requests, in acceptance order.
    #[must_use]
    pub fn open(&self) -> &BTreeMap<RequestId, Account> {
        &self.open
    }

    /// Whether the prefill side is away: what is submitted now can only fail.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// Takes a request in; its number is its place in acceptance order, whatever `wanted` says.
    pub fn accept(&mut self, wanted: Request) -> Request {
        let id = self.next;
        self.next.0 += 1;
        let request = Request { id, generated: 0, ..wanted };
        let (tokens, abandoned, excused) = (Vec::new(), false, false);
        self.open.insert(id, Account { request, tokens, abandoned, retries: 0, excused });
        request
    }

    /// Records a token, and the end where it came along.
    ///
    /// # Errors
    /// A [`JournalFault`] when it is not the next token of an open request.
    pub fn token(
        &mut self,
        epoch: Epoch,
        (request, index): (RequestId, u32),
        token: TokenId,
        ended: Option<Outcome>,
    ) -> Result<Received, JournalFault> {
        if self.is_late(epoch)? {
            return Ok(Received::Late);
        }
        let account = self.open.get_mut(&request).ok_or(JournalFault::Unknown(request))?;
        let expected = account.tokens.len();
        if index >= account.request.max_tokens || usize::try_from(index) != Ok(expected) {
            return Err(JournalFault::OutOfTurn { request, index, expected });
        }
        account.tokens.push(token);
        if ended.is_some() {
            self.open.remove(&request);
        }
        Ok(Received::Taken)
    }

    /// Records an end without a token. A request whose attempt failed is tried once more, or as often as [`Journal::retrying`] says, if
    /// somebody still waits for it; where an absence of prefill excuses the failure, it does not count.
    ///
    /// # Errors
    /// A [`JournalFault`] when the request is not open.
    pub fn ended(
        &mut self,
        epoch: Epoch,
        request: RequestId,
        outcome: Outcome,
    ) -> Result<Received, JournalFault> {
        if self.is_late(epoch)? {
            return Ok(Received::Late);
        }
        let account = self.open.get_mut(&request).ok_or(JournalFault::Unknown(request))?;
        let counts = tried_again(outcome) && account.retries < self.retries;
        let again = if account.excused { explained(outcome) } else { counts };
        if again && !account.abandoned {
            account.retries += u32::from(!account.excused);
            account.excused = false;
            return Ok(Received::Again(account.submission()));
        }
        self.open.remove(&request);
        Ok(Received::Taken)
    }

    /// Notes that nobody waits for a request any more; `true` when the group is to be told, which is once at most.
    pub fn abandon(&mut self, request: RequestId) -> bool {
        self.open.get_mut(&request).is_some_and(|account| !core::mem::replace(&mut account.abandoned, true))
    }

    /// Notes that the prefill side is away. What is submitted from now on, until [`Journal::prefill_returned`], is to be held back.
    pub fn prefill_left(&mut self) {
        self.away = true;
        self.open.values_mut().for_each(|account| (account.retries, account.excused) = (0, true));
    }

    /// Notes that a prefill side is there.
    pub fn prefill_returned(&mut self) {
        self.away = false;
    }

    /// The first `generated` tokens of an open request.
    ///
    /// # Errors
    /// A [`JournalFault`] when the request is not open or has fewer tokens.
    pub fn sent(&self, request: RequestId, generated: u32) -> Result<&[TokenId], JournalFault> {
        let account = self.open.get(&request).ok_or(JournalFault::Unknown(request))?;
        let sent = account.tokens.len();
        let covered = usize::try_from(generated).ok().and_then(|count| account.tokens.get(..count));
        covered.ok_or(JournalFault::LegBeyondSent { request, generated, sent })
    }

    /// The epoch is over: what its group still says is late from now on, and requests that nobody waits for are gone. Comes before
    /// [`Journal::submissions`] is read for the next group.
    pub fn raise_epoch(&mut self) {
        self.epoch.0 += 1;
        self.open.retain(|_, account| !account.abandoned);
    }

    /// What the group of a new epoch is to be told: every open request, in acceptance order.
    pub fn submissions(&self) -> impl Iterator<Item = Request> + '_ {
        self.open.values().map(Account::submission)
    }

    fn is_late(&self, epoch: Epoch) -> Result<bool, JournalFault> {
        if epoch > self.epoch {
            return Err(JournalFault::Unborn { epoch, current: self.epoch });
        }
        Ok(epoch < self.epoch)
    }
}

/// Whether a request that ended so is submitted once more.
fn tried_again(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Failed(reason) => reason.is_of_one_attempt(),
        Outcome::Stop | Outcome::Length | Outcome::Aborted => false,
    }
}

/// Whether an absence of prefill may be why a request ended so.
fn explained(outcome: Outcome) -> bool {
    tried_again(outcome) || outcome == Outcome::Failed(Reason::DeadlinePassed)
}

impl Counters for Journal {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Request, &mut self.next.0);
        let accounts = core::mem::take(&mut self.open).into_values();
        self.open = accounts
            .map(|mut account| {
                account.request.visit(visit);
                (account.request.id, account)
            })
            .collect();
    }
}
