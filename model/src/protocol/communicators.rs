//! What the ranks have entered, on however many communicators, and what has come out and is not taken yet.
//!
//! A collective completes with its last entry. Each member then takes the outcome in its own time, and may by then find others in the
//! next collective. A difference between entries is a violation, not a wait.

use std::collections::BTreeMap;

use lockstep_spec::agreed::Words;
use lockstep_spec::counters::Counter;
use lockstep_spec::ids::Epoch;
use lockstep_spec::program::Posted;
use lockstep_spec::ticket::{Communicator, Ticket};

use super::astray::Astray;
use super::collective::{Meeting, Members};

/// Identity of a communicator: ranks that differ in any of it do not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Identity {
    epoch: Epoch,
    waits: Communicator,
    stream: &'static str,
    members: Members,
}

impl Identity {
    fn of<S: Meeting>(ticket: &Ticket<S>, ranks: usize) -> Self {
        let collective = ticket.site.collective();
        Self {
            epoch: ticket.epoch,
            waits: ticket.site.communicator(),
            stream: collective.stream,
            members: collective.members.in_group_of(ranks),
        }
    }
}

/// One rank's part of a communicator, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seat<S> {
    /// Entered, and not completed.
    entered: Vec<Posted<S>>,
    /// Completed, and not taken.
    outcomes: Vec<Posted<S>>,
}

impl<S> Seat<S> {
    /// What was entered and not taken, oldest first.
    fn held(&self) -> impl Iterator<Item = &Ticket<S>> {
        self.outcomes.iter().chain(&self.entered).map(|posted| &posted.ticket)
    }

    fn is_empty(&self) -> bool {
        self.entered.is_empty() && self.outcomes.is_empty()
    }
}

/// Ranks that do not meet where one of them entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Misfit {
    /// Entries at one place of the order differ, or a rank entered among others than itself.
    Mismatch,
    /// A rank is past a collective in which another waits for it.
    Skip,
}

/// What a step changed, as ranks with what they entered.
pub(super) struct Change<S> {
    /// What the rank that moved has entered.
    pub(super) entered: Vec<(usize, Ticket<S>)>,
    /// What completed, on each member.
    pub(super) completed: Vec<(usize, Ticket<S>)>,
    /// What does not meet, if the step was a misfit.
    pub(super) unmet: Vec<(usize, Ticket<S>)>,
}

/// All communicators that are in use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Communicators<S> {
    /// By rank: whether it is gone for good.
    gone: Vec<bool>,
    streams: BTreeMap<Identity, Vec<Seat<S>>>,
}

impl<S: Meeting> Communicators<S> {
    /// Nobody has entered anything.
    pub(super) fn new(ranks: usize) -> Self {
        Self { gone: vec![false; ranks], streams: BTreeMap::new() }
    }

    /// Notes an entry, and completes the collective if it is the last one; the entry is noted even if it is a misfit, for the report.
    pub(super) fn enter(
        &mut self,
        rank: usize,
        posted: Posted<S>,
        astray: Option<&Astray<S>>,
    ) -> Result<(), Misfit> {
        let ticket = posted.ticket;
        let identity = Identity::of(&ticket, self.gone.len());
        let passed = |other: &Ticket<S>| other.epoch == ticket.epoch && other.round < ticket.round;
        let skips = self.skips(rank, passed) || self.is_skipped(rank, &ticket, identity);
        let nobody = || vec![Seat { entered: Vec::new(), outcomes: Vec::new() }; self.gone.len()];
        let seats = self.streams.entry(identity).or_insert_with(nobody);
        let place = seats[rank].entered.len();
        let mut others = seats.iter().filter_map(|seat| seat.entered.get(place));
        let fits = identity.members.has(rank) && others.all(|other| other.ticket == ticket);
        seats[rank].entered.push(posted);
        match (skips, fits) {
            (true, _) => Err(Misfit::Skip),
            (false, false) => Err(Misfit::Mismatch),
            (false, true) => {
                complete(identity.members, seats, astray);
                Ok(())
            }
        }
    }

