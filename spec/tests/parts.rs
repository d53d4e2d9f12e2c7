//! Which facts follow from the parts of legs that reach a prefill rank: a table of sequences.

use lockstep_spec::ids::{Attempt, Epoch, Generation, Leg, SlotIndex};
use lockstep_spec::prefill::evidence::WriteFact::{self, Listed, Revoked};
use lockstep_spec::prefill::parts::{Part, Parts};

const FIRST: Leg = leg(1, 0, 0);
/// Of the same slot as the first.
const SECOND: Leg = leg(1, 0, 1);
const ELSEWHERE: Leg = leg(1, 1, 0);
/// Of the next epoch.
const NEXT: Leg = leg(2, 1, 0);

const fn leg(epoch: u64, slot: u32, attempt: u64) -> Leg {
    let (slot, generation) = (SlotIndex(slot), Generation(1));
    Leg { epoch: Epoch(epoch), slot, generation, attempt: Attempt(attempt) }
}

#[derive(Clone, Copy)]
enum Step {
    Tokens(Leg),
    Pages(Leg),
    Detach(u64),
    Forget(Leg),
}

use Step::{Detach, Forget, Pages, Tokens};

/// Takes the steps; returns the facts that follow from the last.
fn take(parts: &mut Parts, steps: &[Step]) -> Vec<(Leg, WriteFact)> {
    let mut facts = Vec::new();
    for step in steps {
        facts.clear();
        match *step {
            Tokens(leg) => parts.take(leg, Part::Tokens, &mut facts),
            Pages(leg) => parts.take(leg, Part::Pages, &mut facts),
            Detach(since) => parts.detach(Epoch(since), &mut facts),
            Forget(leg) => parts.forget(leg),
        }
    }
    facts
}

#[test]
fn parts_tell_what_follows_from_each() {
    type Told = (&'static str, &'static [Step], &'static [(Leg, WriteFact)]);
    let table: [Told; 19] = [
        ("tokens alone list nothing", &[Tokens(FIRST)], &[]),
        ("nor do they twice", &[Tokens(FIRST), Tokens(FIRST)], &[]),
        ("pages alone list nothing", &[Pages(FIRST)], &[]),
        ("nor do they twice", &[Pages(FIRST), Pages(FIRST)], &[]),
        ("both list a leg", &[Tokens(FIRST), Pages(FIRST)], &[(FIRST, Listed)]),
        ("in either order", &[Pages(FIRST), Tokens(FIRST)], &[(FIRST, Listed)]),
        ("parts of two legs list neither", &[Tokens(FIRST), Pages(ELSEWHERE)], &[]),
        (
            "a later leg of the slot ends an earlier one",
            &[Tokens(FIRST), Tokens(SECOND)],
            &[(FIRST, Revoked)],
        ),
        ("an earlier one ends nothing", &[Tokens(SECOND), Tokens(FIRST)], &[]),
        ("the end of an epoch ends its legs", &[Tokens(FIRST), Detach(2)], &[(FIRST, Revoked)]),
        ("but no later ones", &[Tokens(NEXT), Detach(2)], &[]),
        ("what is over is listed no more", &[Detach(2), Tokens(FIRST), Pages(FIRST)], &[]),
        ("what is not over is listed", &[Detach(2), Tokens(NEXT), Pages(NEXT)], &[(NEXT, Listed)]),
        ("what is over stays so", &[Detach(2), Detach(1), Tokens(FIRST), Pages(FIRST)], &[]),
        ("a forgotten leg has no parts", &[Tokens(FIRST), Forget(FIRST), Pages(FIRST)], &[]),
        ("nor has an earlier one of its slot", &[Tokens(FIRST), Forget(SECOND), Pages(FIRST)], &[]),
        ("a later one has", &[Tokens(SECOND), Forget(FIRST), Pages(SECOND)], &[(SECOND, Listed)]),
        (
            "so has another slot's",
            &[Tokens(ELSEWHERE), Forget(FIRST), Pages(ELSEWHERE)],
            &[(ELSEWHERE, Listed)],
        ),
        ("a forgotten leg is not ended", &[Tokens(FIRST), Forget(FIRST), Detach(2)], &[]),
    ];
    for (what, steps, facts) in table {
        assert_eq!(take(&mut Parts::default(), steps), facts, "{what}");
    }
}

#[test]
fn parts_of_the_peer_are_those_whose_pages_it_listed() {
    let mut parts = Parts::default();
    take(&mut parts, &[Tokens(FIRST), Pages(ELSEWHERE)]);
    assert!(parts.of_the_peer().eq([ELSEWHERE]));
}

#[test]
fn parts_are_accepted_from_the_first_epoch_that_is_not_over() {
    let mut parts = Parts::default();
    assert!(parts.accepts(leg(0, 0, 0)), "no epoch is known to be over");
    take(&mut parts, &[Detach(1)]);
    assert_eq!([0, 1, 2].map(|epoch| parts.accepts(leg(epoch, 0, 0))), [false, true, true]);
}
