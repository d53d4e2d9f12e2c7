//! What a decode rank makes of the facts about its slots: tables of facts, and of what it then votes.

#[allow(dead_code, reason = "each test binary uses its own part of the harness")]
mod harness;

use harness::alone::{Alone, ORDINARY, configuration, deeds, request, row};
use lockstep_spec::decode::Decode;
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::evidence::{Grant, LegFact, MetadataRow, Receipt};
use lockstep_spec::decode::phase::{Outcome, Phase};
use lockstep_spec::ids::{Attempt, Epoch, Generation, Leg, RequestId, SlotIndex, TokenId};
use lockstep_spec::machine::Fact;
use lockstep_spec::poll::{KvPoll, Reason};

use LegFact::{Fenced, HandshakeDone, HandshakeFailed, PagesLanded, Published, RowLanded, TransferFailed};

const OTHER: TokenId = TokenId(4);

fn bootstrapping() -> Alone<Decode> {
    Alone::bootstrapping(configuration(), request(0, 2, 4))
}

fn transferring() -> Alone<Decode> {
    Alone::transferring(configuration(), request(0, 2, 4))
}

/// The attempt ends before, or after, its pages were handed to the fabric.
fn cancelling() -> Alone<Decode> {
    let mut rank = transferring();
    rank.fact(Fact::AbortWanted(RequestId(0)));
    rank.round();
    rank
}

fn revoking() -> Alone<Decode> {
    let mut rank = transferring();
    rank.hear(0, &[Published]);
    rank.fact(Fact::AbortWanted(RequestId(0)));
    rank.round();
    rank
}

/// Each leg that differs from `leg` in one thing.
fn others(leg: Leg) -> [Leg; 4] {
    [
        Leg { epoch: Epoch(leg.epoch.0 + 1), ..leg },
        Leg { slot: SlotIndex(leg.slot.0 + 1), ..leg },
        Leg { generation: Generation(leg.generation.0 + 1), ..leg },
        Leg { attempt: Attempt(leg.attempt.0 + 1), ..leg },
    ]
}

#[test]
fn evidence_of_a_transfer_is_what_came_first() {
    let mine = transferring().leg(0);
    let (ours, other) = (row(mine, ORDINARY), row(mine, OTHER));
    let unsound = RowLanded(MetadataRow { echo: mine, token: ORDINARY, sound: false });
    let broken = Receipt::Broken(KvPoll::TransferFailed);
    let corrupt = Receipt::Broken(KvPoll::Corrupt);
    let table: [(&str, &[LegFact], Receipt); 14] = [
        ("pages", &[PagesLanded], Receipt::Pages),
        ("pages twice", &[PagesLanded, PagesLanded], Receipt::Pages),
        ("a row", &[ours], Receipt::Row(ORDINARY)),
        ("a second row", &[ours, other], Receipt::Row(ORDINARY)),
        ("pages and row", &[PagesLanded, ours], Receipt::Whole(ORDINARY)),
        ("row and pages", &[ours, PagesLanded], Receipt::Whole(ORDINARY)),
        ("a second row, and pages", &[ours, other, PagesLanded], Receipt::Whole(ORDINARY)),
        ("a second row of what is whole", &[ours, PagesLanded, other], Receipt::Whole(ORDINARY)),
        ("a failure of what is whole", &[ours, PagesLanded, TransferFailed], Receipt::Whole(ORDINARY)),
        ("a failure", &[TransferFailed], broken),
        ("pages and row after a failure", &[TransferFailed, PagesLanded, ours], broken),
        ("a failure after pages", &[PagesLanded, TransferFailed], broken),
        ("a row that is not sound after a failure", &[TransferFailed, unsound], broken),
        ("a failure after a row that is not sound", &[unsound, TransferFailed], corrupt),
    ];
    for (what, facts, receipt) in table {
        let mut rank = transferring();
        rank.hear(0, facts);
        assert_eq!(rank.seen(0).receipt, receipt, "{what}");
    }
}

#[test]
fn evidence_of_a_row_that_was_written_for_another_leg() {
    for echo in others(transferring().leg(0)) {
        let mut rank = transferring();
        rank.hear(0, &[PagesLanded, row(echo, ORDINARY)]);
        assert_eq!(rank.seen(0).receipt, Receipt::Broken(KvPoll::WrongLeg), "{echo}");
    }
}

#[test]
fn evidence_is_unchanged_by_facts_of_another_leg() {
    let before = transferring().seen(0);
    for leg in others(transferring().leg(0)) {
        for fact in [HandshakeFailed, Published, PagesLanded, row(leg, ORDINARY), TransferFailed, Fenced] {
            let mut rank = transferring();
            rank.fact(Fact::Role((leg, fact)));
            assert_eq!(rank.seen(0), before, "{fact:?} of {leg}");
        }
    }
}

