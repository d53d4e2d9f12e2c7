//! Stories of whole groups: what reaches the ranks, and everything that they do. Each is a transcript to be read against the protocol.

#[allow(dead_code, reason = "each test binary uses its own part of the harness")]
mod harness;

use harness::Group;
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::decode::Decode;
use lockstep_spec::decode::evidence::{LegFact, MetadataRow};
use lockstep_spec::decode::phase::Phase;
use lockstep_spec::decode::request::{Request, Sampling};
use lockstep_spec::ids::{Attempt, BlockKey, CopyId, Epoch, Generation, Leg, RequestId, SlotIndex, TokenId};
use lockstep_spec::machine::Fact;
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::PrefillLeg;

const EOS: u32 = 9;

fn configuration(flights: u32, pages: u32) -> GroupConfiguration {
    GroupConfiguration {
        epoch: Epoch(0),
        ranks: 2,
        slots: 2,
        pages,
        page_size: 2,
        flights,
        prefix_pages: 0,
        host_pages: 0,
        brief_words: 32,
        chunk_tokens: 8,
        deadline_ticks: 3,
        stop_tokens: vec![TokenId(EOS)],
        collectives: Collectives::Host,
        forwards: Forwards::Eager,
        votes: Votes::Host,
    }
}

fn leg(slot: u32, generation: u64, attempt: u64) -> Leg {
    Leg {
        epoch: Epoch(0),
        slot: SlotIndex(slot),
        generation: Generation(generation),
        attempt: Attempt(attempt),
    }
}

fn row(echo: Leg, token: u32) -> LegFact {
    LegFact::RowLanded(MetadataRow { echo, token: TokenId(token), sound: true })
}

fn submit(group: &mut Group<Decode>, id: u64, prompt_tokens: u32, max_tokens: u32) {
    let request = Request {
        id: RequestId(id),
        prompt_tokens,
        max_tokens,
        generated: 0,
        ignore_eos: false,
        sampling: Sampling::GREEDY,
    };
    group.fact(0, Fact::Submitted(request));
}

fn decode(group: &mut Group<Decode>, leg: Leg, fact: LegFact) {
    group.everywhere(&Fact::Role((leg, fact)));
}

/// From a recorded request to one whose KV is whole on every rank.
fn bring_in(group: &mut Group<Decode>, leg: Leg, token: u32) {
    decode(group, leg, LegFact::HandshakeDone);
    group.round();
    decode(group, leg, LegFact::Published);
    decode(group, leg, LegFact::PagesLanded);
    decode(group, leg, row(leg, token));
    group.round();
    decode(group, leg, LegFact::Fenced);
    group.round();
}

fn assert_empty(group: &Group<Decode>, configuration: &GroupConfiguration) {
    assert!(harness::empty(configuration, group.state()), "nothing is left behind");
}

#[test]
fn decode_one_request_from_submission_to_last_token() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 3, 3);
    group.round();
    bring_in(&mut group, leg(0, 1, 0), 5);
    group.retired(0, &[6]);
    group.round();
    group.retired(1, &[7]);
    group.rounds(2);
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn decode_one_request_under_overlap_drops_the_surplus_token() {
    let configuration = configuration(2, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 3, 5);
    group.round();
    bring_in(&mut group, leg(0, 1, 0), 5);
    group.round();
    group.retired(0, &[EOS]);
    group.round();
    group.retired(1, &[6]);
    group.rounds(2);
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn decode_leader_retires_first_and_its_verdict_waits() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration);
    submit(&mut group, 0, 3, 3);
    group.round();
    bring_in(&mut group, leg(0, 1, 0), 5);
    group.tell();
    let retired = Fact::Retired { forward: lockstep_spec::ids::ForwardId(0), tokens: vec![TokenId(EOS)] };
    group.fact(0, retired.clone());
    group.rounds(2);
    group.fact(1, retired);
    group.round();
    insta::assert_snapshot!(group.tell());
}

