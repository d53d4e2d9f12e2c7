//! Every reason, in the order of its declaration. A reason that is added there does not compile here until it is listed.

use lockstep_spec::poll::Reason;
use lockstep_spec::why::Why;

macro_rules! every {
    ($list:ident: $kind:ident { $($variant:ident),* $(,)? }) => {
        /// Every one, in the order of its declaration.
        pub(super) const $list: &[$kind] = &[$($kind::$variant),*];

        const _: fn($kind) = |listed| match listed {
            $($kind::$variant)|* => {}
        };
    };
}

every!(WHYS: Why {
    Aborted,
    Admitted,
    AdmissionLacksPages,
    AdmissionYieldsToGrowth,
    AdmissionYieldsToResume,
    BlockEvicted,
    BlockForgotten,
    BlockKept,
    BlockStored,
    BlockLoaded,
    ChunkComputed,
    Failed,
    FinishedByStop,
    FinishedByLength,
    FirstToken,
    Grew,
    GrowthWaitsForPromised,
    GrowthWaitsAlone,
    HandshakeAgreed,
    IdleAhead,
    IdleEmpty,
    IdlePaused,
    LegWritten,
    ResumeLacksPages,
    PauseChanged,
    PlanFull,
    PlanOmitsLacking,
    PlanOmitsLoading,
    PlanOmitsUnfenced,
    PrefixMatched,
    Recorded,
    Released,
    Resumed,
    Restored,
    Retracted,
    RetractionReleased,
    Ran,
    Stored,
    Shutdown,
    SurplusDropped,
    Token,
});

every!(FAILURES: Reason {
    TransferFailed,
    Corrupt,
    WrongLeg,
    HandshakeFailed,
    Revoked,
    DeadlinePassed,
    FirstTokenDiffers,
    NeverFits,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_in_the_order_of_their_declaration() {
        assert!(WHYS.iter().enumerate().all(|(index, why)| *why as usize == index));
        assert!(FAILURES.iter().enumerate().all(|(index, failure)| *failure as usize == index));
    }
}
