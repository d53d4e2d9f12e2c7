//! `record`: writes what runs find into the manifest, CHECKS.md and proved.json, or compares.

use std::io::{self, Write};
use std::path::{Display, Path, PathBuf};

use crate::runs::{
    Exit, Levels, Manifest, Places, RecordError, Registry, Run, Tier, files, recorded, stale, write,
};
use serde_json::json;

use super::{Session, Trouble, covered, first_failure, perform};
use crate::cli::options::Effort;
use crate::cli::watch::{self, Stop};
use crate::screen::Screen;

/// What to record and how.
pub(crate) struct Recording {
    /// Whether to compare only.
    pub(crate) check: bool,
    /// The tier.
    pub(crate) tier: Tier,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// How much it may cost.
    pub(crate) effort: Effort,
}

/// Performs the runs to be recorded, and writes what they find or compares it with what is recorded.
pub(crate) fn record(registry: &Registry, places: &Places, recording: &Recording) -> Result<Exit, Trouble> {
    match texts(registry, places, recording)? {
        Ok(texts) if recording.check => compare(&texts, recording.json),
        Ok(texts) => {
            let written = write(&texts)?;
            print(&written, recording.json, "written", &|path| format!("wrote {path}"))?;
            Ok(Exit::Ok)
        }
        Err(exit) => Ok(exit),
    }
}

fn compare(texts: &[(PathBuf, String)], json: bool) -> Result<Exit, Trouble> {
    let stale = stale(texts);
    let told =
        |path: Display<'_>| format!("stale: {path}; run `lockstep-check record` and review the change");
    print(&stale, json, "stale", &told)?;
    Ok(if stale.is_empty() { Exit::Ok } else { Exit::Moved })
}

/// Says of each file what became of it, or lists all of them as `word` of one JSON object.
fn print(paths: &[&Path], json: bool, word: &str, told: &dyn Fn(Display<'_>) -> String) -> io::Result<()> {
    if json {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return writeln!(io::stdout(), "{}", json!({ word: paths }));
    }
    let mut out = anstream::stdout().lock();
    paths.iter().try_for_each(|path| writeln!(out, "{}", told(path.display())))
}

/// The files with their texts, or the exit code of the first run that fails.
fn texts(
    registry: &Registry,
    places: &Places,
    recording: &Recording,
) -> Result<Result<Vec<(PathBuf, String)>, Exit>, Trouble> {
    let Recording { tier, json, effort, .. } = recording;
    let runs: Vec<&Run> = registry.of_tier(*tier).collect();
    let old = if places.manifest.exists() { Manifest::read(&places.manifest)? } else { Manifest::default() };
    let session = Session {
        settings: (*effort).into(),
        memory: effort.memory_limit()?,
        recorded: Some(&old),
        judged: None,
        display: watch::Display::unless(*json),
        screen: Screen::new(registry, *json, false),
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
