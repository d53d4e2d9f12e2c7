//! `validate`: whether the traces of a running group are one behaviour of the model.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::runs::Exit;
use crate::validate::{LogError, validate as take_again};

use super::Trouble;

/// Takes traces again and says of each group what came of it.
pub(crate) fn validate(paths: &[PathBuf], json: bool) -> Result<Exit, Trouble> {
    let files: Result<Vec<Vec<PathBuf>>, LogError> = paths.iter().map(|path| traces(path)).collect();
    let verdicts = take_again(&files?.concat())?;
    let mut out = anstream::stdout();
    for verdict in &verdicts {
        match (verdict, json) {
            (Ok(report), false) => writeln!(out, "{report}")?,
            (Err(divergence), false) => writeln!(out, "{divergence}")?,
            (Ok(report), true) => writeln!(out, "{}", serde_json::json!({ "valid": report }))?,
            (Err(divergence), true) => writeln!(out, "{}", serde_json::json!({ "diverges": divergence }))?,
        }
    }
    Ok(if verdicts.iter().all(Result::is_ok) { Exit::Ok } else { Exit::Moved })
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
