//! How a group's collectives meet: a rank awaits those of the control communicator until all have entered; on the device communicator
//! entries are queued in order and the rank goes on, unless it awaits one of them. A difference is a violation, not a wait: no later step
//! can repair it.

use crate::group::arrange;
use lockstep_spec::invariant::{matched, no_skip};
use lockstep_spec::program::Posted;
use lockstep_spec::ticket::{Kind, SiteName, Ticket};

/// What the ranks have entered and await: at most one collective each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Control<S> {
    entered: Vec<Option<Posted<S>>>,
    /// What came out of the last collective, while ranks have not taken it. Those that have may be in the next one already.
    outcome: Option<Outcome<S>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Outcome<S> {
    posted: Posted<S>,
    /// By rank: whether it has still to take it.
    owed: Vec<bool>,
}

impl<S: SiteName> Control<S> {
    /// Nobody has entered anything.
    #[must_use]
    pub fn new(ranks: usize) -> Self {
        Self { entered: vec![None; ranks], outcome: None }
    }

    /// Notes an entry.
    pub fn enter(&mut self, rank: usize, posted: Posted<S>) {
        self.entered[rank] = Some(posted);
    }

    /// Whether a rank waits for a completion.
    #[must_use]
    pub fn waits(&self, rank: usize) -> bool {
        self.entered[rank].is_some() || self.owed(rank).is_some()
    }

    /// Whether a rank has entered a collective that has not completed.
    #[must_use]
    pub fn has_entered(&self, rank: usize) -> bool {
        self.entered[rank].is_some()
    }

    /// What a rank waits in.
    #[must_use]
    pub fn ticket(&self, rank: usize) -> Option<&Ticket<S>> {
        self.entered[rank].as_ref().or(self.owed(rank)).map(|posted| &posted.ticket)
    }

    /// What a rank has still to take.
    fn owed(&self, rank: usize) -> Option<&Posted<S>> {
        self.outcome.as_ref().filter(|outcome| outcome.owed[rank]).map(|outcome| &outcome.posted)
    }

    /// Whether some ranks have taken an outcome that others have not.
    #[must_use]
    pub fn is_half_taken(&self) -> bool {
        self.outcome.is_some()
    }

    /// Whether every rank has entered.
    #[must_use]
    pub fn full(&self) -> bool {
        self.entered.iter().all(Option::is_some)
    }

    /// Whether no rank has entered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.outcome.is_none() && self.entered.iter().all(Option::is_none)
    }

    /// What a rank has entered, and whether it has an outcome to take.
    #[must_use]
    pub fn part(&self, rank: usize) -> (Option<&Posted<S>>, bool) {
        (self.entered[rank].as_ref(), self.owed(rank).is_some())
    }

    /// Puts the ranks' parts into another order: place `i` gets that of rank `order[i]`.
    pub fn arrange(&mut self, order: &[usize]) {
        arrange(&mut self.entered, order);
        if let Some(outcome) = &mut self.outcome {
            arrange(&mut outcome.owed, order);
        }
    }

    /// Whether a rank can take an outcome.
    #[must_use]
    pub fn takes(&self, rank: usize) -> bool {
        self.owed(rank).is_some() || self.full()
    }

    /// Lets one rank take the outcome of the collective it waits in; the first to do so completes it.
    ///
    /// # Errors
    /// The violated property, as of [`Control::complete`].
    pub fn take(&mut self, rank: usize) -> Result<Posted<S>, &'static str> {
        let mut outcome = match self.outcome.take() {
            Some(outcome) => outcome,
            None => Outcome { posted: self.complete()?, owed: vec![true; self.entered.len()] },
        };
        outcome.owed[rank] = false;
        let posted = outcome.posted.clone();
        self.outcome = Some(outcome).filter(|outcome| outcome.owed.contains(&true));
        Ok(posted)
    }

    /// Completes the collective that every rank has entered.
    ///
    /// # Errors
    /// The violated property, if the entries differ; they stay as they are, for the report.
    pub fn complete(&mut self) -> Result<Posted<S>, &'static str> {
        let tickets: Vec<Ticket<S>> = self.entered.iter().flatten().map(|posted| posted.ticket).collect();
        if !matched::holds(&tickets) {
            return Err(matched::PROPERTY.id);
        }
        let entries = self.entered.iter_mut().filter_map(Option::take);
        entries.reduce(combine).ok_or(matched::PROPERTY.id)
    }
}

