//! Situations that an exploration across epochs must reach, or it proved nothing about them.

use crate::decode::setting::Breakage;
use crate::epochs::Epochs;
use crate::epochs::front_end::{Conduct, FrontEnd};
use crate::epochs::model::{EpochsModel, Witness};
use crate::epochs::setting::EpochsSetting;
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::ids::Epoch;

/// The witnesses that make sense under a setting.
#[must_use]
pub fn witnesses<R: Rules, C: Conduct>(setting: &EpochsSetting) -> Vec<Witness<R, C>> {
    let group = setting.group(Epoch(0));
    let possible: [(bool, Witness<R, C>); 11] = [
        (true, ("a crash while the front end has not heard all", crash_with_words)),
        (true, ("words of an old epoch", old_words)),
        (true, ("a stream goes on behind the tokens of an earlier epoch", goes_on)),
        (true, ("a request accepted between epochs", accepted_between)),
        (
            group.configuration.ranks > 1,
            ("a crash between two ranks' completions", crash_between_completions),
        ),
        (group.breaks(Breakage::Transfer), ("a failed transfer is tried again", tried_again)),
        (setting.leaves, ("a client with tokens may leave between epochs", may_leave_between)),
        (setting.leaves, ("a client left, and a rank crashed before the group knew", left_untold)),
        (setting.dismissals, ("a dismissed group says something", dismissed_speaks)),
        (setting.stops, ("all ranks left", all_left)),
        (setting.crashes > 1, ("a crash before the next group has done anything", crash_while_recovering)),
    ];
    possible.into_iter().filter(|(possible, _)| *possible).map(|(_, witness)| witness).collect()
}

fn front_end<R: Rules, C: Conduct>(state: &Epochs<R, C>) -> &FrontEnd<C> {
    &state.world.environment.front_end
}

fn crash_with_words<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    let current = front_end(state).lines.contains_key(&front_end(state).epoch);
    current && state.has_group() && !state.world.group.lives(0)
}

fn old_words<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    let old = front_end(state).lines.keys().any(|epoch| *epoch < front_end(state).epoch);
    old && state.has_group() && !front_end(state).journal.open().is_empty()
}

/// It was submitted with tokens, and has more by now.
fn goes_on<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    let more = |tenant: &Tenant| (1..tenant.generated).contains(&tenant.request.generated);
    let mut slots = state.world.group.ranks.iter().flat_map(|rank| &rank.state().value().slots);
    slots.any(|slot| slot.occupant.as_ref().is_some_and(more))
}

fn accepted_between<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    let fresh = front_end(state).clients.values().any(|guest| guest.client.told == 0);
    !state.has_group() && fresh
}

fn crash_between_completions<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    let group = &state.world.group;
    let owed = (0..group.ranks.len()).any(|rank| group.lives(rank) && group.takes(rank));
    !group.is_whole() && group.control.is_half_taken() && owed
}

fn tried_again<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    front_end(state).journal.open().values().any(|account| account.retries > 0)
}

/// Nothing keeps the client of an open request from leaving.
fn may_leave_between<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    !state.has_group() && front_end(state).clients.values().any(|guest| !guest.left && guest.client.told > 0)
}

fn left_untold<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    let left = front_end(state).clients.values().any(|guest| guest.left);
    left && state.has_group() && !state.world.group.lives(0)
}

fn crash_while_recovering<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    let group = &state.world.group;
    let nothing_done = group.ranks.iter().all(|rank| rank.round().0 == 0 && rank.state().value().idle());
    let open = !front_end(state).journal.open().is_empty();
    front_end(state).epoch > Epoch(0) && state.has_group() && !group.is_whole() && nothing_done && open
}

/// What it says is late, although it lives.
fn dismissed_speaks<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    let front_end = front_end(state);
    front_end.dismisses && state.has_group() && front_end.lines.contains_key(&front_end.epoch)
}

fn all_left<R: Rules, C: Conduct>(_: &EpochsModel<R, C>, state: &Epochs<R, C>) -> bool {
    state.has_left()
}
