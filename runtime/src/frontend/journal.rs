//! The journal: accepted requests in acceptance order, their prompts, their clients. In memory, without I/O.
//!
//! What counts of a group's words, what is late, and what is submitted once more are the rules of [`lockstep_spec::journal`], which
//! the checker explores; here is what they are about: prompts and clients.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_spec::ids::{Epoch, RequestId, TokenId};
pub use lockstep_spec::journal::JournalFault;
use lockstep_spec::journal::{self, Account, Received};
use tokio::sync::mpsc;

use crate::wire::{Draw, Outcome, Request, Sampling};

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
    /// How its tokens are chosen.
    pub sampling: Sampling,
    /// The room under which a router pairs this request with prefill's, if it is to be answered there.
    pub room: Option<u64>,
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
    /// A group was lost for good, or the server stops; the reason is for the client.
    Lost(String),
}

/// Why a request finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It reached its `max_tokens`.
    Length,
    /// It sampled a token of the end-of-sequence set.
    Stop,
}

impl FinishReason {
    /// The name in the HTTP answer's `finish_reason`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Stop => "stop",
        }
    }
}

impl From<Outcome> for End {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            // A client that still listens has not left: the group aborts what is open when it is asked to leave.
            Outcome::Aborted => Self::Lost(STOPPING.into()),
            Outcome::Failed(reason) => Self::Failed(reason.sentence().into()),
            Outcome::Length => Self::Finished(FinishReason::Length),
            Outcome::Stop => Self::Finished(FinishReason::Stop),
        }
    }
}

/// What the rules do not know of an open request.
#[derive(Debug)]
struct Entry {
    prompt: Vec<u32>,
    client: mpsc::Sender<Delivery>,
    /// The room under which prefill's front end waits for the first delivery.
    room: Option<u64>,
}

/// The accepted requests that the decode group has not ended yet.
#[derive(Debug)]
pub(crate) struct Journal {
    rules: journal::Journal,
    entries: BTreeMap<RequestId, Entry>,
    /// Open requests that the group of this epoch is still to be told of.
    untold: BTreeSet<RequestId>,
    /// Rooms whose wait is over, and nobody has been told.
    served: Vec<u64>,
}

impl Journal {
    /// A journal of which nothing is recorded, in its first epoch. A request whose attempt failed is tried again so many times.
    pub(crate) fn new(epoch: Epoch, retries: u32) -> Self {
        Self {
            rules: journal::Journal::new(epoch).retrying(retries),
            entries: BTreeMap::new(),
            untold: BTreeSet::new(),
            served: Vec::new(),
        }
    }