    /// Notes that a rank is gone for good, in order.
    pub(super) fn leave(&mut self, rank: usize) -> Result<(), Misfit> {
        self.gone[rank] = true;
        if self.skips(rank, |_| true) { Err(Misfit::Skip) } else { Ok(()) }
    }

    /// Whether a rank has left in order.
    pub(super) fn has_left(&self, rank: usize) -> bool {
        self.gone[rank]
    }

    /// Whether a member waits, in a collective that `passed` applies to, for an entry that the rank has not made.
    fn skips(&self, rank: usize, passed: impl Fn(&Ticket<S>) -> bool) -> bool {
        let waited_for = |seats: &Vec<Seat<S>>| {
            let place = seats[rank].entered.len();
            seats.iter().filter_map(|seat| seat.entered.get(place)).any(|other| passed(&other.ticket))
        };
        self.streams.iter().any(|(identity, seats)| identity.members.has(rank) && waited_for(seats))
    }

    /// Whether a member that has not made the entry that a rank now makes is past it: in a later round, or gone.
    fn is_skipped(&self, rank: usize, ticket: &Ticket<S>, identity: Identity) -> bool {
        let place = |rank: usize| self.streams.get(&identity).map_or(0, |seats| seats[rank].entered.len());
        let lacks =
            |other: &usize| *other != rank && identity.members.has(*other) && place(*other) <= place(rank);
        let later = |other: &Ticket<S>| other.epoch == ticket.epoch && other.round > ticket.round;
        let mut lacking = (0..self.gone.len()).filter(lacks);
        lacking.any(|other| self.gone[other] || self.entered(other).any(later))
    }

    /// Withdraws a rank from everything that it has entered and not taken.
    pub(super) fn abandon(&mut self, rank: usize) {
        for seats in self.streams.values_mut() {
            seats[rank].entered.clear();
            seats[rank].outcomes.clear();
        }
        self.forget_unused();
    }

    /// The outcomes that a rank may take: the oldest of each communicator.
    pub(super) fn outcomes(&self, rank: usize) -> impl Iterator<Item = Ticket<S>> {
        self.streams
            .values()
            .filter_map(move |seats| seats[rank].outcomes.first())
            .map(|posted| posted.ticket)
    }

    /// Takes the oldest outcome of the communicator of `ticket`.
    pub(super) fn take(&mut self, rank: usize, ticket: &Ticket<S>) -> Option<Words> {
        let outcomes = &mut self.streams.get_mut(&Identity::of(ticket, self.gone.len()))?[rank].outcomes;
        let taken = (!outcomes.is_empty()).then(|| outcomes.remove(0).payload);
        self.forget_unused();
        taken
    }

    /// Whether a rank has entered, and not taken, something that it waits for.
    pub(super) fn waits(&self, rank: usize) -> bool {
        let mut used = self.streams.iter().filter(|(_, seats)| !seats[rank].is_empty());
        used.any(|(identity, _)| identity.waits == Communicator::Control)
    }

    /// Whether something that a rank waits for has completed.
    pub(super) fn has_completed(&self, rank: usize) -> bool {
        let mut completed = self.streams.iter().filter(|(_, seats)| !seats[rank].outcomes.is_empty());
        completed.any(|(identity, _)| identity.waits == Communicator::Control)
    }

    /// Whether a rank has entered nothing that it has not taken.
    pub(super) fn is_free(&self, rank: usize) -> bool {
        self.streams.values().all(|seats| seats[rank].is_empty())
    }

    /// What a rank is in, for a person.
    pub(super) fn words(&self, rank: usize) -> String {
        let seats = || self.streams.values().map(|seats| &seats[rank]);
        let entered = seats().flat_map(|seat| &seat.entered).map(|posted| words(&posted.ticket));
        let outcomes = seats().flat_map(|seat| &seat.outcomes);
        let completed = outcomes.map(|posted| format!("{}, completed", words(&posted.ticket)));
        let all: Vec<String> = completed.chain(entered).collect();
        if all.is_empty() { "-".to_owned() } else { all.join("; ") }
    }

