//! Mutants of the decode rules that N ranks refute, each with the smallest setting known to do so. The rules themselves are
//! [`crate::agreed_level::mutants`].
//!
//! What makes each visible: a late answer needs a handshake that ends while it is open; a grant that is queued or a forward that is in
//! flight needs a request that ends meanwhile. A stale element needs nothing: a slot's first occupant is voted on before it is there.

use crate::agreed_level::mutants::{AppliesStale, DrainedByFabric, ReleasesInFlight, TakesLateFacts};
use crate::decode::Surroundings;
use crate::decode::setting::{Breakage, DecodeSetting};
use crate::model::WorldModel;
use lockstep_spec::invariant::{Property, no_write_after_free, vote_fresh};

/// A world of two ranks under a mutant, with the property that falls.
pub type Refuted<R> = (WorldModel<Surroundings<R>>, Property);

/// Two ranks, one slot, room for one request that asks for two tokens.
fn smallest() -> DecodeSetting {
    let mut setting = DecodeSetting::new(2, 1, 2, false);
    setting.kinds = vec![setting.kinds[1]];
    setting
}

/// Vote elements are applied to whoever is in the slot now.
#[must_use]
pub fn applies_stale() -> Refuted<AppliesStale> {
    (WorldModel::new(smallest()), vote_fresh::PROPERTY)
}

/// A queued publish does not count as outstanding, and a client gives the request up while it is queued.
#[must_use]
pub fn drained_by_fabric() -> Refuted<DrainedByFabric> {
    let setting = DecodeSetting { aborts: true, ..smallest() };
    (WorldModel::new(setting), no_write_after_free::PROPERTY)
}

/// Pages go back under a forward in flight, and a client gives the request up while it runs.
#[must_use]
pub fn releases_in_flight() -> Refuted<ReleasesInFlight> {
    let setting = DecodeSetting { aborts: true, ..smallest() };
    (WorldModel::new(setting), no_write_after_free::PROPERTY)
}

/// The answer to a former occupant's handshake, which failed on another rank, is taken for the current one's.
#[must_use]
pub fn takes_late_facts() -> Refuted<TakesLateFacts> {
    let setting = DecodeSetting { breakage: &[Breakage::Handshake], late_facts: true, ..smallest() };
    (WorldModel::new(setting), vote_fresh::PROPERTY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{End, Settings, explore};
    use lockstep_spec::decode::rules::{Rules, Shipped};

    /// The property falls under the mutant, and nothing does under the shipped rules.
    fn falls<R: Rules>((model, property): Refuted<R>) {
        let shipped = WorldModel::<Surroundings<Shipped>>::new(model.setting.clone());
        let ends = |found: Result<crate::explore::Exploration, _>| found.map(|found| found.end);
        assert_eq!(ends(explore(&shipped, &Settings::default())), Ok(End::Exhausted));
        let mutant = ends(explore(&model, &Settings::default()));
        assert!(matches!(mutant, Ok(End::Violated { property: id, .. }) if id == property.id), "{mutant:?}");
    }

    #[test]
    fn mutants_are_refuted() {
        falls(applies_stale());
        falls(drained_by_fabric());
        falls(releases_in_flight());
        falls(takes_late_facts());
    }
}