#[test]
fn decode_abort_before_the_brief() {
    let mut group = Group::<Decode>::new(configuration(1, 4));
    submit(&mut group, 0, 3, 3);
    group.fact(0, Fact::AbortWanted(RequestId(0)));
    group.round();
    insta::assert_snapshot!(group.tell());
}

#[test]
fn decode_abort_during_handshake() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 3, 3);
    group.round();
    group.fact(0, Fact::AbortWanted(RequestId(0)));
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn decode_abort_during_transfer() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 3, 3);
    group.round();
    decode(&mut group, leg(0, 1, 0), LegFact::HandshakeDone);
    group.round();
    group.tell();
    decode(&mut group, leg(0, 1, 0), LegFact::PagesLanded);
    group.fact(0, Fact::AbortWanted(RequestId(0)));
    group.round();
    group.fact(0, Fact::Role((leg(0, 1, 0), LegFact::Fenced)));
    group.fact(1, Fact::Role((leg(0, 1, 0), row(leg(0, 1, 0), 5))));
    group.round();
    group.fact(1, Fact::Role((leg(0, 1, 0), LegFact::Fenced)));
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn decode_retraction_under_page_pressure_and_resume() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 2, 4);
    submit(&mut group, 1, 2, 4);
    group.round();
    bring_in(&mut group, leg(0, 1, 0), 1);
    group.tell();
    bring_in(&mut group, leg(1, 1, 0), 2);
    group.retired(0, &[3]);
    group.round();
    group.retired(1, &[4, 5]);
    group.rounds(2);
    decode(&mut group, leg(1, 1, 0), LegFact::HandshakeFailed);
    decode(&mut group, leg(1, 1, 1), LegFact::HandshakeDone);
    group.retired(2, &[6]);
    group.round();
    decode(&mut group, leg(1, 1, 1), LegFact::PagesLanded);
    decode(&mut group, leg(1, 1, 1), row(leg(1, 1, 1), 7));
    group.round();
    decode(&mut group, leg(1, 1, 1), LegFact::Fenced);
    group.round();
    group.retired(3, &[8]);
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

/// One rank's device is slower than the other's.
#[test]
fn decode_retraction_to_the_hosts_and_back() {
    let configuration = GroupConfiguration { host_pages: 2, ..configuration(1, 4) };
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 2, 4);
    submit(&mut group, 1, 2, 4);
    group.round();
    bring_in(&mut group, leg(0, 1, 0), 1);
    bring_in(&mut group, leg(1, 1, 0), 2);
    group.retired(0, &[3]);
    group.round();
    group.retired(1, &[4, 5]);
    group.tell();
    group.round();
    for copy in [0, 1].map(CopyId) {
        group.fact(0, Fact::Copied(copy));
    }
    group.round();
    for copy in [0, 1].map(CopyId) {
        group.fact(1, Fact::Copied(copy));
    }
    group.round();
    group.retired(2, &[6]);
    group.round();
    for copy in [2, 3].map(CopyId) {
        group.everywhere(&Fact::Copied(copy));
    }
    group.round();
    group.retired(3, &[7]);
    group.round();
    group.retired(4, &[8]);
    group.rounds(2);
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn decode_transfer_fails_on_one_rank() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 3, 3);
    group.round();
    decode(&mut group, leg(0, 1, 0), LegFact::HandshakeDone);
    group.round();
    group.tell();
    group.fact(0, Fact::Role((leg(0, 1, 0), LegFact::PagesLanded)));
    group.fact(0, Fact::Role((leg(0, 1, 0), row(leg(0, 1, 0), 5))));
    group.fact(1, Fact::Role((leg(0, 1, 0), LegFact::TransferFailed)));
    group.round();
    decode(&mut group, leg(0, 1, 0), LegFact::Fenced);
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn decode_ranks_are_given_different_first_tokens() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 3, 3);
    group.round();
    decode(&mut group, leg(0, 1, 0), LegFact::HandshakeDone);
    group.round();
    group.tell();
    decode(&mut group, leg(0, 1, 0), LegFact::PagesLanded);
    group.fact(0, Fact::Role((leg(0, 1, 0), row(leg(0, 1, 0), 5))));
    group.fact(1, Fact::Role((leg(0, 1, 0), row(leg(0, 1, 0), 6))));
    group.round();
    decode(&mut group, leg(0, 1, 0), LegFact::Fenced);
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn decode_deadline_passes_on_one_rank() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 3, 3);
    group.round();
    group.tell();
    (0..3).for_each(|_| group.fact(1, Fact::Tick));
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn decode_ranks_see_different_tokens_from_a_forward() {
    let mut group = Group::<Decode>::new(configuration(1, 4));
    submit(&mut group, 0, 3, 3);
    group.round();
    bring_in(&mut group, leg(0, 1, 0), 5);
    group.tell();
    let forward = lockstep_spec::ids::ForwardId(0);
    group.fact(0, Fact::Retired { forward, tokens: vec![TokenId(6)] });
    group.fact(1, Fact::Retired { forward, tokens: vec![TokenId(7)] });
    group.round();
    insta::assert_snapshot!(group.tell());
}