    /// What a rank has entered and what has not completed.
    pub(super) fn entered(&self, rank: usize) -> impl Iterator<Item = &Ticket<S>> {
        self.streams.values().flat_map(move |seats| &seats[rank].entered).map(|posted| &posted.ticket)
    }

    /// What changed since `before` in a step of `rank`, which took the outcome of `taken` if that is something.
    pub(super) fn change_since(
        &self,
        before: &Self,
        (rank, taken): (usize, Option<&Ticket<S>>),
        is_misfit: bool,
    ) -> Change<S> {
        let taken = taken.map(|ticket| Identity::of(ticket, self.gone.len()));
        let mut change = Change { entered: Vec::new(), completed: Vec::new(), unmet: Vec::new() };
        for (identity, seats) in &self.streams {
            let old = before.streams.get(identity);
            let held = |other: usize| {
                let (entered, outcomes) =
                    old.map_or((0, 0), |seats| (seats[other].entered.len(), seats[other].outcomes.len()));
                (entered, outcomes - usize::from(other == rank && taken == Some(*identity) && outcomes > 0))
            };
            let (entered, outcomes) = held(rank);
            let made = seats[rank].held().skip(entered + outcomes).map(|ticket| (rank, *ticket));
            change.entered.extend(made);
            for (other, seat) in seats.iter().enumerate() {
                let new = seat.outcomes.iter().skip(held(other).1);
                change.completed.extend(new.map(|posted| (other, posted.ticket)));
            }
            if is_misfit {
                let place = entered.max(seats[rank].entered.len().saturating_sub(1));
                let at = |(other, seat): (usize, &Seat<S>)| Some((other, seat.entered.get(place)?.ticket));
                change.unmet.extend(seats.iter().enumerate().filter_map(at));
            }
        }
        change
    }

    /// Whether nothing is entered and nothing is left to be taken.
    pub(super) fn is_quiet(&self) -> bool {
        self.streams.is_empty()
    }

    /// Shows the counters in payloads to `visit`, and the rounds of tickets if they are counters.
    pub(super) fn visit(&mut self, numbered: bool, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let seats = self.streams.values_mut().flatten();
        for posted in seats.flat_map(|seat| seat.entered.iter_mut().chain(&mut seat.outcomes)) {
            if numbered {
                visit(Counter::Round, &mut posted.ticket.round.0);
            }
            posted.ticket.site.visit(&mut posted.payload, visit);
        }
    }

    /// Equal situations are equal values: a communicator that nobody uses is as if it had never been.
    fn forget_unused(&mut self) {
        self.streams.retain(|_, seats| !seats.iter().all(Seat::is_empty));
    }
}

/// Turns the oldest entries into outcomes, if every member has made one.
fn complete<S: Meeting>(members: Members, seats: &mut [Seat<S>], astray: Option<&Astray<S>>) {
    let meeting: Vec<usize> = (0..seats.len()).filter(|rank| members.has(*rank)).collect();
    if meeting.iter().any(|rank| seats[*rank].entered.is_empty()) {
        return;
    }
    let entries: Vec<(usize, Posted<S>)> =
        meeting.into_iter().map(|rank| (rank, seats[rank].entered.remove(0))).collect();
    let payloads: Vec<(usize, Words)> =
        entries.iter().map(|(rank, posted)| (*rank, posted.payload.clone())).collect();
    for (rank, Posted { ticket, payload: own }) in entries {
        let trusts_itself = astray.is_some_and(|astray| astray.trusts_itself(rank, ticket.site));
        let payload = if trusts_itself { own } else { ticket.site.collective().operation.outcome(&payloads) };
        seats[rank].outcomes.push(Posted { ticket, payload });
    }
}

/// A ticket for a person: epoch and round only where a protocol numbers them.
fn words<S: Meeting>(ticket: &Ticket<S>) -> String {
    let numbers = [(ticket.epoch.0, ticket.epoch.to_string()), (ticket.round.0, ticket.round.to_string())];
    let numbers = numbers.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| format!(" {text}"));
    format!("{:?}[{}]{}", ticket.site, ticket.shape, numbers.collect::<String>())
}
