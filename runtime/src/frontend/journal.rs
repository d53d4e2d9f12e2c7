//! The journal: accepted requests in acceptance order, their prompts and the tokens sent. In memory, without I/O.
//!
//! It is what a prefill leg is answered from, and what a new epoch would be started from (protocol §8). A token is accepted
//! only if it is the next one of its request; everything else is a fault of the group that sent it.

use std::collections::BTreeMap;

use thiserror::Error;
use tokio::sync::mpsc;

use crate::wire::{FinishReason, Outcome};

/// What clients are told when the server stops before their answer is complete.
pub(crate) const STOPPING: &str = "the server is stopping";

/// A request that passed the door: it fits, and its tokens exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The prompt's tokens, one at least.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most, one at least.
    pub max_tokens: u32,
    /// Whether end-of-sequence tokens are tokens like all others.
    pub ignore_eos: bool,
}

/// What reaches a request's client: a token, an end, or both at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The next token.
    pub token: Option<u32>,
    /// The end; nothing follows.
    pub end: Option<End>,
}

/// How a request ended for its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It failed alone; the reason is for the client.
    Failed(String),
    /// It was served.
    Finished(FinishReason),
    /// A group was lost, or the server stops; the reason is for the client.
    Lost(String),
}

/// What a group may not do to a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JournalFault {
    /// A leg for more tokens than were sent.
    #[error("a leg of request {request} covers {generated} generated tokens, but only {sent} were sent")]
    LegBeyondSent {
        /// The request.
        request: u64,
        /// What the leg covers.
        generated: u32,
        /// What was sent.
        sent: usize,
    },
    /// A token past `max_tokens`.
    #[error("token {index} of request {request} is past its limit of {max_tokens} tokens")]
    PastLimit {
        /// The request.
        request: u64,
        /// The token's index.
        index: u32,
        /// The request's limit.
        max_tokens: u32,
    },
    /// A token that is not the next one.
    #[error("token {index} of request {request} came where token {expected} was due")]
    OutOfTurn {
        /// The request.
        request: u64,
        /// The token's index.
        index: u32,
        /// The index that was due.
        expected: usize,
    },
    /// A request that was never accepted, or has ended.
    #[error("request {request} is not open")]
    Unknown {
        /// The request.
        request: u64,
    },
}

/// Who listens to a request.
#[derive(Debug)]
enum Listener {
    /// A client that is still there.
    Client(mpsc::Sender<Delivery>),
    /// Nobody; the group was told to abort it, and its end is awaited.
    Nobody,
}

#[derive(Debug)]
struct Entry {
    submission: Submission,
    sent: Vec<u32>,
    listener: Listener,
}

impl Entry {
    fn deliver(&self, delivery: Delivery) {
        if let Listener::Client(client) = &self.listener {
            // The channel has room for every token and the end, so only a client that has just left makes this fail.
            client.try_send(delivery).ok();
        }
    }

    fn check_turn(&self, request: u64, index: u32) -> Result<(), JournalFault> {
        let max_tokens = self.submission.max_tokens;
        if index >= max_tokens {
            return Err(JournalFault::PastLimit { request, index, max_tokens });
        }
        if usize::try_from(index) != Ok(self.sent.len()) {
            return Err(JournalFault::OutOfTurn { request, index, expected: self.sent.len() });
        }
        Ok(())
    }
}

/// The accepted requests that the decode group has not ended yet.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    next: u64,
    open: BTreeMap<u64, Entry>,
}

impl Journal {
    /// Number of requests that the group has not ended.
    pub(crate) fn outstanding(&self) -> usize {
        self.open.len()
    }

    /// Takes a request in; its number is its place in acceptance order.
    pub(crate) fn accept(&mut self, submission: Submission) -> (u64, mpsc::Receiver<Delivery>) {
        let request = self.next;
        self.next += 1;
        let deliveries = usize::try_from(submission.max_tokens).unwrap_or(usize::MAX).saturating_add(1);
        let (sender, receiver) = mpsc::channel(deliveries.min(tokio::sync::Semaphore::MAX_PERMITS));
        self.open.insert(request, Entry { submission, sent: Vec::new(), listener: Listener::Client(sender) });
        (request, receiver)
    }

    /// Records a token, and the end where it came along, and delivers both.
    ///
    /// # Errors
    /// A [`JournalFault`] when it is not the next token of an open request.
    pub(crate) fn token(
        &mut self,
        request: u64,
        index: u32,
        token: u32,
        ended: Option<Outcome>,
    ) -> Result<(), JournalFault> {
        let entry = self.open.get_mut(&request).ok_or(JournalFault::Unknown { request })?;
        entry.check_turn(request, index)?;
        entry.sent.push(token);
        entry.deliver(Delivery { token: Some(token), end: ended.clone().map(End::from) });
        if ended.is_some() {
            self.open.remove(&request);
        }
        Ok(())
    }

    /// Records an end without a token, and delivers it.
    ///
    /// # Errors
    /// A [`JournalFault`] when the request is not open.
    pub(crate) fn ended(&mut self, request: u64, outcome: Outcome) -> Result<(), JournalFault> {
        let entry = self.open.remove(&request).ok_or(JournalFault::Unknown { request })?;
        entry.deliver(Delivery { token: None, end: Some(outcome.into()) });
        Ok(())
    }

