//! The shipped rules of the prefill group, each broken once: to show that the checker would notice.

use lockstep_spec::prefill::evidence::Writes;
use lockstep_spec::prefill::rules::Rules;

/// Pages are released although a write that reads them is outstanding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DrainedIgnoresWrites;

impl Rules for DrainedIgnoresWrites {
    fn drained(_: Writes) -> bool {
        true
    }
}

/// A leg starts before its page list is on every rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartsUnlisted;

impl Rules for StartsUnlisted {
    fn waits_for_lists() -> bool {
        false
    }
}

/// A leg that fits passes an older one that lacks pages. Unfair, but safe and never trapped: the older one may be overtaken for ever,
/// and can still run whenever arrivals pause.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PassesMisfits;

impl Rules for PassesMisfits {
    fn first_misfit_stops() -> bool {
        false
    }
}

/// Pages are released before forwards that name them retire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleasesInFlight;

impl Rules for ReleasesInFlight {
    fn releasable(_: u32, drained: bool) -> bool {
        drained
    }
}

/// A leg is written once its first chunk is computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WritesHalf;

impl Rules for WritesHalf {
    fn may_write(_: u32, _: u32) -> bool {
        true
    }
}

/// On its way out the group retires forwards, and starts their writes, before it gives legs up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClosesLast;

impl Rules for ClosesLast {
    fn closes_before_retiring() -> bool {
        false
    }
}

/// All of a prompt may come from the cache, and nothing is left to compute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatchesWhole;

impl Rules for MatchesWhole {
    fn matchable(tokens: u32, page_size: u32) -> u32 {
        tokens / page_size
    }
}

/// Pages are kept once the first chunk of their leg is computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeepsHalf;

impl Rules for KeepsHalf {
    fn keeps(_: u32, _: u32) -> bool {
        true
    }
}

/// A kept page is given up although a leg holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EvictsHeld;

impl Rules for EvictsHeld {
    fn evictable(_: bool, copying: bool) -> bool {
        !copying
    }
}

/// A kept page is given up although it is being copied to the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EvictsCopied;

impl Rules for EvictsCopied {
    fn evictable(held: bool, _: bool) -> bool {
        !held
    }
}

/// A leg runs before its pages have come back from the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunsWhileLoading;

impl Rules for RunsWhileLoading {
    fn waits_for_loads() -> bool {
        false
    }
}

/// A leg takes along the kept pages that it held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FreesKept;

impl Rules for FreesKept {
    fn leaves_kept(_: bool) -> bool {
        false
    }
}

/// Nothing is ever late.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NeverLate;

impl Rules for NeverLate {
    fn late(_: u32, _: u32) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{End, Settings, explore_live, stall};
    use crate::model::WorldModel;
    use crate::prefill::Surroundings;
    use crate::prefill::setting::PrefillSetting;
    use crate::prefill::witnesses::witnesses;
    use lockstep_spec::invariant::{kv_before_run, no_write_after_free};
    use lockstep_spec::prefill::rules::Shipped;

    fn setting(slots: u32) -> PrefillSetting {
        PrefillSetting { write_failures: true, ..PrefillSetting::new(2, slots, false) }
    }

    /// The property that falls, if any; without one, rest stays in reach and every witness is seen.
    fn verdict<R: Rules>(setting: PrefillSetting) -> Option<&'static str> {
        let witnesses = witnesses(&setting);
        let model = WorldModel::<Surroundings<R>>::new(setting).witnessing(witnesses);
        let found = explore_live(&model, &Settings::default()).unwrap();
        if let End::Violated { property, .. } = found.end {
            return Some(property);
        }
        assert_eq!(
            (found.end.clone(), found.missing.is_empty()),
            (End::Exhausted, true),
            "{:?}",
            found.missing
        );
        assert_eq!(stall(&model, &found), None);
        None
    }

    #[test]
    fn shipped_rules_hold() {
        let failing = PrefillSetting { revocations: true, hasty: true, late_facts: true, ..setting(1) };
        assert_eq!(verdict::<Shipped>(failing), None);
        assert_eq!(verdict::<Shipped>(PrefillSetting { fallible_slots: 1, ..setting(2) }), None);
    }

    #[test]
    fn mutants_are_refuted() {
        assert_eq!(verdict::<DrainedIgnoresWrites>(setting(1)), Some(no_write_after_free::PROPERTY.id));
        assert_eq!(verdict::<StartsUnlisted>(setting(1)), Some(kv_before_run::PROPERTY.id));
    }

    #[test]
    fn passing_misfits_is_unfair_but_safe() {
        assert_eq!(verdict::<PassesMisfits>(PrefillSetting::new(2, 2, false)), None);
    }
}
