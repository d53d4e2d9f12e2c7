//! A state of a protocol and its steps: ranks that are executed as they are, what they have entered, and what surrounds them.

use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::fault::Fault;
use lockstep_spec::invariant::{matched, no_fault, no_skip};
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};
use lockstep_spec::ticket::Ticket;

use super::astray::Astray;
use super::collective::Meeting;
use super::communicators::{Change, Communicators, Misfit};
use super::design::{FactOf, Protocol, SiteOf, StateOf};
use crate::rebase::Renaming;
use crate::world::Interleaving;

/// One step of a protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step<F, S> {
    /// A fact reaches a rank.
    Fact(usize, F),
    /// A rank's loop turns.
    Turn(usize),
    /// A rank takes what came out of a collective that every member has entered.
    Take(usize, Ticket<S>),
}

/// A step of a protocol.
pub(super) type StepOf<P> = Step<FactOf<P>, SiteOf<P>>;

/// What is wrong, beyond what a protocol's own claims say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    /// A rank ended itself.
    Fault(usize, Fault),
    /// A rank turned in a fixed order, and entered nothing.
    Idled,
    /// Ranks do not meet.
    Misfit(Misfit),
}

/// Id of the property that a fixed order is fit for the protocol.
pub(super) const FIXED_ORDER: &str = "fixed-order";

/// A state of a protocol of ranks `R` with `A` around them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<R: RankProgram<Site: Meeting>, A> {
    /// The ranks.
    pub ranks: Vec<R>,
    /// What surrounds them.
    pub around: A,
    communicators: Communicators<R::Site>,
    wrong: Option<Wrong>,
}

impl<R: RankProgram<Site: Meeting>, A> State<R, A> {
    /// Whether nobody is in a collective: nothing is entered, and nothing is left to be taken.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.communicators.is_quiet()
    }

    /// What a rank has entered and what has not completed. With the last entry a collective completes: no state shows all members in it, so
    /// a claim about what they enter together asks instead for what they hold once it is over.
    pub fn entered(&self, rank: usize) -> impl Iterator<Item = &Ticket<R::Site>> {
        self.communicators.entered(rank)
    }

    /// What a rank is in, for a person.
    pub(super) fn words(&self, rank: usize) -> String {
        self.communicators.words(rank)
    }

    /// What a step of `rank` changed since `before`; `taken` is what it took.
    pub(super) fn change_since(
        &self,
        before: &Self,
        rank: usize,
        taken: Option<&Ticket<R::Site>>,
    ) -> Change<R::Site> {
        let is_misfit = matches!(self.wrong, Some(Wrong::Misfit(_)));
        self.communicators.change_since(&before.communicators, (rank, taken), is_misfit)
    }

    /// Whether a rank may not turn before it has taken an outcome.
    #[must_use]
    pub fn waits(&self, rank: usize) -> bool {
        self.communicators.waits(rank)
    }

    /// Whether a rank has left in order.
    #[must_use]
    pub fn has_left(&self, rank: usize) -> bool {
        self.communicators.has_left(rank)
    }

    /// Whether every rank has left.
    pub(super) fn is_over(&self) -> bool {
        (0..self.ranks.len()).all(|rank| self.has_left(rank))
    }

    /// The built-in property that is violated.
    pub(super) fn violated(&self) -> Option<&'static str> {
        self.wrong.as_ref().map(|wrong| match wrong {
            Wrong::Fault(..) => no_fault::PROPERTY.id,
            Wrong::Idled => FIXED_ORDER,
            Wrong::Misfit(Misfit::Mismatch) => matched::PROPERTY.id,
            Wrong::Misfit(Misfit::Skip) => no_skip::PROPERTY.id,
        })
    }

    /// The fault with which a rank ended itself.
    pub(super) fn fault_of(&self, rank: usize) -> Option<&Fault> {
        match &self.wrong {
            Some(Wrong::Fault(faulty, fault)) if *faulty == rank => Some(fault),
            Some(Wrong::Fault(..) | Wrong::Idled | Wrong::Misfit(_)) | None => None,
        }
    }
}

/// The state before anything happens.
pub(super) fn first<P: Protocol>(protocol: &P) -> StateOf<P> {
    let ranks = protocol.ranks();
    State { communicators: Communicators::new(ranks.len()), ranks, around: P::Around::default(), wrong: None }
}

