//! `record`: writes what runs find into the manifest, CHECKS.md and proved.json, or compares.

use std::io::Write;
use std::path::PathBuf;

use crate::runs::{
    Exit, Levels, Manifest, Places, RecordError, Registry, Run, Tier, files, recorded, stale, write,
};

use super::{Session, Trouble, covered, first_failure, perform};
use crate::cli::options::Effort;
use crate::cli::watch::{Display, Stop};
use crate::screen::Screen;

/// Performs the runs to be recorded and writes what they find.
pub(crate) fn record(
    registry: &Registry,
    places: &Places,
    tier: Tier,
    effort: &Effort,
) -> Result<Exit, Trouble> {
    match texts(registry, places, tier, effort)? {
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
    effort: &Effort,
) -> Result<Exit, Trouble> {
    match texts(registry, places, tier, effort)? {
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
    effort: &Effort,
) -> Result<Result<Vec<(PathBuf, String)>, Exit>, Trouble> {
    let runs: Vec<&Run> = registry.of_tier(tier).collect();
    let old = if places.manifest.exists() { Manifest::read(&places.manifest)? } else { Manifest::default() };
    let session = Session {
        settings: (*effort).into(),
        memory: effort.memory_limit()?,
        recorded: Some(&old),
        judged: false,
        display: Display::of_stderr(),
        screen: Screen::new(registry, false, false),
        kept: None,
        stop: Stop::default(),
    };
    let performed = perform(&runs, &session, &mut |_| Ok(()))?;
    if let Some(failure) = first_failure(&performed) {
        return Ok(Err(failure.exit));
    }
    let coverage = covered(&performed)?;
    let manifest = recorded(registry, &old, &performed);
    registry.validate(&manifest).map_err(Trouble::Failure)?;
    let levels = Levels::read(&places.levels())?.with(registry, &performed);
    let mut texts = files(registry, &manifest, &coverage, places)?;
    texts.push((places.levels(), levels.to_text().map_err(RecordError::from)?));
    Ok(Ok(texts))
}
