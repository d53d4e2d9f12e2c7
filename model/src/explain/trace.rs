//! A counterexample with all that a reader elsewhere needs to understand it, and a replay to repeat it.

use crate::report::Story;
use crate::runs::{Kind, Performed, Registry, Script, ScriptStep, Verdict};

/// A counterexample and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Name of the run.
    pub run: String,
    /// Its bounds and reductions.
    pub params: String,
    /// Fingerprint of the specification.
    pub spec: String,
    /// Fingerprint of the model.
    pub model: String,
    /// How the property is violated.
    pub kind: Kind,
    /// Id of the property.
    pub property: String,
    /// What the property says; empty if it is not documented.
    pub sentence: String,
    /// The way there.
    pub story: Story,
}

impl Trace {
    /// The trace of a performed run; `None` if it found no counterexample.
    #[must_use]
    pub fn of(performed: &Performed<'_>, registry: &Registry) -> Option<Self> {
        let outcome = performed.outcome.as_ref()?;
        let (kind, property) = match &outcome.verdict {
            Verdict::Fault { kind, property } => (*kind, property),
            Verdict::Holds | Verdict::Unknown(_) | Verdict::Vacuous { .. } => return None,
        };
        Some(Self {
            run: performed.run.name.to_owned(),
            params: performed.run.params.clone(),
            spec: registry.spec_fingerprint.clone(),
            model: crate::FINGERPRINT.to_owned(),
            kind,
            property: property.clone(),
            sentence: registry.sentence(property).to_owned(),
            story: outcome.story.clone()?,
        })
    }

    /// The steps, to be taken again.
    #[must_use]
    pub fn script(&self) -> Script {
        let step = |scene: &crate::report::Scene| {
            Some(ScriptStep::Named { action: scene.action.clone()?, choice: Some(scene.choice) })
        };
        Script {
            root: self.story.scenes.first().map_or(0, |scene| scene.choice),
            steps: self.story.scenes.iter().filter_map(step).collect(),
            cycle_from: self.story.cycle_from,
        }
    }

    /// "after N steps: …", as a clause.
    #[must_use]
    pub(super) fn ending(&self) -> String {
        let steps = self.story.steps();
        format!("after {steps} {}: {}", if steps == 1 { "step" } else { "steps" }, self.story.ending)
    }

    /// Titles of the lanes.
    pub(super) fn titles(&self) -> Vec<&str> {
        self.story.titles().collect()
    }
}
