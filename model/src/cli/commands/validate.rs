//! `validate`: whether the traces of a running group are one behaviour of the model.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::runs::Exit;
use crate::screen::tell;
use crate::validate::{LogError, Verdict, validate as take_again};
use serde_json::json;

use super::Trouble;

/// Takes traces again and says of each group what came of it.
pub(crate) fn validate(paths: &[PathBuf], json: bool) -> Result<Exit, Trouble> {
    let files: Result<Vec<Vec<PathBuf>>, LogError> = paths.iter().map(|path| traces(path)).collect();
    let verdicts = take_again(&files?.concat());
    let mut out = anstream::stdout();
    for verdict in &verdicts {
        match (verdict, json) {
            (Verdict::Valid(report), false) => writeln!(out, "{report}")?,
            (Verdict::Diverges(divergence), false) => writeln!(out, "{divergence}")?,
            (Verdict::Unjudged(error), false) => tell(format_args!("lockstep-check: not judged: {error}")),
            (Verdict::Valid(report), true) => writeln!(out, "{}", json!({ "valid": report }))?,
            (Verdict::Diverges(divergence), true) => writeln!(out, "{}", json!({ "diverges": divergence }))?,
            (Verdict::Unjudged(error), true) => {
                writeln!(out, "{}", json!({ "unjudged": error.to_string() }))?
            }
        }
    }
    Ok(verdicts.iter().map(exit).max_by_key(|exit| exit.code()).unwrap_or(Exit::Ok))
}

/// A divergence outweighs what cannot be judged.
fn exit(verdict: &Verdict) -> Exit {
    match verdict {
        Verdict::Valid(_) => Exit::Ok,
        Verdict::Unjudged(_) => Exit::Usage,
        Verdict::Diverges(_) => Exit::Moved,
    }
}

/// The trace files that a path names: itself, or those in the directory that it is.
fn traces(path: &Path) -> Result<Vec<PathBuf>, LogError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |source| LogError::Unreadable { path: path.to_owned(), source };
    let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(unreadable)?.collect();
    let files = entries.map_err(unreadable)?.into_iter().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|extension| extension == "ndjson")).collect();
    files.sort();
    if files.is_empty() {
        return Err(LogError::Incomplete(format!("there is no trace (*.ndjson) in {}", path.display())));
    }
    Ok(files)
}
