//! What ends a rank: each contract that a leader, another rank or a device may break, and the fault that it is.

#[allow(dead_code, reason = "each test binary uses its own part of the harness")]
mod harness;

use harness::alone::{
    Alone, BRIEF_WORDS, COPIED, DRAINED, FIRST_TOKEN, ORDINARY, POLL, RETIRED, TOKENS, configuration, leg,
    prefill_leg, request,
};
use lockstep_spec::brief::Brief;
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::decode::Decode;
use lockstep_spec::decode::evidence::LegFact;
use lockstep_spec::decode::request::Request;
use lockstep_spec::fault::Fault;
use lockstep_spec::ids::{Attempt, CopyId, ForwardId, Generation, Leg, SlotIndex, TokenId};
use lockstep_spec::machine::Fact;
use lockstep_spec::poll::KvPoll;
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::PrefillLeg;

/// Tokens of the first forward on which all ranks agree.
const SAME_TOKENS: [(usize, u64); 2] = [(TOKENS, 7), (TOKENS + 1, !7)];
const WHOLE: [(usize, u64); 4] =
    [(POLL, KvPoll::Success as u64), (FIRST_TOKEN, 5), (FIRST_TOKEN + 1, !5), (DRAINED, u64::MAX)];

fn judging(rows: &[&[bool]]) -> Option<Brief<Request>> {
    let verdicts = rows.iter().map(|rows| rows.to_vec()).collect();
    Some(Brief { verdicts, ..Brief::empty() })
}

fn bringing(arrivals: &[Request]) -> Option<Brief<Request>> {
    Some(Brief { arrivals: arrivals.to_vec(), ..Brief::empty() })
}

fn idle() -> Alone<Decode> {
    Alone::new(configuration())
}

/// Request 0 is in the first of two slots, and its transfer is under way.
fn transferring() -> Alone<Decode> {
    Alone::transferring(configuration(), request(0, 2, 4))
}

/// Its first forward, of one row, is in flight.
fn running() -> Alone<Decode> {
    Alone::running(configuration(), request(0, 2, 4))
}

#[test]
fn fault_of_what_a_group_may_not_agree_on() {
    type Agreed = (&'static str, fn() -> Alone<Decode>, Vec<(usize, u64)>, Option<Brief<Request>>, Fault);
    let verdicts = Fault::BadBrief("verdicts for other forwards than those in flight");
    let retired = [&SAME_TOKENS[..], &[(RETIRED, 1)]].concat();
    let table: [Agreed; 11] = [
        ("a brief too long", idle, vec![(BRIEF_WORDS, 23)], None, Fault::BadBrief("it is too long")),
        ("verdicts of another plan", running, vec![], judging(&[&[false, false]]), verdicts),
        ("verdicts of another forward", running, vec![], judging(&[&[false], &[false]]), verdicts),
        ("no verdicts", running, retired.clone(), None, Fault::VerdictsMissing(ForwardId(0))),
        (
            "a forward unseen",
            running,
            retired.clone(),
            judging(&[&[false]]),
            Fault::RetiredAhead(ForwardId(0)),
        ),
        ("no forward", idle, retired, None, Fault::UnexpectedRetirement(ForwardId(0))),
        ("no copy", running, vec![(COPIED, 1)], None, Fault::UnexpectedCopy(CopyId(0))),
        (
            "what never fits",
            idle,
            vec![],
            bringing(&[request(0, 8, 2)]),
            Fault::BadBrief("an arrival that could never run"),
        ),
        (
            "a request that is here",
            running,
            vec![],
            bringing(&[request(0, 2, 4)]),
            Fault::BadBrief("an arrival that is in the table already"),
        ),
        (
            "more than fit the table",
            running,
            vec![],
            bringing(&[request(1, 1, 1), request(2, 1, 1)]),
            Fault::BadBrief("more arrivals than free slots"),
        ),
        ("KV that is not whole here", transferring, WHOLE.to_vec(), None, Fault::KvNotWhole(SlotIndex(0))),
    ];
    for (what, rank, vote, brief, fault) in table {
        let mut rank = rank();
        assert_eq!(rank.fault(), None, "{what}");
        rank.agree(&vote, brief.as_ref());
        assert_eq!(rank.fault(), Some(fault), "{what}");
    }
}

/// A client may submit anew what has ended, while its pages wait for their fence.
#[test]
fn fault_is_none_of_a_request_that_comes_again_after_its_end() {
    let mut rank = transferring();
    rank.hear(0, &[LegFact::TransferFailed]);
    rank.round();
    rank.fact(Fact::Submitted(request(0, 2, 4)));
    rank.round();
    assert_eq!(rank.fault(), None);
    let tenants = rank.state().slots.iter().filter_map(|slot| slot.occupant.as_ref());
    let ended: Vec<_> = tenants.map(|tenant| (tenant.request.id.0, tenant.ended())).collect();
    assert_eq!(ended, [(0, true), (0, false)], "the old one and the new one");
}

#[test]
fn fault_of_what_prefill_ranks_may_not_agree_on() {
    type Agreed = (&'static str, PrefillLeg, Option<Leg>, Option<Fault>);
    let keys = Fault::BadBrief("a leg has more keys than pages that may be kept");
    let earlier = Leg { generation: Generation(0), ..leg(0) };
    let later = Leg { attempt: Attempt(1), ..leg(0) };
    let unlisted = Fault::NotListed(SlotIndex(0));
    let table: [Agreed; 7] = [
        ("a key of each full page", prefill_leg(0, 4, &[1, 2]), Some(leg(0)), None),
        ("a key of a page that is not full", prefill_leg(0, 3, &[1, 2]), Some(leg(0)), Some(keys)),
        ("more keys than are kept", prefill_leg(0, 8, &[1, 2, 3]), Some(leg(0)), Some(keys)),
        ("a leg that is listed here", prefill_leg(0, 3, &[]), Some(leg(0)), None),
        // The decode side has given it up meanwhile; the other ranks may not know.
        ("a leg that was listed here", prefill_leg(0, 3, &[]), Some(later), None),
        ("a leg that is not", prefill_leg(0, 3, &[]), None, Some(unlisted)),
        ("a leg of which an earlier one is", prefill_leg(0, 3, &[]), Some(earlier), Some(unlisted)),
    ];
    for (what, arrival, listed, fault) in table {
        let brief_words = GroupConfiguration::least_brief_words(2) + 4;
        let mut rank =
            Alone::<Prefill>::new(GroupConfiguration { prefix_pages: 2, brief_words, ..configuration() });
        listed.into_iter().for_each(|leg| drop(rank.fact(Fact::Role((leg, WriteFact::Listed)))));
        rank.agree(&[], Some(&Brief { arrivals: vec![arrival], ..Brief::empty() }));
        rank.agree(&[(POLL, KvPoll::WaitingForInput.code())], None);
        assert_eq!(rank.fault(), fault, "{what}");
        assert_eq!(rank.state().flights.queue.is_empty(), fault.is_some(), "{what}");
    }
}

#[test]
fn fault_of_forwards_that_a_device_may_not_report() {
    let (next, after) = (ForwardId(1), ForwardId(2));
    let (ordinary, other): (&[u32], &[u32]) = (&[3], &[4]);
    let fault = |forward| Some(Fault::UnexpectedRetirement(forward));
    type Reported<'a> = (&'a str, &'a [(ForwardId, &'a [u32])], usize, Option<Fault>);
    let table: [Reported; 7] = [
        ("the next", &[(next, ordinary)], 1, None),
        ("the next again", &[(next, ordinary), (next, ordinary)], 1, None),
        ("one that retired long ago", &[(ForwardId(0), ordinary)], 0, None),
        ("the next with other tokens", &[(next, ordinary), (next, other)], 1, fault(next)),
        ("another than the next", &[(after, ordinary)], 0, fault(after)),
        (
            "one that was never launched",
            &[(next, ordinary), (ForwardId(3), ordinary)],
            1,
            fault(ForwardId(3)),
        ),
        ("more tokens than rows", &[(next, &[3, 4])], 0, fault(next)),
    ];
    for (what, reports, ahead, fault) in table {
        let mut rank = Alone::running(GroupConfiguration { flights: 2, ..configuration() }, request(0, 2, 6));
        rank.retire(ORDINARY);
        rank.round();
        rank.round();
        assert_eq!(rank.state().flights.queue.len(), 2, "{what}: there are two in flight");
        for (forward, tokens) in reports {
            let tokens = tokens.iter().copied().map(TokenId).collect();
            rank.fact(Fact::Retired { forward: *forward, tokens });
        }
        assert_eq!((rank.machine.retired_ahead(), rank.fault()), (ahead, fault), "{what}");
    }
}

