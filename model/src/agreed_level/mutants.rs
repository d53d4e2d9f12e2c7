//! The shipped rules, each broken once: to show that the checker would notice.

use lockstep_spec::decode::evidence::{Grant, MetadataRow};
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::decode::rules::{Pressure, Rules, Work};
use lockstep_spec::ids::{Leg, SlotIndex};
use lockstep_spec::poll::KvPoll;

macro_rules! mutant {
    ($(#[$doc:meta])* $name:ident { $($body:item)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name;

        impl Rules for $name {
            $($body)*
        }
    };
}

mutant!(
    /// Pages are released before forwards that name them retire.
    ReleasesInFlight {
        fn releasable(_: u32, drained: bool, copying: bool) -> bool {
            drained && !copying
        }
    }
);

mutant!(
    /// Pages go back although a copy still reads or writes them.
    ReleasesUnderCopies {
        fn releasable(flying: u32, drained: bool, _: bool) -> bool {
            flying == 0 && drained
        }
    }
);

mutant!(
    /// A request runs before its copy has come back.
    RunsBeforeRestored {
        fn restored(_: bool) -> bool {
            true
        }
    }
);

mutant!(
    /// A copy that comes back does not take the page of its first launch.
    RestoresWithoutFirstLaunch {
        fn positions_to_restore(tenant: &Tenant) -> u32 {
            tenant.next_position(0)
        }
    }
);

mutant!(
    /// The same, and the only running request may be its own victim.
    RestoresWithoutFirstLaunchAndRetractsAlone {
        fn positions_to_restore(tenant: &Tenant) -> u32 {
            tenant.next_position(0)
        }

        fn retracts_alone() -> bool {
            true
        }
    }
);

mutant!(
    /// What the forwards in flight write does not go to the hosts.
    StoresWithoutFlights {
        fn positions_to_store(tenant: &Tenant, _: u32) -> u32 {
            tenant.next_position(0)
        }
    }
);

mutant!(
    /// The pages of a request that ends never come back.
    LosesPages {
        fn returns_pages() -> bool {
            false
        }
    }
);

mutant!(
    /// Nothing is ever released.
    NeverReleases {
        fn releasable(_: u32, _: bool, _: bool) -> bool {
            false
        }
    }
);

mutant!(
    /// `drained` as the fabric sees it: a queued publish does not count.
    DrainedByFabric {
        fn drained(grant: Grant) -> bool {
            matches!(grant, Grant::None | Grant::Queued | Grant::Cancelling)
        }
    }
);

mutant!(
    /// New requests are admitted although a retracted one waits.
    AdmitsAhead {
        fn may_admit(pressure: Pressure) -> bool {
            !pressure.growth_lacks
        }
    }
);

/// Resume from a copy: the second and later transfers bring no token.
fn from_copy(generated: u32) -> bool {
    generated == 0
}

/// Positions of a start from a copy, without the page of the first launch.
fn written(tenant: &Tenant) -> u32 {
    tenant.request.prompt_tokens + tenant.generated.saturating_sub(1)
}

fn fewest_tokens(candidates: &[(SlotIndex, &Tenant)]) -> Option<SlotIndex> {
    candidates.iter().rev().min_by_key(|(_, tenant)| tenant.generated).map(|(slot, _)| *slot)
}

const GROWS_LAST: [Work; 10] = [
    Work::Record,
    Work::Retire,
    Work::Copy,
    Work::Abort,
    Work::Poll,
    Work::Release,
    Work::Resume,
    Work::Admit,
    Work::Grow,
    Work::Compose,
];

mutant!(
    /// Whoever has the fewest tokens gives its pages up.
    FewestTokensVictim {
        fn victim(candidates: &[(SlotIndex, &Tenant)]) -> Option<SlotIndex> {
            fewest_tokens(candidates)
        }
    }
);

mutant!(
    /// Resume from a copy, with the shipped rules otherwise: a control.
    FromCopy {
        fn transfer_brings_token(generated: u32) -> bool {
            from_copy(generated)
        }

        fn positions_to_start(tenant: &Tenant) -> u32 {
            written(tenant) + 1
        }
    }
);

mutant!(
    /// Resume from a copy; whoever has the fewest tokens gives its pages up.
    FromCopyFewestTokensVictim {
        fn transfer_brings_token(generated: u32) -> bool {
            from_copy(generated)
        }

        fn positions_to_start(tenant: &Tenant) -> u32 {
            written(tenant) + 1
        }

        fn victim(candidates: &[(SlotIndex, &Tenant)]) -> Option<SlotIndex> {
            fewest_tokens(candidates)
        }
    }
);

mutant!(
    /// Resume from a copy; the only running request may be its own victim, and a start does not take the page of its first launch.
    FromCopyRetractsAlone {
        fn transfer_brings_token(generated: u32) -> bool {
            from_copy(generated)
        }

        fn positions_to_start(tenant: &Tenant) -> u32 {
            written(tenant)
        }

        fn retracts_alone() -> bool {
            true
        }
    }
);

mutant!(
    /// Resume from a copy; requests are resumed and admitted before running ones take their next page, and a start does not take the
    /// page of its first launch.
    FromCopyGrowsLast {
        fn transfer_brings_token(generated: u32) -> bool {
            from_copy(generated)
        }

        fn positions_to_start(tenant: &Tenant) -> u32 {
            written(tenant)
        }

        fn order() -> &'static [Work] {
            &GROWS_LAST
        }
    }
);

