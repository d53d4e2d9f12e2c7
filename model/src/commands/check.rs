//! `check`: performs runs and judges them.

use lockstep_model::explore::Settings;
use lockstep_model::runs::{Exit, Manifest, Places, Registry, Tier};

use super::{Trouble, first_failure, perform};
use crate::screen::Screen;

/// What to check and how.
pub(crate) struct Check {
    /// Names of runs; all of the tier if there are none.
    pub(crate) names: Vec<String>,
    /// The tier.
    pub(crate) tier: Tier,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Whether to show expected counterexamples.
    pub(crate) trace: bool,
    /// How to explore.
    pub(crate) settings: Settings,
}

/// Performs runs and judges them.
pub(crate) fn check(registry: &Registry, places: &Places, check: &Check) -> Result<Exit, Trouble> {
    let named = registry.named(&check.names).map_err(Trouble::Failure)?;
    let runs = if named.is_empty() { registry.of_tier(check.tier).collect() } else { named };
    let manifest = Manifest::read(&places.manifest)?;
    let mut screen = Screen::new(registry, check.json, check.trace);
    let performed = perform(&runs, &check.settings, Some(&manifest), &mut screen)?;
    if let Some(failure) = first_failure(&performed) {
        return Ok(failure.exit);
    }
    if check.names.is_empty() {
        registry.validate(&manifest).map_err(Trouble::Failure)?;
    }
    Ok(Exit::Ok)
}