    /// The current epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        self.rules.epoch()
    }

    /// Whether the prefill side is a deployment of its own, and away.
    pub(crate) fn is_away(&self) -> bool {
        self.rules.is_away()
    }

    /// Notes that the prefill side is away, or there again.
    pub(crate) fn set_away(&mut self, away: bool) {
        if away { self.rules.prefill_left() } else { self.rules.prefill_returned() }
    }

    /// Whether a request is open.
    pub(crate) fn is_open(&self, request: RequestId) -> bool {
        self.entries.contains_key(&request)
    }

    /// Takes out the rooms whose wait is over.
    pub(crate) fn served(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.served)
    }

    /// Number of requests that the group has not ended.
    pub(crate) fn outstanding(&self) -> usize {
        self.rules.open().len()
    }

    /// Takes a request in; its number is its place in acceptance order.
    pub(crate) fn accept(&mut self, submission: Submission) -> (RequestId, mpsc::Receiver<Delivery>) {
        let Submission { prompt, max_tokens, ignore_eos, sampling, room } = submission;
        let prompt_tokens = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        let wanted =
            Request { id: RequestId(0), prompt_tokens, max_tokens, generated: 0, ignore_eos, sampling };
        let request = self.rules.accept(wanted).id;
        self.untold.insert(request);
        let deliveries = usize::try_from(max_tokens).unwrap_or(usize::MAX).saturating_add(1);
        let (client, receiver) = mpsc::channel(deliveries.min(tokio::sync::Semaphore::MAX_PERMITS));
        self.entries.insert(request, Entry { prompt, client, room });
        (request, receiver)
    }

    /// Takes a token of epoch `epoch`, and the end where it came along, and delivers both unless they are late.
    ///
    /// # Errors
    /// A [`JournalFault`] when it is not the next token of an open request.
    pub(crate) fn token(
        &mut self,
        epoch: Epoch,
        (request, index): (RequestId, u32),
        token: u32,
        ended: Option<Outcome>,
    ) -> Result<(), JournalFault> {
        let received = self.rules.token(epoch, (request, index), TokenId(token), ended)?;
        self.settle(request, received, Delivery { token: Some(token), end: ended.map(End::from) });
        Ok(())
    }

    /// Takes an end without a token, of epoch `epoch`, and delivers it, unless the request is to be submitted once more.
    ///
    /// # Errors
    /// A [`JournalFault`] when the request is not open.
    pub(crate) fn ended(
        &mut self,
        epoch: Epoch,
        request: RequestId,
        outcome: Outcome,
    ) -> Result<(), JournalFault> {
        let received = self.rules.ended(epoch, request, outcome)?;
        self.settle(request, received, Delivery { token: None, end: Some(outcome.into()) });
        Ok(())
    }

    fn settle(&mut self, request: RequestId, received: Received, delivery: Delivery) {
        match received {
            Received::Late => {}
            Received::Again(submission) => drop(self.untold.insert(submission.id)),
            Received::Taken => self.deliver(request, delivery),
        }
    }

    fn deliver(&mut self, request: RequestId, delivery: Delivery) {
        let ends = delivery.end.is_some();
        if let Some(entry) = self.entries.get_mut(&request) {
            self.served.extend(entry.room.take());
            // The channel has room for every token and the end, so only a client that has just left makes this fail.
            entry.client.try_send(delivery).ok();
        }
        if ends {
            self.entries.remove(&request);
        }
    }

    /// The tokens of a leg that the group of `epoch` wants, the prompt and the first `generated` tokens, and how the next is chosen; none
    /// if that epoch is over.
    ///
    /// # Errors
    /// A [`JournalFault`] when the request is not open or has fewer tokens.
    pub(crate) fn leg(
        &self,
        epoch: Epoch,
        request: RequestId,
        generated: u32,
    ) -> Result<Option<(Vec<u32>, Draw)>, JournalFault> {
        if epoch < self.epoch() {
            return Ok(None);
        }
        let sent = self.rules.sent(request, generated)?;
        let open = self.entries.get(&request).zip(self.rules.open().get(&request));
        let (entry, account) = open.ok_or(JournalFault::Unknown(request))?;
        let tokens = entry.prompt.iter().copied().chain(sent.iter().map(|token| token.0)).collect();
        Ok(Some((tokens, Draw { sampling: account.request.sampling, index: generated })))
    }

    /// Notes that nobody listens any more; `true` when the group is to be told, which is once at most. A request that it has not been
    /// told of ends here.
    pub(crate) fn abandon(&mut self, request: RequestId) -> bool {
        let first = self.rules.abandon(request);
        let withdrawn = first && self.untold.remove(&request);
        if withdrawn {
            self.withdraw(request);
        }
        first && !withdrawn
    }

    fn withdraw(&mut self, request: RequestId) {
        // A request that is not open any more has nothing to withdraw.
        self.rules.ended(self.epoch(), request, Outcome::Aborted).ok();
        self.served.extend(self.entries.remove(&request).and_then(|entry| entry.room));
    }

    /// The epoch is over: what its group still says is late. Requests that nobody waits for are gone.
    pub(crate) fn raise_epoch(&mut self) {
        self.rules.raise_epoch();
        let open = self.rules.open();
        self.entries.retain(|request, _| open.contains_key(request));
        self.untold = open.keys().copied().collect();
    }

    /// Takes out what the group is to be told: the open requests that it has not been told of, in acceptance order.
    pub(crate) fn submissions(&mut self) -> Vec<Request> {
        let untold = std::mem::take(&mut self.untold);
        let open = self.rules.open();
        untold.iter().filter_map(|request| open.get(request)).map(Account::submission).collect()
    }

    /// Ends every stream for `reason`, and every request with it.
    pub(crate) fn close(&mut self, reason: &str) {
        let open: Vec<RequestId> = self.rules.open().keys().copied().collect();
        for request in open {
            self.deliver(request, Delivery { token: None, end: Some(End::Lost(reason.into())) });
            self.withdraw(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_spec::poll::Reason;

    const FIRST: Epoch = Epoch(1);
    const SECOND: Epoch = Epoch(2);

    fn submission() -> Submission {
        Submission {
            prompt: vec![5, 6],
            max_tokens: 3,
            ignore_eos: false,
            sampling: Sampling::GREEDY,
            room: None,
        }
    }

    fn accepted() -> (Journal, RequestId, mpsc::Receiver<Delivery>) {
        let mut journal = Journal::new(FIRST, 1);
        let (request, client) = journal.accept(submission());
        assert_eq!(journal.submissions().len(), 1, "the group is told");
        (journal, request, client)
    }

    fn token(token: u32) -> Delivery {
        Delivery { token: Some(token), end: None }
    }

    #[test]
    fn journal_delivers_tokens_in_order_and_ends_with_the_last() {
        let (mut journal, request, mut client) = accepted();
        journal.token(FIRST, (request, 0), 40, None).unwrap();
        journal.token(FIRST, (request, 1), 41, Some(Outcome::Length)).unwrap();
        assert_eq!(client.try_recv().unwrap(), token(40));
        let end = Some(End::Finished(FinishReason::Length));
        assert_eq!(client.try_recv().unwrap(), Delivery { token: Some(41), end });
        assert_eq!(journal.outstanding(), 0);
    }

    #[test]
    fn journal_answers_a_leg_with_prompt_and_generated_tokens() {
        let (mut journal, request, _client) = accepted();
        journal.token(FIRST, (request, 0), 40, None).unwrap();
        journal.token(FIRST, (request, 1), 41, None).unwrap();
        assert_eq!(journal.leg(FIRST, request, 0).unwrap().unwrap().0, [5, 6]);
        assert_eq!(journal.leg(FIRST, request, 2).unwrap().unwrap().0, [5, 6, 40, 41]);
        let beyond = journal.leg(FIRST, request, 3).unwrap_err();
        assert_eq!(beyond, JournalFault::LegBeyondSent { request, generated: 3, sent: 2 });
        journal.raise_epoch();
        assert_eq!(journal.leg(FIRST, request, 3).unwrap(), None, "that epoch is over");
    }

    #[test]
    fn journal_goes_on_in_the_next_epoch_behind_what_was_sent() {
        let (mut journal, request, mut client) = accepted();
        journal.token(FIRST, (request, 0), 40, None).unwrap();
        journal.raise_epoch();
        journal.token(FIRST, (request, 1), 99, None).unwrap();
        journal.ended(FIRST, request, Outcome::Aborted).unwrap();
        let again = Request {
            id: request,
            prompt_tokens: 2,
            max_tokens: 3,
            generated: 1,
            ignore_eos: false,
            sampling: Sampling::GREEDY,
        };
        assert_eq!(journal.submissions(), [again]);
        journal.token(SECOND, (request, 1), 41, None).unwrap();
        assert_eq!([client.try_recv().unwrap(), client.try_recv().unwrap()], [token(40), token(41)]);
        assert!(client.try_recv().is_err(), "nothing late was delivered");
    }

    #[test]
    fn journal_submits_once_more_after_a_failed_transfer_and_then_ends() {
        let (mut journal, request, mut client) = accepted();
        let failed = Outcome::Failed(Reason::Corrupt);
        journal.ended(FIRST, request, failed).unwrap();
        assert_eq!(journal.submissions().first().map(|again| again.id), Some(request));
        assert!(client.try_recv().is_err(), "the client is told nothing");
        journal.ended(FIRST, request, failed).unwrap();
        assert!(journal.submissions().is_empty());
        let end = Some(End::Failed(Reason::Corrupt.sentence().into()));
        assert_eq!(client.try_recv().unwrap(), Delivery { token: None, end });
    }

    #[test]
    fn journal_asks_for_an_abort_once_and_withdraws_what_no_group_knows() {
        let (mut journal, request, _) = accepted();
        assert!(journal.abandon(request));
        assert!(!journal.abandon(request));
        assert_eq!(journal.outstanding(), 1, "it counts until the group has ended it");
        journal.ended(FIRST, request, Outcome::Aborted).unwrap();
        let (untold, _) = journal.accept(submission());
        assert!(!journal.abandon(untold), "there is nobody to tell");
        assert!(journal.submissions().is_empty());
        assert_eq!((journal.outstanding(), journal.entries.len()), (0, 0));
    }

    #[test]
    fn journal_drops_with_the_epoch_what_nobody_waits_for() {
        let (mut journal, gone, _) = accepted();
        let (here, _client) = journal.accept(submission());
        journal.abandon(gone);
        journal.raise_epoch();
        assert_eq!(journal.submissions().iter().map(|open| open.id).collect::<Vec<_>>(), [here]);
        assert_eq!(journal.entries.len(), 1);
    }

    #[test]
    fn journal_closes_every_stream_with_the_reason() {
        let (mut journal, _, mut client) = accepted();
        journal.close("lost");
        assert_eq!(client.try_recv().unwrap(), Delivery { token: None, end: Some(End::Lost("lost".into())) });
        assert_eq!((journal.outstanding(), journal.entries.len()), (0, 0));
    }
}