#[test]
fn decode_shutdown_wanted_by_a_follower() {
    let mut group = Group::<Decode>::new(configuration(1, 4));
    submit(&mut group, 0, 3, 3);
    group.round();
    group.fact(1, Fact::ShutdownWanted);
    group.rounds(2);
    insta::assert_snapshot!(group.tell());
}

#[test]
fn decode_a_rank_raises_its_fault_flag() {
    let mut group = Group::<Decode>::new(configuration(1, 4));
    submit(&mut group, 0, 3, 3);
    group.fact(1, Fact::Broken);
    group.rounds(2);
    insta::assert_snapshot!(group.tell());
}

fn submit_leg(group: &mut Group<Prefill>, id: u64, leg: Leg, tokens: u32) {
    group.fact(0, Fact::Submitted(PrefillLeg { id: RequestId(id), leg, tokens, keys: Vec::new() }));
}

fn prefill(group: &mut Group<Prefill>, leg: Leg, fact: WriteFact) {
    group.everywhere(&Fact::Role((leg, fact)));
}

fn assert_done(group: &Group<Prefill>, configuration: &GroupConfiguration) {
    assert!(harness::empty(configuration, group.state()), "nothing is left behind");
}

#[test]
fn decode_what_is_whole_stays_whole() {
    let mut group = Group::<Decode>::new(configuration(1, 4));
    let mine = leg(0, 1, 0);
    submit(&mut group, 0, 3, 3);
    group.round();
    decode(&mut group, mine, LegFact::HandshakeDone);
    group.round();
    decode(&mut group, mine, LegFact::Published);
    decode(&mut group, mine, LegFact::PagesLanded);
    decode(&mut group, mine, row(mine, 5));
    let unsound = MetadataRow { echo: mine, token: TokenId(6), sound: false };
    for late in [LegFact::TransferFailed, LegFact::RowLanded(unsound), row(leg(0, 2, 0), 6)] {
        group.fact(1, Fact::Role((mine, late)));
    }
    group.round();
    let phase = group.state().slots[0].occupant.as_ref().map(|tenant| tenant.phase);
    assert_eq!(phase, Some(Phase::Ready), "a vote that is posted early may be late, but never wrong");
}

