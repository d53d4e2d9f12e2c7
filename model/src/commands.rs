//! What the subcommands do.

use std::io::{self, Write};
use std::path::PathBuf;

use lockstep_model::explore::Settings;
use lockstep_model::runs::{
    Exit, Failure, Manifest, ManifestError, Performed, Places, RecordError, Registry, Run, Tier, expect_text,
    files, recorded, stale, tier_text, write,
};
use thiserror::Error;

use crate::screen::Screen;

/// What keeps a command from being performed.
#[derive(Debug, Error)]
pub(crate) enum Trouble {
    /// The request or the registry is wrong.
    #[error("{}", .0.text)]
    Failure(Failure),
    /// The manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The terminal or file behind the output is gone.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// A recorded file cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Trouble {
    /// The exit code it asks for.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Failure(failure) => failure.exit,
            Self::Manifest(_) | Self::Output(_) | Self::Record(_) => Exit::Internal,
        }
    }
}

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

/// Lists the runs.
pub(crate) fn list(registry: &Registry) -> Result<Exit, Trouble> {
    let mut out = anstream::stdout().lock();
    let width = registry.runs.iter().map(|run| run.name.len()).max().unwrap_or(0);
    for run in &registry.runs {
        let (tier, expect) = (tier_text(run.tier), expect_text(run.expect));
        writeln!(out, "{:<width$}  {tier:<7}  {expect:<26}  {}", run.name, run.params)?;
    }
    Ok(Exit::Ok)
}

/// Performs the runs to be recorded and writes what they find.
pub(crate) fn record(
    registry: &Registry,
    places: &Places,
    tier: Tier,
    settings: &Settings,
) -> Result<Exit, Trouble> {
    match texts(registry, places, tier, settings)? {
        Ok(texts) => {
            for path in write(&texts)? {
                writeln!(anstream::stdout(), "wrote {}", path.display())?;
            }
            Ok(Exit::Ok)
        }
        Err(exit) => Ok(exit),
    }
}

/// Performs the runs to be recorded and compares what they find with what is recorded.
pub(crate) fn compare(
    registry: &Registry,
    places: &Places,
    tier: Tier,
    settings: &Settings,
) -> Result<Exit, Trouble> {
    match texts(registry, places, tier, settings)? {
        Ok(texts) => {
            let stale = stale(&texts);
            for path in &stale {
                writeln!(
                    anstream::stdout(),
                    "stale: {}; run `lockstep-check record` and review the change",
                    path.display()
                )?;
            }
            Ok(if stale.is_empty() { Exit::Ok } else { Exit::Moved })
        }
        Err(exit) => Ok(exit),
    }
}

/// The files with their texts, or the exit code of the first run that fails.
fn texts(
    registry: &Registry,
    places: &Places,
    tier: Tier,
    settings: &Settings,
) -> Result<Result<Vec<(PathBuf, String)>, Exit>, Trouble> {
    let runs: Vec<&Run> = registry.of_tier(tier).collect();
    let old = if places.manifest.exists() { Manifest::read(&places.manifest)? } else { Manifest::default() };
    let mut screen = Screen::new(registry, false, false);
    let performed = perform(&runs, settings, None, &mut screen)?;
    if let Some(failure) = first_failure(&performed) {
        return Ok(Err(failure.exit));
    }
    let manifest = recorded(registry, &old, &performed);
    registry.validate(&manifest).map_err(Trouble::Failure)?;
    Ok(Ok(files(registry, &manifest, places)?))
}

fn perform<'a>(
    runs: &[&'a Run],
    settings: &Settings,
    manifest: Option<&Manifest>,
    screen: &mut Screen<'_>,
) -> Result<Vec<Performed<'a>>, Trouble> {
    let mut all = Vec::new();
    for run in runs {
        let performed = Performed::new(run, settings, manifest);
        screen.show(&performed)?;
        all.push(performed);
    }
    screen.sum_up(&all)?;
    Ok(all)
}

fn first_failure(performed: &[Performed<'_>]) -> Option<Failure> {
    performed.iter().find_map(|performed| performed.failure.clone())
}