/// A rank of a group that copies two pages to its host.
fn copying() -> Alone<Prefill> {
    let brief_words = GroupConfiguration::least_brief_words(2) + 4;
    let configuration = GroupConfiguration { prefix_pages: 2, host_pages: 2, brief_words, ..configuration() };
    let mut rank = Alone::new(configuration);
    rank.compute(prefill_leg(0, 5, &[1, 2]));
    rank
}

#[test]
fn fault_of_copies_that_a_device_may_not_report() {
    type Reported = (&'static str, &'static [u64], Option<u64>, Option<Fault>);
    let table: [Reported; 7] = [
        ("the first", &[0], Some(1), None),
        ("the first again", &[0, 0], Some(1), None),
        ("both", &[0, 1], None, None),
        ("the last again", &[0, 1, 1], None, None),
        ("the first again behind the last", &[0, 1, 0], None, None),
        ("the second ahead of the first", &[1], Some(0), Some(Fault::UnexpectedCopy(CopyId(1)))),
        ("one that was never issued", &[0, 1, 2], None, Some(Fault::UnexpectedCopy(CopyId(2)))),
    ];
    for (what, reports, next, fault) in table {
        let mut rank = copying();
        reports.iter().for_each(|copy| drop(rank.fact(Fact::Copied(CopyId(*copy)))));
        let left = rank.machine.next_copy().map(|copy| copy.id.0);
        assert_eq!((left, rank.fault()), (next, fault), "{what}");
    }
}

#[test]
fn fault_of_copies_that_are_agreed_and_not_made_here() {
    let table: [(u64, u64, Option<u64>, Option<Fault>); 4] = [
        (2, 1, None, None),
        (1, 1, Some(1), None),
        (1, 2, Some(1), Some(Fault::CopiedAhead(CopyId(1)))),
        (2, 3, None, Some(Fault::UnexpectedCopy(CopyId(2)))),
    ];
    for (here, agreed, next, fault) in table {
        let mut rank = copying();
        (0..here).for_each(|copy| drop(rank.fact(Fact::Copied(CopyId(copy)))));
        rank.agree(&[(COPIED, agreed)], None);
        let left = rank.machine.next_copy().map(|copy| copy.id.0);
        assert_eq!((left, rank.fault()), (next, fault), "{here} here, {agreed} agreed");
    }
}
