//! What distinguishes the two groups: what occupies a slot, what their ranks see, and how they decide.

use crate::brief::{Arrival, Brief};
use crate::configuration::GroupConfiguration;
use crate::counters::Counters;
use crate::fault::Fault;
use crate::ids::{Attempt, Epoch, Generation, RankIndex, RequestId, SlotIndex, TokenId};
use crate::poll::Reason;
use crate::table::{Flight, Occupant, Slot, State};
use crate::vote::{Outcome, SlotVote};
use crate::why::Why;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a decision is computed from: agreed, all of it.
pub struct Inputs<R: Role> {
    /// Life of the group.
    pub epoch: Epoch,
    /// The state that the vote was sampled in.
    pub state: State<R::Occupant>,
    /// The reduced vote.
    pub outcome: Outcome,
    /// The leader's brief.
    pub brief: Brief<R::Arrival>,
}

/// A vote element that a decision read, with what it was applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Applied {
    /// The slot.
    pub slot: SlotIndex,
    /// Its occupant when the element was applied.
    pub generation: Generation,
    /// That occupant's handshake.
    pub attempt: Attempt,
}

/// What a group decides in one round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision<O, A> {
    /// The next agreed state.
    pub state: State<O>,
    /// What each rank does, in order.
    pub actions: Vec<A>,
    /// The forward to launch, if any.
    pub flight: Option<Flight>,
    /// Forwards that are now agreed to have retired.
    pub retired: usize,
    /// Copies that are now agreed to be complete.
    pub copied: usize,
    /// Why each outcome came about: the unit of coverage.
    pub reasons: Vec<Why>,
    /// The per-slot elements that were applied.
    pub applied: Vec<Applied>,
}

impl<O, A> Decision<O, A> {
    /// The next state and the forward to launch.
    #[must_use]
    pub fn into_parts(self) -> (State<O>, Option<Flight>) {
        (self.state, self.flight)
    }
}

/// Why a request ended before it was briefed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// It was aborted, or the group is on its way out.
    Aborted,
    /// It could never run.
    Refused(Reason),
}

/// One of the two groups.
pub trait Role: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// A request as the leader briefs it.
    type Arrival: Arrival + Counters + Serialize + DeserializeOwned;
    /// A request in a slot.
    type Occupant: Occupant;
    /// What one rank saw.
    type Evidence: Clone + Eq + Hash + fmt::Debug + Counters + Send + Sync;
    /// What reaches one rank.
    type Fact: Clone + Eq + Hash + fmt::Debug + Serialize + DeserializeOwned + Send + Sync;
    /// What a decision tells each rank to do.
    type Action: Clone + Eq + Hash + fmt::Debug + Send + Sync;
    /// What a rank does alone.
    type Effect: Clone + Eq + Hash + fmt::Debug + Serialize + Send + Sync;

    /// Evidence of a rank that has seen nothing.
    fn evidence(configuration: &GroupConfiguration) -> Self::Evidence;

    /// Takes a fact. A fact of another leg than its slot's current one changes nothing.
    fn absorb(epoch: Epoch, state: &State<Self::Occupant>, evidence: &mut Self::Evidence, fact: Self::Fact);

    /// Lets one tick pass.
    fn tick(configuration: &GroupConfiguration, state: &State<Self::Occupant>, evidence: &mut Self::Evidence);

    /// This rank's vote on a slot.
    fn sample(
        configuration: &GroupConfiguration,
        slot: &Slot<Self::Occupant>,
        index: SlotIndex,
        evidence: &Self::Evidence,
    ) -> SlotVote;

    /// Whether the leader may brief an arrival now.
    fn ready(arrival: &Self::Arrival, evidence: &Self::Evidence) -> bool;

    /// Whether an arrival that was not briefed is still wanted, next to what else waits and what is in the table.
    fn wanted(arrival: &Self::Arrival, evidence: &Self::Evidence) -> bool;

    /// Whether two arrivals are the same request.
    fn same(left: &Self::Arrival, right: &Self::Arrival) -> bool;

    /// Whether a new arrival makes one that waits pointless.
    fn replaces(new: &Self::Arrival, waiting: &Self::Arrival) -> bool;

    /// The arrival that a slot's occupant once was; none where the same may arrive anew, since this one has ended.
    fn arrival(occupant: &Self::Occupant) -> Option<&Self::Arrival>;

    /// Refuses at the door what could never run.
    ///
    /// # Errors
    /// Why it could never run.
    fn admissible(configuration: &GroupConfiguration, arrival: &Self::Arrival) -> Result<(), Reason>;

    /// Whether `token` ends the output of a slot's occupant.
    fn ends(configuration: &GroupConfiguration, occupant: Option<&Self::Occupant>, token: TokenId) -> bool;

    /// The request of an arrival.
    fn request(arrival: &Self::Arrival) -> RequestId;

    /// What the leader does when a request ends before it was briefed; nothing if nobody waits for its end.
    fn turned_away(request: RequestId, why: TurnedAway) -> Option<Self::Effect>;

    /// Whether a vote in the devices' queue goes ahead of the launch that it goes with: behind it, it would wait for that forward, and no
    /// second one could be launched while the first runs.
    fn votes_first() -> bool {
        true
    }

    /// The decision: pure, and the same on every rank.
    ///
    /// # Errors
    /// A broken contract, found by every rank at once.
    fn decide(
        configuration: &GroupConfiguration,
        inputs: Inputs<Self>,
    ) -> Result<Decision<Self::Occupant, Self::Action>, Fault>;

    /// Does one rank's part of an action. `tokens` holds those of the forwards that are now agreed to have retired.
    fn perform(
        evidence: &mut Self::Evidence,
        action: &Self::Action,
        tokens: &[Vec<TokenId>],
        rank: RankIndex,
        effect: &mut dyn FnMut(Self::Effect),
    );

    /// Checks on this rank what a plan presupposes.
    ///
    /// # Errors
    /// The fault that a violation is.
    fn check_launch(
        state: &State<Self::Occupant>,
        evidence: &Self::Evidence,
        flight: &Flight,
    ) -> Result<(), Fault>;
}
