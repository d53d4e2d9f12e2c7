//! What the front end tells the leader: what it takes, what it turns away, and what it says in which brief.

#[allow(dead_code, reason = "each test binary uses its own part of the harness")]
mod harness;

use harness::alone::{Alone, ORDINARY, briefed, configuration, deeds, leg, prefill_leg, request};
use lockstep_spec::brief::Brief;
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::decode::Decode;
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::evidence::LegFact;
use lockstep_spec::decode::phase::Outcome;
use lockstep_spec::decode::request::Request;
use lockstep_spec::ids::RequestId;
use lockstep_spec::machine::Fact;
use lockstep_spec::poll::Reason;
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::evidence::WriteFact;

/// Lets requests and aborts of unknown requests reach a rank.
fn tell(rank: &mut Alone<Decode>, requests: u64, aborts: u64) {
    (0..aborts).for_each(|id| drop(rank.fact(Fact::AbortWanted(RequestId(100 + id)))));
    (0..requests).for_each(|id| drop(rank.fact(Fact::Submitted(request(1 + id, 1, 1)))));
}

fn counts(brief: &Brief<Request>) -> (usize, usize) {
    (brief.arrivals.len(), brief.aborts.len())
}

/// A brief has four words, two for the verdict on a forward of one row, one an abort, eight a request. What it has no room for stays for
/// the next; one that were too long would end the group.
#[test]
fn intake_fills_a_brief_to_its_last_word_and_no_further() {
    // Words that the brief has, requests and aborts that wait, and those of them that are in the brief.
    type Filled = (&'static str, u32, (u64, u64), (usize, usize));
    let alone: [Filled; 9] = [
        ("requests and aborts fit exactly", 24, (2, 4), (2, 4)),
        ("one abort too many for the second request", 24, (2, 5), (1, 5)),
        ("aborts alone fit exactly", 24, (0, 20), (0, 20)),
        ("one abort too many", 24, (0, 21), (0, 20)),
        ("aborts leave no room for a request", 24, (1, 13), (0, 13)),
        ("aborts leave the room for one", 24, (1, 12), (1, 12)),
        ("three requests fit exactly", 28, (3, 0), (3, 0)),
        ("one word too few for the third", 27, (3, 0), (2, 0)),
        ("more requests than free slots", 99, (4, 0), (3, 0)),
    ];
    let with_a_verdict: [Filled; 3] = [
        ("requests and aborts fit exactly beside it", 24, (2, 2), (2, 2)),
        ("one abort too many beside it", 24, (2, 3), (1, 3)),
        ("more aborts than it leaves room for", 24, (0, 19), (0, 18)),
    ];
    let idle: fn(GroupConfiguration) -> Alone<Decode> = Alone::new;
    let judging: fn(GroupConfiguration) -> Alone<Decode> = |configuration| {
        let mut rank = Alone::running(configuration, request(0, 1, 4));
        rank.retire(ORDINARY);
        rank
    };
    let table = alone.map(|row| (idle, row)).into_iter().chain(with_a_verdict.map(|row| (judging, row)));
    for (rank, (what, brief_words, (requests, aborts), in_brief)) in table {
        for pause in [None, Some(false)] {
            let mut rank = rank(GroupConfiguration { slots: 3, brief_words, ..configuration() });
            tell(&mut rank, requests, aborts);
            pause.into_iter().for_each(|pause| drop(rank.fact(Fact::PauseWanted(pause))));
            let brief = briefed::<Decode>(&rank.round()).unwrap_or_else(Brief::empty);
            assert_eq!((brief.pause, counts(&brief), rank.fault()), (pause, in_brief, None), "{what}");
            let left = (rank.machine.intake().arrivals.len(), rank.machine.intake().aborts.len());
            let told = (usize::try_from(requests).ok(), usize::try_from(aborts).ok());
            assert_eq!((Some(left.0 + in_brief.0), Some(left.1 + in_brief.1)), told, "{what}");
        }
    }
}

#[test]
fn intake_briefs_requests_in_the_order_of_their_acceptance() {
    let mut rank = Alone::<Decode>::new(configuration());
    for id in [2, 0, 1] {
        rank.fact(Fact::Submitted(request(id, 1, 1)));
    }
    let brief = briefed::<Decode>(&rank.round()).expect("there are requests");
    assert_eq!(brief.arrivals.iter().map(|request| request.id.0).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn intake_takes_a_request_once() {
    type Moment = (&'static str, fn(&mut Alone<Decode>), usize);
    let moments: [Moment; 3] = [
        ("while it waits", |_| {}, 1),
        ("while it is being briefed", |rank| drop(rank.turn()), 0),
        ("while it is in the table", |rank| drop(rank.round()), 0),
    ];
    for (when, reach, waiting) in moments {
        let mut rank = Alone::<Decode>::new(configuration());
        rank.fact(Fact::Submitted(request(0, 1, 1)));
        reach(&mut rank);
        assert_eq!(rank.fact(Fact::Submitted(request(0, 1, 1))), [], "{when}");
        assert_eq!(rank.machine.intake().arrivals.len(), waiting, "{when}");
    }
}

#[test]
fn intake_takes_no_leg_that_is_unwanted() {
    let mut rank = Alone::<Prefill>::new(configuration());
    rank.fact(Fact::Role((leg(0), WriteFact::Revoked)));
    rank.fact(Fact::Submitted(prefill_leg(0, 2, &[])));
    assert!(rank.machine.intake().arrivals.is_empty());
}

#[test]
fn intake_takes_an_abort_once() {
    let mut rank = Alone::<Decode>::new(configuration());
    (0..2).for_each(|_| drop(rank.fact(Fact::AbortWanted(RequestId(7)))));
    assert_eq!(rank.machine.intake().aborts, [RequestId(7)]);
}

/// Nobody waits for what the group has not been told of, so the leader itself tells its client.
#[test]
fn intake_turns_away_what_never_fits_and_what_comes_too_late() {
    let open: fn() -> Alone<Decode> = || Alone::new(configuration());
    // An undrained transfer keeps it from leaving.
    let closing: fn() -> Alone<Decode> = || {
        let mut rank = Alone::transferring(configuration(), request(0, 2, 4));
        rank.hear(0, &[LegFact::Published]);
        rank.fact(Fact::ShutdownWanted);
        rank.round();
        rank
    };
    let never_fits = Some(Outcome::Failed(Reason::NeverFits));
    let table = [
        ("what fits", open, request(1, 5, 4), None),
        ("what never fits", open, request(1, 5, 5), never_fits),
        ("what comes too late", closing, request(1, 5, 4), Some(Outcome::Aborted)),
        ("what never fits and comes too late", closing, request(1, 5, 5), never_fits),
    ];
    for (what, rank, request, outcome) in table {
        let mut rank = rank();
        let told = deeds::<Decode>(rank.fact(Fact::Submitted(request)));
        let expected: Vec<Do> =
            outcome.into_iter().map(|outcome| Do::End { request: request.id, outcome }).collect();
        assert_eq!(told, expected, "{what}");
        assert_eq!(rank.machine.intake().arrivals.is_empty(), outcome.is_some(), "{what}");
    }
}
