//! The shipped start with one rule broken.

use lockstep_spec::start::Rules;

rules_but!(Rules,
    /// Takes the pages that were proposed, whatever a rank has.
    TakesProposedPages, pages(proposed: u32, _offered: u32) -> u32 { proposed });
rules_but!(Rules,
    /// Joins a communicator that a rank cannot join.
    ConnectsUnoffered, connects(proposed: bool, _offered: bool) -> bool { proposed });
rules_but!(Rules,
    /// Keeps a communicator that a rank has not joined.
    KeepsUnjoined, keeps(connects: bool, _connected: bool) -> bool { connects });
rules_but!(Rules,
    /// Leaves a communicator as it is that the group does not use.
    LeavesJoined, gives_up(_connects: bool, _kept: bool) -> bool { false });
rules_but!(Rules,
    /// Replays forwards that a rank has not captured.
    ReplaysUncaptured, captures(proposed: bool, _captured: bool) -> bool { proposed });