mutant!(
    /// A request runs although its transfer's fence is not done on every rank.
    LaunchesUnfenced {
        fn may_launch(_: bool) -> bool {
            true
        }
    }
);

mutant!(
    /// A vote element is applied to whoever is in the slot now.
    AppliesStale {
        fn applies_stale() -> bool {
            true
        }
    }
);

mutant!(
    /// An answer to an earlier attempt's handshake is taken for the current one's.
    TakesLateFacts {
        fn takes_late_facts() -> bool {
            true
        }
    }
);

mutant!(
    /// A grant that is being revoked does not count as outstanding.
    DrainedWhileRevoking {
        fn drained(grant: Grant) -> bool {
            matches!(grant, Grant::None | Grant::Revoking)
        }
    }
);

mutant!(
    /// Requests are resumed and admitted although a running one lacks its page: a control. A request lacks one page at most, and then
    /// none is free, so that this rule shows in what is said and not in what is done.
    ResumesAheadOfGrowth {
        fn may_resume(_: Pressure) -> bool {
            true
        }

        fn may_admit(pressure: Pressure) -> bool {
            !pressure.retracted_waits
        }
    }
);

mutant!(
    /// A request that fits passes an older one that lacks pages.
    PassesMisfits {
        fn first_misfit_stops() -> bool {
            false
        }
    }
);

mutant!(
    /// A victim is chosen although the pages that others give up would do.
    IgnoresPromised {
        fn counts_promised() -> bool {
            false
        }
    }
);

mutant!(
    /// A start does not take the page of its first launch.
    StartsWithoutFirstLaunch {
        fn positions_to_start(tenant: &Tenant) -> u32 {
            tenant.request.prompt_tokens + tenant.generated
        }
    }
);

mutant!(
    /// In the devices' queue, a vote goes behind the launch that it goes with, and waits for it.
    VotesBehindItsLaunch {
        fn votes_first() -> bool {
            false
        }
    }
);

mutant!(
    /// A request is launched as if none of its forwards were in flight.
    LaunchesPastItsLimit {
        fn wants_launch(tenant: &Tenant, _: u32) -> bool {
            tenant.wants_launch(0)
        }
    }
);

mutant!(
    /// A plan has the oldest request alone.
    PlansOne {
        fn plan_order(mut slots: Vec<SlotIndex>) -> Vec<SlotIndex> {
            slots.truncate(1);
            slots
        }
    }
);

mutant!(
    /// A retracted request starts its next transfer before every rank's handshake for it.
    StartsAgainUnshaken {
        fn may_start_again(_: Option<KvPoll>) -> bool {
            true
        }
    }
);

mutant!(
    /// A metadata row is taken whatever leg its writer believes in.
    TakesForeignRows {
        fn row_failure(row: &MetadataRow, _: Leg) -> Option<KvPoll> {
            (!row.sound).then_some(KvPoll::Corrupt)
        }
    }
);

mutant!(
    /// A metadata row is taken whatever its checksum says.
    TakesCorruptRows {
        fn row_failure(row: &MetadataRow, leg: Leg) -> Option<KvPoll> {
            (row.echo != leg).then_some(KvPoll::WrongLeg)
        }
    }
);

mutant!(
    /// Nothing is ever late.
    NeverLate {
        fn late(_: u32, _: u32) -> bool {
            false
        }
    }
);

mutant!(
    /// The only running request may be its own victim.
    RetractsAlone {
        fn retracts_alone() -> bool {
            true
        }
    }
);