#[test]
fn decode_paused_group_launches_nothing_until_told() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    submit(&mut group, 0, 1, 2);
    group.round();
    group.fact(0, Fact::PauseWanted(true));
    group.round();
    bring_in(&mut group, leg(0, 1, 0), 3);
    decode(&mut group, leg(0, 1, 0), LegFact::Fenced);
    group.rounds(2);
    group.tell();
    group.fact(0, Fact::PauseWanted(false));
    group.round();
    group.retired(0, &[4]);
    group.rounds(2);
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn decode_resubmitted_request_goes_on_behind_its_tokens() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Decode>::new(configuration.clone());
    let request = Request {
        id: RequestId(7),
        prompt_tokens: 2,
        max_tokens: 3,
        generated: 2,
        ignore_eos: false,
        sampling: Sampling::GREEDY,
    };
    group.fact(0, Fact::Submitted(request));
    group.round();
    bring_in(&mut group, leg(0, 1, 0), 3);
    decode(&mut group, leg(0, 1, 0), LegFact::Fenced);
    group.rounds(2);
    insta::assert_snapshot!(group.tell());
    assert_empty(&group, &configuration);
}

#[test]
fn prefill_listed_leg_runs_is_written_and_released() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Prefill>::new(configuration.clone());
    let mine = leg(0, 1, 0);
    submit_leg(&mut group, 0, mine, 3);
    group.round();
    group.fact(0, Fact::Role((mine, WriteFact::Listed)));
    group.round();
    group.fact(1, Fact::Role((mine, WriteFact::Listed)));
    group.round();
    group.retired(0, &[5]);
    group.round();
    group.fact(0, Fact::Role((mine, WriteFact::Written)));
    group.round();
    group.fact(1, Fact::Role((mine, WriteFact::Written)));
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_done(&group, &configuration);
}

#[test]
fn prefill_ranks_see_different_tokens_from_a_forward() {
    let mut group = Group::<Prefill>::new(configuration(1, 4));
    let mine = leg(0, 1, 0);
    submit_leg(&mut group, 0, mine, 3);
    prefill(&mut group, mine, WriteFact::Listed);
    group.rounds(2);
    group.tell();
    let forward = lockstep_spec::ids::ForwardId(0);
    group.fact(0, Fact::Retired { forward, tokens: vec![TokenId(6)] });
    group.fact(1, Fact::Retired { forward, tokens: vec![TokenId(7)] });
    group.round();
    insta::assert_snapshot!(group.tell());
}

#[test]
fn prefill_long_leg_runs_in_chunks() {
    let configuration = GroupConfiguration { chunk_tokens: 2, ..configuration(2, 4) };
    let mut group = Group::<Prefill>::new(configuration.clone());
    let mine = leg(0, 1, 0);
    submit_leg(&mut group, 0, mine, 5);
    prefill(&mut group, mine, WriteFact::Listed);
    group.rounds(3);
    group.retired(0, &[4]);
    group.rounds(2);
    group.retired(1, &[5]);
    group.retired(2, &[6]);
    group.rounds(2);
    prefill(&mut group, mine, WriteFact::Written);
    group.rounds(2);
    insta::assert_snapshot!(group.tell());
    assert_done(&group, &configuration);
}

#[test]
fn prefill_leg_is_revoked_between_two_chunks() {
    let configuration = GroupConfiguration { chunk_tokens: 2, ..configuration(1, 4) };
    let mut group = Group::<Prefill>::new(configuration.clone());
    let mine = leg(0, 1, 0);
    submit_leg(&mut group, 0, mine, 5);
    prefill(&mut group, mine, WriteFact::Listed);
    group.rounds(2);
    group.fact(1, Fact::Role((mine, WriteFact::Revoked)));
    group.rounds(2);
    group.retired(0, &[4]);
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_done(&group, &configuration);
}

#[test]
fn prefill_leg_is_revoked_while_waiting() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Prefill>::new(configuration.clone());
    let mine = leg(0, 1, 0);
    submit_leg(&mut group, 0, mine, 3);
    group.fact(0, Fact::Role((mine, WriteFact::Listed)));
    group.round();
    group.fact(1, Fact::Role((mine, WriteFact::Revoked)));
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_done(&group, &configuration);
}