#[test]
fn evidence_of_a_grant_goes_its_way_and_no_other() {
    type Granted = (fn() -> Alone<Decode>, Grant, LegFact, Grant);
    let published: fn() -> Alone<Decode> = || {
        let mut rank = transferring();
        rank.hear(0, &[Published]);
        rank
    };
    let table: [Granted; 10] = [
        (bootstrapping, Grant::None, Published, Grant::None),
        (bootstrapping, Grant::None, Fenced, Grant::None),
        (transferring, Grant::Queued, Published, Grant::Published),
        (transferring, Grant::Queued, Fenced, Grant::Queued),
        (published, Grant::Published, Published, Grant::Published),
        (published, Grant::Published, Fenced, Grant::Published),
        (cancelling, Grant::Cancelling, Published, Grant::Cancelling),
        (cancelling, Grant::Cancelling, Fenced, Grant::None),
        (revoking, Grant::Revoking, Published, Grant::Revoking),
        (revoking, Grant::Revoking, Fenced, Grant::None),
    ];
    for (rank, before, fact, after) in table {
        let mut rank = rank();
        assert_eq!(rank.seen(0).grant, before);
        rank.hear(0, &[fact]);
        assert_eq!(rank.seen(0).grant, after, "{fact:?} of {before:?}");
    }
}

/// What lands without a grant is nobody's.
#[test]
fn evidence_of_a_transfer_needs_a_grant() {
    for rank in [bootstrapping, cancelling, revoking] {
        let before = rank().seen(0);
        for fact in [PagesLanded, row(rank().leg(0), ORDINARY), TransferFailed] {
            let mut rank = rank();
            rank.hear(0, &[fact]);
            assert_eq!(rank.seen(0), before, "{fact:?} of {:?}", before.grant);
        }
    }
}

/// Both requests run until the older one needs a page that only the younger one, in the second slot, can give.
fn retracted() -> Alone<Decode> {
    let mut rank = Alone::running(configuration(), request(0, 2, 4));
    rank.fact(Fact::Submitted(request(1, 2, 4)));
    rank.round();
    rank.hear(1, &[HandshakeDone]);
    rank.round();
    rank.land(1, ORDINARY);
    let retracted = (0..9).any(|_| {
        rank.retire(ORDINARY);
        rank.round();
        rank.leg(1).attempt == Attempt(1)
    });
    assert!(retracted);
    rank
}

#[test]
fn evidence_that_came_counts_though_the_deadline_has_passed() {
    type Late = (fn() -> Alone<Decode>, u32, Phase, &'static [LegFact], Option<Reason>);
    let table: [Late; 10] = [
        (bootstrapping, 0, Phase::Bootstrapping, &[], Some(Reason::DeadlinePassed)),
        (bootstrapping, 0, Phase::Bootstrapping, &[HandshakeDone], None),
        (bootstrapping, 0, Phase::Bootstrapping, &[HandshakeFailed], Some(Reason::HandshakeFailed)),
        (transferring, 0, Phase::Transferring, &[], Some(Reason::DeadlinePassed)),
        (transferring, 0, Phase::Transferring, &[PagesLanded], Some(Reason::DeadlinePassed)),
        (transferring, 0, Phase::Transferring, &[TransferFailed], Some(Reason::TransferFailed)),
        (with_its_row, 0, Phase::Transferring, &[PagesLanded], None),
        (retracted, 1, Phase::Retracted, &[], Some(Reason::DeadlinePassed)),
        (retracted, 1, Phase::Retracted, &[HandshakeDone], None),
        (retracted, 1, Phase::Retracted, &[HandshakeFailed], Some(Reason::HandshakeFailed)),
    ];
    for (rank, slot, phase, facts, failure) in table {
        let mut rank = rank();
        let now = rank.state().occupant(SlotIndex(slot)).map(|tenant| tenant.phase);
        assert_eq!(now, Some(phase));
        let mut early = rank.clone();
        (0..2).for_each(|_| drop(early.fact(Fact::Tick)));
        assert_eq!(failures(&mut early), [], "{phase:?}: the deadline has not passed");
        (0..3).for_each(|_| drop(rank.fact(Fact::Tick)));
        rank.hear(slot, facts);
        let expected: Vec<Reason> = failure.into_iter().collect();
        assert_eq!(failures(&mut rank), expected, "{phase:?}, {facts:?}");
    }
}

/// All of the transfer has come but its pages.
fn with_its_row() -> Alone<Decode> {
    let mut rank = transferring();
    rank.hear(0, &[row(rank.leg(0), ORDINARY)]);
    rank
}

/// Plays a round, and says why requests failed in it.
fn failures(rank: &mut Alone<Decode>) -> Vec<Reason> {
    let reason =
        |deed| if let Do::End { outcome: Outcome::Failed(reason), .. } = deed { Some(reason) } else { None };
    deeds::<Decode>(rank.round()).into_iter().filter_map(reason).collect()
}
