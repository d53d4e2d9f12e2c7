//! The hazards that the conventional variants show, in the order of the loop, and the property that each must be found to violate.
//!
//! Reading order: this file, then the catalogue by place: `polls` (what is entered when), `queues` (who is where), `words` (what the
//! front end says), `memory` (pages, copies and caches).

mod memory;
mod polls;
mod queues;
mod words;

use crate::conventional::surroundings::{Surroundings, model};
use crate::conventional::variant::Variant;
use crate::model::WorldModel;

/// Ranks at which every hazard shows.
const RANKS: usize = 2;

/// A rule of a real engine, and what the checker must say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Name by which runs and reports refer to it.
    pub name: &'static str,
    /// The design with that rule.
    pub variant: Variant,
    /// Fewest requests at which the rule matters.
    pub requests: usize,
    /// Property that falls first under overlap; none where the design holds.
    pub expectation: Option<&'static str>,
    /// Property that falls first in the normal loop.
    pub expectation_normal: Option<&'static str>,
    /// The rule, in a sentence.
    pub rule: &'static str,
    /// What an operator sees.
    pub consequence: &'static str,
    /// Where the rule was met.
    pub sources: &'static str,
}

impl Hazard {
    /// Property that falls first in a loop.
    #[must_use]
    pub fn expected(&self, overlap: bool) -> Option<&'static str> {
        if overlap { self.expectation } else { self.expectation_normal }
    }

    /// Whether the design holds in both loops: a control, or an early-out that is safe.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.expectation.is_none() && self.expectation_normal.is_none()
    }

    /// The variant at the smallest size at which the hazard shows.
    #[must_use]
    pub fn model(&self, overlap: bool) -> WorldModel<Surroundings> {
        model(self.variant, overlap, RANKS, self.requests)
    }

    /// A design that violates a property with one request.
    const fn fails(name: &'static str, variant: Variant, property: &'static str) -> Self {
        Self::new(name, variant, 1, Some(property))
    }

    /// A design that holds, shown with so many requests.
    const fn holds(name: &'static str, variant: Variant, requests: usize) -> Self {
        Self::new(name, variant, requests, None)
    }

    const fn new(
        name: &'static str,
        variant: Variant,
        requests: usize,
        expectation: Option<&'static str>,
    ) -> Self {
        let (rule, consequence, sources) = ("", "", "");
        Self {
            name,
            variant,
            requests,
            expectation,
            expectation_normal: expectation,
            rule,
            consequence,
            sources,
        }
    }

    /// The hazard where another number of requests is needed.
    const fn with_requests(self, requests: usize) -> Self {
        Self { requests, ..self }
    }

    /// The hazard where something else falls first in the normal loop, or nothing.
    const fn normally(self, expectation_normal: Option<&'static str>) -> Self {
        Self { expectation_normal, ..self }
    }

    const fn told(self, rule: &'static str, consequence: &'static str, sources: &'static str) -> Self {
        Self { rule, consequence, sources, ..self }
    }

    /// A design that holds, beside the hazards that change one of its rules.
    const fn control(self, rule: &'static str) -> Self {
        self.told(rule, "None.", "A control")
    }
}

/// All hazards of the conventional design.
#[must_use]
pub fn variants() -> Vec<Hazard> {
    [polls::early_outs(), queues::hazards(), words::hazards(), memory::hazards(), polls::fixed_shape()]
        .concat()
}
