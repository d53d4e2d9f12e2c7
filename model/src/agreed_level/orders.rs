//! The shipped order of work with two of its kinds in each other's places: to show which places matter.

use lockstep_spec::decode::rules::{ORDER, Rules, Work};

/// The shipped order of work, but for two kinds that have changed places: those at `FIRST` and at `SECOND`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Swaps<const FIRST: usize, const SECOND: usize>;

impl<const FIRST: usize, const SECOND: usize> Rules for Swaps<FIRST, SECOND> {
    fn order() -> &'static [Work] {
        const { &swapped(FIRST, SECOND) }
    }
}

const fn swapped(first: usize, second: usize) -> [Work; 10] {
    // Kinds of work are declared in the order in which they are done.
    assert!(ORDER[first] as usize == first && ORDER[second] as usize == second);
    let mut order = ORDER;
    (order[first], order[second]) = (ORDER[second], ORDER[first]);
    order
}

macro_rules! swaps {
    ($($(#[$doc:meta])* $name:ident: $first:ident and $second:ident;)*) => {
        $(
            $(#[$doc])*
            pub type $name = Swaps<{ Work::$first as usize }, { Work::$second as usize }>;
        )*
    };
}

swaps! {
    /// Retirements are applied before the verdicts of the same round's brief are recorded.
    RetiresBeforeRecording: Record and Retire;
    /// Copies are taken in before tokens.
    CopiesBeforeRetiring: Retire and Copy;
    /// Requests are aborted before the tokens that may have ended them are accepted.
    AbortsBeforeRetiring: Retire and Abort;
    /// Requests are aborted before copies are taken in.
    AbortsBeforeCopies: Copy and Abort;
    /// Requests move on by their polls, or fail, before they are aborted.
    PollsBeforeAborting: Abort and Poll;
    /// Pages are freed before polls end requests.
    ReleasesBeforePolling: Poll and Release;
    /// Running requests take pages, and victims are chosen, before pages are freed.
    GrowsBeforeReleasing: Release and Grow;
    /// Retracted requests take pages before running ones.
    ResumesBeforeGrowing: Grow and Resume;
    /// New requests take pages before retracted ones are looked at.
    AdmitsFirst: Resume and Admit;
    /// The plan is made before new requests take pages.
    ComposesBeforeAdmitting: Admit and Compose;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreed_level::model::AgreedModel;
    use crate::decode::setting::DecodeSetting;
    use lockstep_spec::decode::rules::Shipped;
    use stateright::Model;
    use std::collections::HashSet;

    /// Steps of the shipped order after which `R` is elsewhere.
    fn steps_apart<R: Rules>(setting: &DecodeSetting) -> usize {
        let model = AgreedModel::<Shipped>::new(setting.clone());
        let mut open = model.init_states();
        let (mut seen, mut apart) = (HashSet::new(), 0);
        while let Some(state) = open.pop() {
            let mut turns = Vec::new();
            model.actions(&state, &mut turns);
            for turn in turns {
                let next = state.after::<Shipped>(setting, &turn);
                apart += usize::from(state.after::<R>(setting, &turn) != next);
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        apart
    }

    #[test]
    fn orders_that_commute_are_never_apart() {
        let mut setting = DecodeSetting { aborts: true, ..DecodeSetting::new(1, 2, 4, true) };
        setting.host(1);
        assert_eq!(steps_apart::<CopiesBeforeRetiring>(&setting), 0);
        assert_eq!(steps_apart::<AbortsBeforeCopies>(&setting), 0);
        assert_eq!(steps_apart::<ComposesBeforeAdmitting>(&setting), 0);
        assert!(steps_apart::<PollsBeforeAborting>(&setting) > 0);
    }
}
