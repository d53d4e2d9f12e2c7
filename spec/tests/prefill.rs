//! What the prefill group computes, keeps and copies: tables of legs, taken through one after the other.

#[allow(dead_code, reason = "each test binary uses its own part of the harness")]
mod harness;

use harness::alone::{Alone, ORDINARY, configuration, deeds, leg, prefill_leg};
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::machine::Fact;
use lockstep_spec::poll::Reason;
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::action::Do;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::LegOutcome;

/// Four pages of two positions; those of up to two full pages of a prompt are kept.
fn rank(host_pages: u32, chunk_tokens: u32) -> Alone<Prefill> {
    let brief_words = GroupConfiguration::least_brief_words(2) + 4;
    Alone::new(GroupConfiguration {
        prefix_pages: 2,
        host_pages,
        brief_words,
        chunk_tokens,
        ..configuration()
    })
}

#[test]
fn prefill_runs_a_leg_that_asks_for_something_that_fits() {
    for (tokens, fits) in [(0, false), (1, true), (8, true), (9, false)] {
        let mut rank = rank(0, 8);
        rank.fact(Fact::Submitted(prefill_leg(0, tokens, &[])));
        rank.fact(Fact::Role((leg(0), WriteFact::Listed)));
        let told = deeds::<Prefill>(rank.round());
        let failed = Do::Fail { leg: leg(0), outcome: LegOutcome::Failed(Reason::NeverFits) };
        assert_eq!(told.first(), (!fits).then_some(&failed), "{tokens} tokens");
        rank.round();
        assert_eq!(rank.state().flights.queue.is_empty(), !fits, "{tokens} tokens");
    }
}

#[test]
fn prefill_computes_a_leg_behind_what_is_kept_of_it() {
    let table: [(&str, u32, &[u64], u32); 6] = [
        ("all full pages are kept", 5, &[1, 2], 4),
        ("the first is", 5, &[1, 3], 2),
        ("the second is, which is of no use alone", 5, &[3, 2], 0),
        ("none is", 5, &[3, 4], 0),
        ("both are, and a token must be computed for the one after it", 4, &[1, 2], 2),
        ("so it must be of a single page", 2, &[1], 0),
    ];
    for (what, tokens, keys, position) in table {
        let mut rank = rank(0, 8);
        rank.compute(prefill_leg(0, 5, &[1, 2]));
        rank.start(prefill_leg(1, tokens, keys));
        let row = &rank.state().flights.queue[0].rows[0];
        assert_eq!((row.position, row.tokens), (position, tokens - position), "{what}");
    }
}

#[test]
fn prefill_copies_to_the_hosts_what_they_lack_and_have_room_for() {
    type Copied = (&'static str, u32, &'static [(u32, &'static [u64])], &'static [u64], usize);
    let table: [Copied; 5] = [
        ("there is room", 3, &[(3, &[1]), (5, &[2, 3])], &[1, 2, 3], 3),
        ("there is room for one, and one of another prompt", 2, &[(3, &[1]), (5, &[2, 3])], &[2, 3], 3),
        ("there is one of another prompt", 1, &[(3, &[1]), (3, &[2])], &[2], 2),
        ("there is one of this prompt, which is needed first", 1, &[(3, &[1]), (5, &[1, 2])], &[1], 1),
        ("it is there, and was given up on the devices", 2, &[(3, &[1]), (8, &[]), (2, &[1])], &[1], 1),
    ];
    for (what, host_pages, legs, on_hosts, stores) in table {
        let (mut rank, mut told) = (rank(host_pages, 8), Vec::new());
        for (id, (tokens, keys)) in (0..).zip(legs) {
            told.extend(deeds::<Prefill>(rank.compute(prefill_leg(id, *tokens, keys))));
            rank.copy();
            rank.round();
        }
        let blocks = rank.state().cache.blocks().iter();
        let copied: Vec<u64> =
            blocks.filter(|block| block.host.is_some()).map(|block| block.key.0[1]).collect();
        assert_eq!(copied, on_hosts, "{what}");
        assert_eq!(told.iter().filter(|deed| matches!(deed, Do::Copy(_))).count(), stores, "{what}");
        let free = usize::try_from(host_pages).unwrap_or_default() - on_hosts.len();
        assert_eq!(rank.state().host.free().len(), free, "{what}");
    }
}

#[test]
fn prefill_has_kept_pages_to_spare_unless_a_leg_holds_them() {
    let mut rank = rank(0, 8);
    rank.compute(prefill_leg(0, 3, &[1]));
    assert_eq!(rank.state().spare_pages(), 4);
    rank.start(prefill_leg(1, 3, &[1]));
    assert_eq!(rank.state().spare_pages(), 2, "it holds the kept page and one more");
}

/// The older leg waits for a page that comes back from the hosts, so a chunk of the younger one is computed first.
#[test]
fn prefill_goes_on_with_the_oldest_leg() {
    let mut rank = rank(1, 2);
    rank.compute(prefill_leg(0, 3, &[1]));
    rank.copy();
    rank.compute(prefill_leg(1, 8, &[]));
    rank.start(prefill_leg(2, 4, &[1]));
    rank.start(prefill_leg(3, 4, &[]));
    let planned = |rank: &Alone<Prefill>| {
        let rows = rank.state().flights.queue[0].rows.iter();
        let rows =
            rows.map(|row| Some((rank.state().occupant(row.slot)?.arrival.id.0, row.position, row.tokens)));
        rows.collect::<Option<Vec<_>>>()
    };
    assert_eq!(planned(&rank), Some(vec![(3, 0, 2)]));
    rank.copy();
    rank.retire(ORDINARY);
    rank.round();
    assert_eq!(planned(&rank), Some(vec![(2, 2, 2)]));
}