#[test]
fn prefill_leg_is_revoked_while_inflight() {
    let configuration = configuration(1, 4);
    let mut group = Group::<Prefill>::new(configuration.clone());
    let mine = leg(0, 1, 0);
    submit_leg(&mut group, 0, mine, 3);
    prefill(&mut group, mine, WriteFact::Listed);
    group.rounds(2);
    group.retired(0, &[5]);
    group.round();
    group.tell();
    group.fact(0, Fact::Role((mine, WriteFact::Written)));
    group.fact(1, Fact::Role((mine, WriteFact::Revoked)));
    group.round();
    group.fact(1, Fact::Role((mine, WriteFact::WriteFailed)));
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_done(&group, &configuration);
}

#[test]
fn prefill_leg_too_long_is_failed_at_once() {
    let configuration = configuration(1, 2);
    let mut group = Group::<Prefill>::new(configuration.clone());
    submit_leg(&mut group, 0, leg(0, 1, 0), 5);
    prefill(&mut group, leg(0, 1, 0), WriteFact::Listed);
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_done(&group, &configuration);
}

#[test]
fn prefill_order_among_listed_legs() {
    let configuration = GroupConfiguration { slots: 3, ..configuration(1, 3) };
    let mut group = Group::<Prefill>::new(configuration.clone());
    let legs = [leg(0, 1, 0), leg(1, 1, 0), leg(2, 1, 0), leg(3, 1, 0)];
    for (id, (leg, tokens)) in (0..).zip(legs.into_iter().zip([4, 4, 1, 1])) {
        submit_leg(&mut group, id, leg, tokens);
    }
    legs[..3].iter().for_each(|leg| prefill(&mut group, *leg, WriteFact::Listed));
    group.rounds(2);
    group.retired(0, &[5]);
    group.round();
    prefill(&mut group, legs[0], WriteFact::Written);
    group.round();
    group.retired(1, &[6, 7]);
    group.round();
    legs[1..3].iter().for_each(|leg| prefill(&mut group, *leg, WriteFact::Written));
    group.round();
    insta::assert_snapshot!(group.tell());
    assert_done(&group, &configuration);
}

/// Takes a leg through the group, whose KV is written everywhere.
fn compute(group: &mut Group<Prefill>, (id, forward): (u64, u64), tokens: u32, keys: &[u64]) {
    let mine = leg(0, id + 1, 0);
    let keys = keys.iter().map(|key| BlockKey([0, *key])).collect();
    group.fact(0, Fact::Submitted(PrefillLeg { id: RequestId(id), leg: mine, tokens, keys }));
    prefill(group, mine, WriteFact::Listed);
    group.rounds(2);
    group.retired(forward, &[5]);
    group.round();
    prefill(group, mine, WriteFact::Written);
    group.round();
}

#[test]
fn prefill_leg_begins_with_pages_that_were_kept() {
    let configuration = GroupConfiguration { prefix_pages: 2, ..configuration(1, 4) };
    let mut group = Group::<Prefill>::new(configuration);
    compute(&mut group, (0, 0), 5, &[1, 2]);
    group.tell();
    compute(&mut group, (1, 1), 5, &[1, 3]);
    insta::assert_snapshot!(group.tell());
}

#[test]
fn prefill_page_comes_back_from_the_hosts() {
    let configuration = GroupConfiguration { prefix_pages: 1, host_pages: 1, ..configuration(1, 2) };
    let mut group = Group::<Prefill>::new(configuration);
    compute(&mut group, (0, 0), 3, &[1]);
    group.everywhere(&Fact::Copied(CopyId(0)));
    group.round();
    compute(&mut group, (1, 1), 4, &[]);
    group.tell();
    let (mine, keys) = (leg(0, 3, 0), vec![BlockKey([0, 1])]);
    group.fact(0, Fact::Submitted(PrefillLeg { id: RequestId(2), leg: mine, tokens: 3, keys }));
    prefill(&mut group, mine, WriteFact::Listed);
    group.rounds(2);
    group.fact(0, Fact::Copied(CopyId(1)));
    group.round();
    group.fact(1, Fact::Copied(CopyId(1)));
    group.round();
    insta::assert_snapshot!(group.tell());
}
