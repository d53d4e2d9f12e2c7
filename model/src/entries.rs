//! What a group entered and what completed between two of its states, as events for drawings.

use crate::explore::{Collective, Happening, StepEvent};
use crate::group::Group;
use lockstep_spec::program::RankProgram;

/// The collective that every rank waits in completes, or shows that the ranks wait in different ones. `first` is the lane of rank 0.
#[must_use]
pub fn completions<P: RankProgram>(before: &Group<P>, first: usize) -> Vec<StepEvent> {
    let tickets: Vec<_> = (0..before.ranks.len()).map(|rank| before.control.ticket(rank)).collect();
    let equal = tickets.windows(2).all(|pair| pair[0] == pair[1]);
    let event = |(rank, ticket)| {
        let collective = Collective::from(ticket);
        let what =
            if equal { Happening::Complete { collective } } else { Happening::Mismatch { collective } };
        StepEvent::on(first + rank, what)
    };
    tickets.into_iter().enumerate().filter_map(|(rank, ticket)| Some((rank, ticket?))).map(event).collect()
}

/// The collectives that ranks entered between two states, where `completed` says whether the ones that they waited in before were left.
/// `first` is the lane of rank 0.
#[must_use]
pub fn entries<P: RankProgram>(
    before: &Group<P>,
    after: &Group<P>,
    completed: bool,
    first: usize,
) -> Vec<StepEvent> {
    let enter = |rank: usize, ticket| {
        StepEvent::on(first + rank, Happening::Enter { collective: Collective::from(ticket) })
    };
    let of_rank = |rank: usize| {
        let waited = before.control.waits(rank) && !completed;
        let control = after.control.ticket(rank).filter(|_| !waited);
        let device = after.device.queue(rank).iter().skip(before.device.queue(rank).len());
        control.into_iter().chain(device).map(move |ticket| enter(rank, ticket)).collect::<Vec<_>>()
    };
    (0..after.ranks.len()).flat_map(of_rank).collect()
}

/// The oldest collective of a rank's device is over there. `first` is the lane of rank 0.
#[must_use]
pub fn retirement<P: RankProgram>(before: &Group<P>, rank: usize, first: usize) -> Option<StepEvent> {
    let collective = Collective::from(before.device.queue(rank).first()?);
    Some(StepEvent::on(first + rank, Happening::Retire { collective }))
}
