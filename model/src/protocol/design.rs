//! What a designer says of a protocol beside its ranks: what may reach them, what must hold, and what must be possible.

use std::fmt::Debug;
use std::hash::Hash;

use lockstep_spec::counters::Counter;
use lockstep_spec::program::RankProgram;
use stateright::Property;

use super::cells::cells;
use super::checked::Checked;
use super::collective::Meeting;
use super::state::State;
use crate::runs::PropertyDoc;
use crate::world::Interleaving;

/// A fact of a protocol's ranks.
pub type FactOf<P> = <<P as Protocol>::Rank as RankProgram>::Fact;
/// What a protocol's ranks do alone.
pub type LocalOf<P> = <<P as Protocol>::Rank as RankProgram>::Local;
/// A site of a protocol's ranks.
pub type SiteOf<P> = <<P as Protocol>::Rank as RankProgram>::Site;
/// A state of a protocol.
pub type StateOf<P> = State<<P as Protocol>::Rank, <P as Protocol>::Around>;

/// Something that can be said of a state of a protocol.
pub type Condition<P> = fn(&Checked<P>, &StateOf<P>) -> bool;

/// A protocol at one size: the value holds its bounds and its rule. Only the first method is required.
pub trait Protocol: Debug + Send + Sync + Sized + 'static {
    /// One rank.
    type Rank: RankProgram<Site: Meeting>;
    /// What surrounds the ranks and is not the same in every state, such as messages under way; `()` if there is nothing.
    type Around: Clone + Eq + Hash + Debug + Send + Sync + Default + 'static;

    /// The ranks before anything happens, at most 64.
    fn ranks(&self) -> Vec<Self::Rank>;

    /// Facts that may reach `rank` now, each at most once in the list. None by default.
    fn facts(&self, _state: &StateOf<Self>, _rank: usize) -> Vec<FactOf<Self>> {
        Vec::new()
    }

    /// Notes that a fact reaches a rank.
    fn delivered(&self, _around: &mut Self::Around, _rank: usize, _fact: &FactOf<Self>) {}

    /// Does what a rank asks of its surroundings.
    fn perform(&self, _around: &mut Self::Around, _rank: usize, _deed: &LocalOf<Self>) {}

    /// Whether a deed takes the rank out of every collective that it has entered, as the abort of a communicator or a crash does.
    fn abandons(&self, _deed: &LocalOf<Self>) -> bool {
        false
    }

    /// What must hold in every state, and what must be reached in some. Nothing by default: then the built-in properties remain.
    fn claims(&self, _claims: &mut Claims<Self>) {}

    /// Whether its ranks meet: then an exploration in which no collective completes proves nothing.
    fn meets(&self) -> bool {
        true
    }

    /// Whether nothing is left to do in a state in which nobody is in a collective. Such a state must stay within reach of any other.
    fn rested(&self, _state: &StateOf<Self>) -> bool {
        true
    }

    /// Whether a fact may be relied upon to bring the group to rest. Not so for what is luck: a request that comes, an operator's abort.
    fn benign(&self, _fact: &FactOf<Self>) -> bool {
        true
    }

    /// Which interleavings are explored. In a fixed order, what ranks wait for is taken as soon as it completes, and then the lowest rank
    /// moves that is in no collective; while there is none, all do. It is for groups whose ranks, between two collectives, neither read
    /// nor write anything of each other, and enter something in each turn; a turn that enters nothing violates `fixed-order`.
    fn interleaving(&self) -> Interleaving {
        Interleaving::Full
    }

    /// Shows the counters of what surrounds the ranks to `visit`. None by default.
    fn visit(&self, _around: &mut Self::Around, _visit: &mut dyn FnMut(Counter, &mut u64)) {}

    /// Description of a rank for a person: field and value. By default its fields.
    fn describe(&self, rank: &Self::Rank) -> Vec<(String, String)> {
        cells(rank)
    }
}

/// The claims of a protocol.
pub struct Claims<P: Protocol> {
    pub(super) properties: Vec<Property<Checked<P>>>,
    pub(super) documents: Vec<PropertyDoc>,
}

impl<P: Protocol> Claims<P> {
    /// Those of a protocol.
    pub(super) fn of(protocol: &P) -> Self {
        let mut claims = Self { properties: Vec::new(), documents: Vec::new() };
        protocol.claims(&mut claims);
        claims
    }

    /// Adds something that holds in every state, with its sentence for reports.
    pub fn always(&mut self, id: &'static str, sentence: &'static str, holds: Condition<P>) {
        self.properties.push(Property::always(id, holds));
        self.documents.push(PropertyDoc { id, sentence, source: "", not_covered: "" });
    }

    /// Adds a situation that must be reached, or the exploration has proved nothing about it.
    pub fn reaches(&mut self, situation: &'static str, reached: Condition<P>) {
        self.properties.push(Property::sometimes(situation, reached));
    }
}
