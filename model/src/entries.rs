//! What happens in a step of a world, as events for drawings: facts, guards, and what its group entered and completed.

use crate::explore::{Collective, Happening, StepEvent};
use crate::group::Group;
use crate::world::{Action, Environment, FactOf, World};
use lockstep_spec::program::RankProgram;

/// What happens in a step of a world. The lanes of its ranks come first.
#[must_use]
pub fn step_events<E: Environment>(
    before: &World<E>,
    action: &Action<FactOf<E>>,
    after: &World<E>,
) -> Vec<StepEvent> {
    let mut events = decisions(before, action);
    events.extend(match action {
        Action::Fact(rank, fact) => {
            vec![StepEvent::on(*rank, Happening::Fact { fact: format!("{fact:?}") })]
        }
        Action::Retire(rank) => retirement(&before.group, *rank).into_iter().collect(),
        Action::Turn(rank) => vec![StepEvent::on(*rank, Happening::Turn)],
        Action::Complete => completions(&before.group),
        Action::Take(rank) => taking(&before.group, *rank),
    });
    let completed = events.iter().any(|event| matches!(event.what, Happening::Complete { .. }));
    let entered = entries(&before.group, &after.group, completed);
    events.extend(entered.into_iter().filter(|event| match action {
        Action::Take(rank) => event.lane == Some(*rank),
        Action::Fact(..) | Action::Retire(_) | Action::Turn(_) | Action::Complete => true,
    }));
    events
}

/// The collective that every rank waits in completes, or shows that the ranks wait in different ones.
fn completions<P: RankProgram>(before: &Group<P>) -> Vec<StepEvent> {
    let tickets: Vec<_> = (0..before.ranks.len()).map(|rank| before.control.ticket(rank)).collect();
    let equal = tickets.windows(2).all(|pair| pair[0] == pair[1]);
    let event = |(rank, ticket)| {
        let collective = Collective::from(ticket);
        let what =
            if equal { Happening::Complete { collective } } else { Happening::Mismatch { collective } };
        StepEvent::on(rank, what)
    };
    tickets.into_iter().enumerate().filter_map(|(rank, ticket)| Some((rank, ticket?))).map(event).collect()
}

/// The collectives that ranks entered between two states, where `completed` says whether the ones that they waited in before were left.
///
fn entries<P: RankProgram>(before: &Group<P>, after: &Group<P>, completed: bool) -> Vec<StepEvent> {
    let enter =
        |rank: usize, ticket| StepEvent::on(rank, Happening::Enter { collective: Collective::from(ticket) });
    let of_rank = |rank: usize| {
        let waited = before.control.waits(rank) && !completed;
        let control = after.control.ticket(rank).filter(|_| !waited);
        let device = after.device.queue(rank).iter().skip(before.device.queue(rank).len());
        control.into_iter().chain(device).map(move |ticket| enter(rank, ticket)).collect::<Vec<_>>()
    };
    (0..after.ranks.len()).flat_map(of_rank).collect()
}

/// The oldest collective of a rank's device is over there.
fn retirement<P: RankProgram>(before: &Group<P>, rank: usize) -> Option<StepEvent> {
    let collective = Collective::from(before.device.queue(rank).first()?);
    Some(StepEvent::on(rank, Happening::Retire { collective }))
}

/// What one rank takes: the first to do so sees whether all wait in the same.
fn taking<P: RankProgram>(before: &Group<P>, rank: usize) -> Vec<StepEvent> {
    if !before.control.is_half_taken() {
        return completions(before).into_iter().filter(|event| event.lane == Some(rank)).collect();
    }
    let complete = |ticket| Happening::Complete { collective: Collective::from(ticket) };
    before.control.ticket(rank).map(|ticket| StepEvent::on(rank, complete(ticket))).into_iter().collect()
}

/// What the guards say by which ranks decide in a step.
fn decisions<E: Environment>(before: &World<E>, action: &Action<FactOf<E>>) -> Vec<StepEvent> {
    let concerned = |rank: usize| match action {
        Action::Fact(mover, _) | Action::Retire(mover) | Action::Turn(mover) | Action::Take(mover) => {
            *mover == rank
        }
        Action::Complete => true,
    };
    let of_rank = |(rank, program)| {
        let guards = E::guards(program, action, concerned(rank)).into_iter();
        let decide = |(guard, value): (&str, String)| Happening::Decide { guard: guard.to_string(), value };
        guards.map(move |guard| StepEvent::on(rank, decide(guard)))
    };
    before.group.ranks.iter().enumerate().flat_map(of_rank).collect()
}
