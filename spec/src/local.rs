//! Local evidence that both roles have: forwards that this rank's device finished, and what the front end told the leader.

use crate::brief::{Arrival, Brief, Verdicts};
use crate::configuration::GroupConfiguration;
use crate::counters::{Counter, Counters};
use crate::digest::Digest;
use crate::fault::Fault;
use crate::host::Copy;
use crate::ids::{CopyId, ForwardId, RequestId, TokenId};
use crate::role::Role;
use crate::table::{Flight, State};
use alloc::vec::Vec;

/// Forwards that this rank has retired beyond the agreed count, oldest first, and how many copies are complete beyond theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device {
    retired: Vec<(ForwardId, Vec<TokenId>)>,
    copied: usize,
}

impl Device {
    /// Number of forwards retired beyond the agreed count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.retired.len()
    }

    /// Whether nothing is retired beyond the agreed count.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.retired.is_empty()
    }

    /// Takes a completion of the device: forwards retire in the order of their launch. One that was reported before changes nothing.
    pub(crate) fn retire(
        &mut self,
        queue: &[Flight],
        forward: ForwardId,
        tokens: Vec<TokenId>,
    ) -> Result<(), Fault> {
        let known = |flight: &Flight| flight.id <= forward;
        if self.retired.iter().any(|(retired, seen)| *retired == forward && *seen == tokens)
            || !queue.first().is_none_or(known)
        {
            return Ok(());
        }
        let expected = queue.get(self.retired.len());
        if expected.is_none_or(|flight| flight.id != forward || flight.rows.len() != tokens.len()) {
            return Err(Fault::UnexpectedRetirement(forward));
        }
        self.retired.push((forward, tokens));
        Ok(())
    }

    /// Takes a completed copy: they complete in the order of their issue. One that was reported before changes nothing.
    pub(crate) fn finish_copy(&mut self, outstanding: &[Copy], copy: CopyId) -> Result<(), Fault> {
        match outstanding.get(self.copied) {
            Some(next) if next.id == copy => self.copied += 1,
            Some(next) if copy < next.id => {}
            None if outstanding.last().is_some_and(|last| copy <= last.id) => {}
            Some(_) | None => return Err(Fault::UnexpectedCopy(copy)),
        }
        Ok(())
    }

    /// Copies that are complete beyond the agreed count.
    #[must_use]
    pub fn copied(&self) -> usize {
        self.copied
    }

    /// Takes out the first `count` copies, which are complete on every rank.
    pub(crate) fn agree_copied(&mut self, outstanding: &[Copy], count: usize) -> Result<(), Fault> {
        if let Some(missing) = outstanding.get(self.copied).filter(|_| self.copied < count) {
            return Err(Fault::CopiedAhead(missing.id));
        }
        self.copied = self.copied.saturating_sub(count);
        Ok(())
    }

    pub(crate) fn digests(&self) -> impl Iterator<Item = u64> + '_ {
        self.retired.iter().map(|(_, tokens)| Digest::of(tokens))
    }

    /// Verdicts for the forwards retired here that no brief has judged yet.
    pub(crate) fn verdicts<R: Role>(
        &self,
        configuration: &GroupConfiguration,
        state: &State<R::Occupant>,
    ) -> Vec<Verdicts> {
        let judged = state.flights.pending.len();
        let unjudged = self.retired.iter().zip(&state.flights.queue).skip(judged);
        unjudged
            .map(|((_, tokens), flight)| {
                let rows = flight.rows.iter().zip(tokens);
                rows.map(|(row, token)| R::ends(configuration, state.occupant(row.slot), *token)).collect()
            })
            .collect()
    }

    /// Takes out the tokens of the first `count` forwards, which every rank has retired.
    pub(crate) fn agree(&mut self, queue: &[Flight], count: usize) -> Result<Vec<Vec<TokenId>>, Fault> {
        if let Some(missing) = queue.get(self.retired.len()).filter(|_| self.retired.len() < count) {
            return Err(Fault::RetiredAhead(missing.id));
        }
        Ok(self.retired.drain(..count.min(self.retired.len())).map(|(_, tokens)| tokens).collect())
    }
}

impl Counters for Device {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.retired.iter_mut().for_each(|(forward, _)| visit(Counter::Forward, &mut forward.0));
    }
}

/// What the front end told the leader and the leader has not briefed yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Intake<A> {
    /// New requests, in acceptance order.
    pub arrivals: Vec<A>,
    /// Requests to abort.
    pub aborts: Vec<RequestId>,
    /// Whether the group is to launch nothing, or to go on; the last word counts.
    pub pause: Option<bool>,
}

impl<A> Default for Intake<A> {
    fn default() -> Self {
        Self { arrivals: Vec::new(), aborts: Vec::new(), pause: None }
    }
}

impl<A: Arrival> Intake<A> {
    /// Takes a new request, unless it is here already; the intake stays in acceptance order.
    pub(crate) fn submit<R: Role<Arrival = A>>(&mut self, arrival: A) {
        if !self.arrivals.iter().any(|waiting| R::same(waiting, &arrival)) {
            self.arrivals.retain(|waiting| !R::replaces(&arrival, waiting));
            self.arrivals.push(arrival);
            self.arrivals.sort_by_key(R::request);
        }
    }

    /// Notes an abort. Returns the request if it was never briefed: then it ends here.
    pub(crate) fn abort<R: Role<Arrival = A>>(&mut self, request: RequestId) -> Option<A> {
        let waiting = self.arrivals.iter().position(|arrival| R::request(arrival) == request);
        if waiting.is_none() && !self.aborts.contains(&request) {
            self.aborts.push(request);
        }
        waiting.map(|index| self.arrivals.remove(index))
    }

    /// Arrivals that may be briefed now, in acceptance order.
    pub(crate) fn ready<'a, R: Role<Arrival = A>>(
        &'a self,
        evidence: &'a R::Evidence,
    ) -> impl Iterator<Item = &'a A> {
        self.arrivals.iter().filter(|arrival| R::ready(arrival, evidence))
    }

    /// Moves into a brief what fits: verdicts and the word on pausing always, then requests for the free slots, then aborts.
    pub(crate) fn take<R: Role<Arrival = A>>(
        &mut self,
        verdicts: Vec<Verdicts>,
        free_slots: usize,
        room: usize,
        evidence: &R::Evidence,
    ) -> Brief<A> {
        let mut brief = Brief { pause: self.pause.take(), verdicts, ..Brief::empty() };
        let spare = room.saturating_sub(brief.words());
        brief.aborts = self.aborts.drain(..self.aborts.len().min(spare)).collect();
        let mut spare = spare - brief.aborts.len();
        let mut fits = |arrival: &&A| {
            let words = Brief::words_of(*arrival);
            let fits = words <= spare;
            spare = spare.saturating_sub(words);
            fits
        };
        let ready = self.ready::<R>(evidence).take(free_slots);
        brief.arrivals = ready.take_while(&mut fits).cloned().collect();
        self.arrivals.retain(|arrival| !brief.arrivals.contains(arrival));
        brief
    }
}

impl<A: Counters> Counters for Intake<A> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.arrivals.visit(visit);
        self.aborts.iter_mut().for_each(|request| visit(Counter::Request, &mut request.0));
    }
}
