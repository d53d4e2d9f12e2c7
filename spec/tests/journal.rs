//! The front end's journal: what is next, what is late, what is submitted again.

use lockstep_spec::decode::phase::Outcome;
use lockstep_spec::decode::request::{Request, Sampling};
use lockstep_spec::ids::{Epoch, RequestId, TokenId};
use lockstep_spec::journal::{Journal, JournalFault, Received};
use lockstep_spec::poll::Reason;

const NOW: Epoch = Epoch(0);

fn wanted(prompt_tokens: u32, max_tokens: u32, ignore_eos: bool) -> Request {
    let (id, sampling) = (RequestId(9), Sampling::GREEDY);
    Request { id, prompt_tokens, max_tokens, generated: 0, ignore_eos, sampling }
}

fn journal() -> (Journal, RequestId) {
    let mut journal = Journal::new(NOW);
    let request = journal.accept(wanted(2, 3, false)).id;
    (journal, request)
}

fn token(
    journal: &mut Journal,
    epoch: Epoch,
    request: RequestId,
    index: u32,
) -> Result<Received, JournalFault> {
    journal.token(epoch, (request, index), TokenId(40 + index), None)
}

#[test]
fn journal_takes_tokens_in_turn_alone() {
    let (mut journal, request) = journal();
    let out_of_turn = |index, expected| Err(JournalFault::OutOfTurn { request, index, expected });
    assert_eq!(token(&mut journal, NOW, request, 1), out_of_turn(1, 0));
    assert_eq!(token(&mut journal, NOW, request, 0), Ok(Received::Taken));
    assert_eq!(token(&mut journal, NOW, request, 0), out_of_turn(0, 1));
    assert_eq!(token(&mut journal, NOW, RequestId(9), 0), Err(JournalFault::Unknown(RequestId(9))));
}

#[test]
fn journal_takes_no_token_past_the_limit() {
    let (mut journal, request) = journal();
    for index in 0..3 {
        assert_eq!(token(&mut journal, NOW, request, index), Ok(Received::Taken));
    }
    let fault = JournalFault::OutOfTurn { request, index: 3, expected: 3 };
    assert_eq!(token(&mut journal, NOW, request, 3), Err(fault));
}

#[test]
fn journal_closes_a_request_with_its_last_token() {
    let (mut journal, request) = journal();
    let last = journal.token(NOW, (request, 0), TokenId(1), Some(Outcome::Stop));
    assert_eq!(last, Ok(Received::Taken));
    assert!(journal.open().is_empty());
    journal.raise_epoch();
    assert_eq!(journal.submissions().count(), 0, "a stream that ended is not begun again");
}

#[test]
fn journal_ignores_what_an_old_epoch_says() {
    let (mut journal, request) = journal();
    token(&mut journal, NOW, request, 0).expect("in turn");
    journal.raise_epoch();
    assert_eq!(token(&mut journal, NOW, request, 1), Ok(Received::Late));
    assert_eq!(journal.ended(NOW, request, Outcome::Aborted), Ok(Received::Late));
    let early = JournalFault::Unborn { epoch: Epoch(2), current: Epoch(1) };
    assert_eq!(token(&mut journal, Epoch(2), request, 1), Err(early));
    assert_eq!(token(&mut journal, Epoch(1), request, 1), Ok(Received::Taken));
}

#[test]
fn journal_submits_what_is_open_behind_the_tokens_sent() {
    let (mut journal, first) = journal();
    let (left, last) = (journal.accept(wanted(1, 2, true)).id, journal.accept(wanted(1, 2, true)).id);
    token(&mut journal, NOW, first, 0).expect("in turn");
    assert!(journal.abandon(left));
    assert!(!journal.abandon(left), "the group is told once");
    journal.raise_epoch();
    let submitted: Vec<_> = journal.submissions().map(|request| (request.id, request.generated)).collect();
    assert_eq!(submitted, [(first, 1), (last, 0)]);
}

#[test]
fn journal_tries_a_failed_transfer_once_more() {
    let (mut journal, request) = journal();
    token(&mut journal, NOW, request, 0).expect("in turn");
    let failed = Outcome::Failed(Reason::TransferFailed);
    let again = journal.ended(NOW, request, failed).expect("it is open");
    assert!(matches!(again, Received::Again(again) if again.id == request && again.generated == 1));
    assert_eq!(journal.ended(NOW, request, failed), Ok(Received::Taken));
    assert!(journal.open().is_empty());
}