    /// The tokens of a leg: the prompt and the first `generated` tokens.
    ///
    /// # Errors
    /// A [`JournalFault`] when the request is not open or has fewer tokens.
    pub(crate) fn leg_tokens(&self, request: u64, generated: u32) -> Result<Vec<u32>, JournalFault> {
        let entry = self.open.get(&request).ok_or(JournalFault::Unknown { request })?;
        let sent = entry.sent.len();
        let covered = usize::try_from(generated).ok().and_then(|count| entry.sent.get(..count));
        let covered = covered.ok_or(JournalFault::LegBeyondSent { request, generated, sent })?;
        Ok([entry.submission.prompt.as_slice(), covered].concat())
    }

    /// Notes that nobody listens any more; `true` when the group is to be told, which is once at most.
    pub(crate) fn abandon(&mut self, request: u64) -> bool {
        let listener = self.open.get_mut(&request).map(|entry| &mut entry.listener);
        listener.is_some_and(|listener| {
            matches!(std::mem::replace(listener, Listener::Nobody), Listener::Client(_))
        })
    }

    /// Ends every client's stream for `reason`; the requests that the decode group is to abort, in acceptance order.
    pub(crate) fn end_streams(&mut self, reason: &str) -> Vec<u64> {
        for entry in self.open.values() {
            entry.deliver(Delivery { token: None, end: Some(End::Lost(reason.into())) });
        }
        let open: Vec<u64> = self.open.keys().copied().collect();
        open.into_iter().filter(|&request| self.abandon(request)).collect()
    }

    /// Drops every request: the group that had them is no more.
    pub(crate) fn forget_all(&mut self) {
        self.open.clear();
    }
}

impl From<Outcome> for End {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            // A client that still listens has not left: the group aborts what is open when it is asked to leave.
            Outcome::Aborted => Self::Lost(STOPPING.into()),
            Outcome::Failed { reason } => Self::Failed(reason),
            Outcome::Finished(reason) => Self::Finished(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission() -> Submission {
        Submission { prompt: vec![5, 6], max_tokens: 3, ignore_eos: false }
    }

    fn finished() -> Option<Outcome> {
        Some(Outcome::Finished(FinishReason::Length))
    }

    #[test]
    fn journal_delivers_tokens_in_order_and_ends_with_the_last() {
        let mut journal = Journal::default();
        let (request, mut client) = journal.accept(submission());
        journal.token(request, 0, 40, None).unwrap();
        journal.token(request, 1, 41, finished()).unwrap();
        assert_eq!(client.try_recv().unwrap(), Delivery { token: Some(40), end: None });
        let end = Some(End::Finished(FinishReason::Length));
        assert_eq!(client.try_recv().unwrap(), Delivery { token: Some(41), end });
        assert_eq!(journal.outstanding(), 0);
    }

    #[test]
    fn journal_refuses_a_token_that_is_not_next() {
        let mut journal = Journal::default();
        let (request, _client) = journal.accept(submission());
        let skipped = journal.token(request, 1, 40, None).unwrap_err();
        assert_eq!(skipped, JournalFault::OutOfTurn { request, index: 1, expected: 0 });
        journal.token(request, 0, 40, None).unwrap();
        let repeated = journal.token(request, 0, 40, None).unwrap_err();
        assert_eq!(repeated, JournalFault::OutOfTurn { request, index: 0, expected: 1 });
        let past = journal.token(request, 3, 40, None).unwrap_err();
        assert_eq!(past, JournalFault::PastLimit { request, index: 3, max_tokens: 3 });
        assert_eq!(journal.token(9, 0, 40, None).unwrap_err(), JournalFault::Unknown { request: 9 });
    }

    #[test]
    fn journal_answers_a_leg_with_prompt_and_generated_tokens() {
        let mut journal = Journal::default();
        let (request, _client) = journal.accept(submission());
        journal.token(request, 0, 40, None).unwrap();
        journal.token(request, 1, 41, None).unwrap();
        assert_eq!(journal.leg_tokens(request, 0).unwrap(), [5, 6]);
        assert_eq!(journal.leg_tokens(request, 2).unwrap(), [5, 6, 40, 41]);
        let beyond = journal.leg_tokens(request, 3).unwrap_err();
        assert_eq!(beyond, JournalFault::LegBeyondSent { request, generated: 3, sent: 2 });
    }

    #[test]
    fn journal_asks_for_an_abort_once() {
        let mut journal = Journal::default();
        let (request, client) = journal.accept(submission());
        drop(client);
        assert!(journal.abandon(request));
        assert!(!journal.abandon(request));
        journal.token(request, 0, 40, None).unwrap();
        assert_eq!(journal.outstanding(), 1, "it counts until the group has ended it");
        journal.ended(request, Outcome::Aborted).unwrap();
        assert!(!journal.abandon(request));
        assert_eq!(journal.outstanding(), 0);
    }

    #[test]
    fn journal_ends_streams_with_the_reason() {
        let mut journal = Journal::default();
        let (gone, _) = journal.accept(submission());
        let (here, mut client) = journal.accept(submission());
        assert!(journal.abandon(gone));
        assert_eq!(journal.end_streams("lost"), [here]);
        assert_eq!(client.try_recv().unwrap(), Delivery { token: None, end: Some(End::Lost("lost".into())) });
    }
}
