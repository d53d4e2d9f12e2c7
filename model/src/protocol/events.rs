//! What happens in a step, in the terms of drawings: for nothing, from what any protocol shows.
//!
//! What ranks enter and what completes is read off the communicators before and after a step. Guards have no names here: a report takes
//! them from the cells that facts have changed.

use lockstep_spec::ticket::Ticket;

use super::checked::Checked;
use super::collective::Meeting;
use super::design::{Protocol, StateOf};
use super::state::{Step, StepOf};
use crate::explore::{Collective as Drawn, Explorable, Happening, StepEvent};

/// What happens in the step from `before` to `after`.
pub(super) fn events<P: Protocol>(
    checked: &Checked<P>,
    before: &StateOf<P>,
    action: &StepOf<P>,
    after: &StateOf<P>,
) -> Vec<StepEvent> {
    let (rank, mut events) = match action {
        Step::Fact(rank, fact) => {
            (*rank, vec![StepEvent::on(*rank, Happening::Fact { fact: format!("{fact:?}") })])
        }
        Step::Turn(rank) => (*rank, vec![StepEvent::on(*rank, Happening::Turn)]),
        Step::Take(rank, _) => {
            let text = checked.name_of_action(action);
            (*rank, vec![StepEvent::on(*rank, Happening::Step { text })])
        }
    };
    let taken = match action {
        Step::Take(_, ticket) => Some(ticket),
        Step::Fact(..) | Step::Turn(_) => None,
    };
    let change = after.change_since(before, rank, taken);
    let on =
        |(lane, ticket): &(usize, _), what: fn(Drawn) -> Happening| StepEvent::on(*lane, what(drawn(ticket)));
    let entered = change.entered.iter().map(|entry| on(entry, |collective| Happening::Enter { collective }));
    let completed =
        change.completed.iter().map(|entry| on(entry, |collective| Happening::Complete { collective }));
    let unmet = change.unmet.iter().map(|entry| on(entry, |collective| Happening::Mismatch { collective }));
    events.extend(entered.chain(completed).chain(unmet));
    events
}

/// A ticket as drawings know it: by the name of its stream, where it has one, and with the numbers that the protocol gives it.
fn drawn<S: Meeting>(ticket: &Ticket<S>) -> Drawn {
    let known = Drawn::from(ticket);
    let numbered = |number: Option<u64>| number.filter(|number| *number > 0);
    let communicator = match ticket.site.collective().stream {
        "" => known.communicator,
        stream => stream.to_owned(),
    };
    Drawn { communicator, epoch: numbered(known.epoch), round: numbered(known.round), ..known }
}