#[test]
fn journal_does_not_try_again_what_nobody_waits_for_or_cannot_work() {
    let (mut journal, request) = journal();
    assert_eq!(journal.ended(NOW, request, Outcome::Failed(Reason::NeverFits)), Ok(Received::Taken));
    let gone = journal.accept(wanted(1, 1, false)).id;
    journal.abandon(gone);
    assert_eq!(journal.ended(NOW, gone, Outcome::Failed(Reason::Corrupt)), Ok(Received::Taken));
}

#[test]
fn journal_answers_a_leg_with_the_tokens_that_were_sent() {
    let (mut journal, request) = journal();
    token(&mut journal, NOW, request, 0).expect("in turn");
    assert_eq!(journal.sent(request, 1), Ok(&[TokenId(40)][..]));
    assert_eq!(journal.sent(request, 0), Ok(&[][..]));
    let beyond = JournalFault::LegBeyondSent { request, generated: 2, sent: 1 };
    assert_eq!(journal.sent(request, 2), Err(beyond));
}

#[test]
fn journal_does_not_count_what_an_absence_of_prefill_explains() {
    let (mut journal, request) = journal();
    let (failed, late) = (Outcome::Failed(Reason::TransferFailed), Outcome::Failed(Reason::DeadlinePassed));
    let is_again = |ended| matches!(ended, Ok(Received::Again(again)) if again.id == request);
    assert!(is_again(journal.ended(NOW, request, failed)), "heard before prefill's end is");
    journal.prefill_left();
    assert!(journal.is_away());
    journal.prefill_returned();
    assert!(is_again(journal.ended(NOW, request, late)), "it waited while nobody was there");
    assert!(is_again(journal.ended(NOW, request, failed)), "what was counted before is forgiven");
    assert_eq!(journal.ended(NOW, request, failed), Ok(Received::Taken));
    let next = journal.accept(wanted(1, 1, false)).id;
    assert_eq!(journal.ended(NOW, next, late), Ok(Received::Taken), "nothing excuses it");
}

#[test]
fn journal_tries_again_as_often_as_it_is_told_to() {
    let mut journal = Journal::new(NOW).retrying(2);
    let request = journal.accept(wanted(2, 3, false)).id;
    let failed = Outcome::Failed(Reason::TransferFailed);
    for _ in 0..2 {
        assert!(matches!(journal.ended(NOW, request, failed), Ok(Received::Again(_))));
    }
    assert_eq!(journal.ended(NOW, request, failed), Ok(Received::Taken));
}

#[test]
fn journal_tries_failures_of_one_attempt_again_and_no_others() {
    let table = [
        (Reason::TransferFailed, true),
        (Reason::Corrupt, true),
        (Reason::WrongLeg, true),
        (Reason::HandshakeFailed, true),
        (Reason::Revoked, true),
        (Reason::FirstTokenDiffers, true),
        (Reason::DeadlinePassed, false),
        (Reason::NeverFits, false),
    ];
    for (reason, again) in table {
        let (mut journal, request) = journal();
        let received = journal.ended(NOW, request, Outcome::Failed(reason));
        assert_eq!(matches!(received, Ok(Received::Again(_))), again, "{reason:?}");
    }
}

/// The request goes on in the next epoch, and what is known of its failures with it.
#[test]
fn journal_keeps_excuses_and_counts_from_epoch_to_epoch() {
    let next = Epoch(1);
    let (mut journal, request) = journal();
    let counted = journal.accept(wanted(1, 1, false)).id;
    journal.prefill_left();
    let failed = Outcome::Failed(Reason::TransferFailed);
    for _ in 0..2 {
        let again = journal.ended(NOW, counted, failed);
        assert!(matches!(again, Ok(Received::Again(_))), "one is excused, and one is counted");
    }
    journal.raise_epoch();
    let late = journal.ended(next, request, Outcome::Failed(Reason::DeadlinePassed));
    assert!(matches!(late, Ok(Received::Again(_))), "it is excused still");
    assert_eq!(journal.ended(next, counted, failed), Ok(Received::Taken), "it was tried again before");
}
