//! The shipped start with one rule broken.

use lockstep_spec::start::Rules;

/// A mutant of the rules: its name and the method that it overrides.
macro_rules! mutant {
    ($(#[$doc:meta])* $name:ident, $method:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name;

        impl Rules for $name {
            fn $method($($argument: $type),*) -> $result $body
        }
    };
}

mutant!(
    /// Takes the pages that were proposed, whatever a rank has.
    TakesProposedPages, pages(proposed: u32, _offered: u32) -> u32 { proposed });
mutant!(
    /// Joins a communicator that a rank cannot join.
    ConnectsUnoffered, connects(proposed: bool, _offered: bool) -> bool { proposed });
mutant!(
    /// Keeps a communicator that a rank has not joined.
    KeepsUnjoined, keeps(connects: bool, _connected: bool) -> bool { connects });
mutant!(
    /// Leaves a communicator as it is that the group does not use.
    LeavesJoined, gives_up(_connects: bool, _kept: bool) -> bool { false });
mutant!(
    /// Replays forwards that a rank has not captured.
    ReplaysUncaptured, captures(proposed: bool, _captured: bool) -> bool { proposed });