/// Steps that may come next.
pub(super) fn steps<P: Protocol>(protocol: &P, state: &StateOf<P>, steps: &mut Vec<StepOf<P>>) {
    if state.wrong.is_some() {
        return;
    }
    let present = || (0..state.ranks.len()).filter(|rank| !state.has_left(*rank));
    let first = match protocol.interleaving() {
        Interleaving::Full => None,
        Interleaving::FixedOrder => present()
            .find(|rank| state.communicators.has_completed(*rank))
            .or_else(|| present().find(|rank| state.communicators.is_free(*rank))),
    };
    for rank in present().filter(|rank| first.is_none_or(|first| first == *rank)) {
        steps.extend(protocol.facts(state, rank).into_iter().map(|fact| Step::Fact(rank, fact)));
        steps.extend(state.communicators.outcomes(rank).map(|ticket| Step::Take(rank, ticket)));
        if !state.waits(rank) {
            steps.push(Step::Turn(rank));
        }
    }
}

/// The state after a step.
pub(super) fn after<P: Protocol>(
    protocol: &P,
    astray: Option<&Astray<SiteOf<P>>>,
    state: &StateOf<P>,
    step: StepOf<P>,
) -> StateOf<P> {
    let mut next = state.clone();
    next.wrong = take(protocol, astray, &mut next, step).err();
    if next.wrong.is_none() {
        rebase(protocol, &mut next);
    }
    next
}

fn take<P: Protocol>(
    protocol: &P,
    astray: Option<&Astray<SiteOf<P>>>,
    state: &mut StateOf<P>,
    step: StepOf<P>,
) -> Result<(), Wrong> {
    match step {
        Step::Fact(rank, fact) => {
            protocol.delivered(&mut state.around, rank, &fact);
            run(protocol, astray, state, (rank, Event::Fact(fact)))
        }
        Step::Turn(rank) => {
            run(protocol, astray, state, (rank, Event::Turn))?;
            let fixed = protocol.interleaving() == Interleaving::FixedOrder;
            let idled = fixed && !state.has_left(rank) && state.communicators.is_free(rank);
            if idled { Err(Wrong::Idled) } else { Ok(()) }
        }
        Step::Take(rank, ticket) => {
            let payload = state.communicators.take(rank, &ticket).unwrap_or_default();
            run(protocol, astray, state, (rank, Event::Completed { ticket, payload }))
        }
    }
}

/// Lets a rank take an event, and does what it says.
fn run<P: Protocol>(
    protocol: &P,
    astray: Option<&Astray<SiteOf<P>>>,
    state: &mut StateOf<P>,
    (rank, event): (usize, Event<FactOf<P>, SiteOf<P>>),
) -> Result<(), Wrong> {
    let mut effects = Vec::new();
    state.ranks[rank].step(event, &mut effects);
    for effect in effects {
        match effect {
            Effect::Enter(entry) => enter(protocol, astray, state, (rank, entry.into()))?,
            Effect::Local(deed) => {
                protocol.perform(&mut state.around, rank, &deed);
                if protocol.abandons(&deed) {
                    state.communicators.abandon(rank);
                }
            }
            Effect::Fault(fault) => return Err(Wrong::Fault(rank, fault)),
            Effect::Leave => state.communicators.leave(rank).map_err(Wrong::Misfit)?,
        }
    }
    Ok(())
}

/// Enters a collective, unless the rank goes astray there: then it may go on without.
fn enter<P: Protocol>(
    protocol: &P,
    astray: Option<&Astray<SiteOf<P>>>,
    state: &mut StateOf<P>,
    (rank, posted): (usize, Posted<SiteOf<P>>),
) -> Result<(), Wrong> {
    if astray.is_some_and(|astray| astray.skips(rank, posted.ticket.site)) {
        let Posted { ticket, payload } = posted;
        // What it enters next, it does not skip too: it would never come to rest.
        return run(protocol, None, state, (rank, Event::Completed { ticket, payload }));
    }
    let posted = match astray {
        Some(astray) => astray.bend(rank, posted),
        None => posted,
    };
    state.communicators.enter(rank, posted, astray).map_err(Wrong::Misfit)
}

/// Renames the counters densely, so that endless traffic is a finite graph. The rounds of tickets are renamed with the rounds that ranks
/// show; where ranks show none, they number their entries by something that is not renamed either.
fn rebase<P: Protocol>(protocol: &P, state: &mut StateOf<P>) {
    let mut numbered = false;
    let mut note = |counter: Counter, _: &mut u64| numbered |= counter == Counter::Round;
    state.ranks.iter_mut().for_each(|rank| rank.visit(&mut note));
    let mut renaming = Renaming::default();
    renaming.collect(&mut Whole { protocol, state, numbered });
    renaming.rename(&mut Whole { protocol, state, numbered });
}

/// All of a state, as something that holds counters.
struct Whole<'a, P: Protocol> {
    protocol: &'a P,
    state: &'a mut StateOf<P>,
    /// Whether the rounds of tickets are counters.
    numbered: bool,
}

impl<P: Protocol> Counters for Whole<'_, P> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.state.ranks.iter_mut().for_each(|rank| rank.visit(visit));
        self.state.communicators.visit(self.numbered, visit);
        self.protocol.visit(&mut self.state.around, visit);
    }
}