/// Combines the entries in rank order.
fn combine<S>(mut left: Posted<S>, right: Posted<S>) -> Posted<S> {
    match left.ticket.kind {
        Kind::MinReduce => {
            left.payload.iter_mut().zip(right.payload).for_each(|(word, other)| *word = (*word).min(other));
        }
        Kind::Broadcast | Kind::Forward | Kind::Connect => {}
    }
    left
}

/// What the ranks have queued on the device communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device<S> {
    /// By rank: entered and not retired by that rank, oldest first.
    queues: Vec<Vec<Ticket<S>>>,
    /// By rank: how many it has retired, counted from the last [`Device::rebase`].
    retired: Vec<usize>,
}

impl<S: SiteName> Device<S> {
    /// Nothing is queued.
    #[must_use]
    pub fn new(ranks: usize) -> Self {
        Self { queues: vec![Vec::new(); ranks], retired: vec![0; ranks] }
    }

    fn entered(&self, rank: usize) -> usize {
        self.retired[rank] + self.queues[rank].len()
    }

    /// The ticket that a rank entered as its `ordinal`-th, if it is still queued there.
    fn at(&self, rank: usize, ordinal: usize) -> Option<&Ticket<S>> {
        self.queues[rank].get(ordinal.checked_sub(self.retired[rank])?)
    }

    /// Queues an entry.
    ///
    /// # Errors
    /// The violated property, if another rank entered something else in the same place of the order.
    pub fn enter(&mut self, rank: usize, ticket: Ticket<S>) -> Result<(), &'static str> {
        let ordinal = self.entered(rank);
        let others = (0..self.queues.len()).filter_map(|other| self.at(other, ordinal));
        let matches = others.into_iter().all(|other| matched::holds(&[*other, ticket]));
        self.queues[rank].push(ticket);
        if matches { Ok(()) } else { Err(matched::PROPERTY.id) }
    }

    /// Whether the oldest collective in a rank's queue has been entered by all ranks, so that it can complete there.
    #[must_use]
    pub fn completes(&self, rank: usize) -> bool {
        let oldest = self.retired[rank];
        !self.queues[rank].is_empty() && (0..self.queues.len()).all(|other| self.entered(other) > oldest)
    }

    /// Takes the oldest collective from a rank's queue.
    pub fn retire(&mut self, rank: usize) {
        self.queues[rank].remove(0);
        self.retired[rank] += 1;
    }

    /// What a rank has queued, and how many it has retired.
    #[must_use]
    pub fn part(&self, rank: usize) -> (&[Ticket<S>], usize) {
        (&self.queues[rank], self.retired[rank])
    }

    /// Puts the ranks' parts into another order: place `i` gets that of rank `order[i]`.
    pub fn arrange(&mut self, order: &[usize]) {
        arrange(&mut self.queues, order);
        arrange(&mut self.retired, order);
    }

    /// What a rank has queued, oldest first.
    #[must_use]
    pub fn queue(&self, rank: usize) -> &[Ticket<S>] {
        &self.queues[rank]
    }

    /// Whether nothing is queued anywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(Vec::is_empty)
    }

    /// Checks, when every rank has ended its round, that all entered the same collectives in it.
    ///
    /// # Errors
    /// The violated property.
    pub fn check_round(&self) -> Result<(), &'static str> {
        let entered: Vec<(u64, usize)> = (0..self.queues.len()).map(|rank| (0, self.entered(rank))).collect();
        if no_skip::holds(&entered) { Ok(()) } else { Err(no_skip::PROPERTY.id) }
    }

    /// Forgets collectives that every rank has retired, and renames the rounds of the others.
    pub fn rebase(&mut self, rename: &mut dyn FnMut(&mut Ticket<S>)) {
        let done = self.retired.iter().copied().min().unwrap_or(0);
        self.retired.iter_mut().for_each(|retired| *retired -= done);
        self.queues.iter_mut().flatten().for_each(rename);
    }
}
