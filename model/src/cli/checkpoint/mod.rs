//! Checkpoints: a search that is given up leaves a file, and another process goes on from it.
//!
//! ```text
//!  explorer ──Snapshot──▶ Checkpoints ──▶ file: what it is of, the search, a checksum ──▶ Checkpoints ──▶ explorer
//! ```
//!
//! Reading order: this file (when to write), `file` (what is written, and how it is known to be whole and fitting).

mod file;

pub(crate) use file::{CheckpointError, Subject};

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::explore::{Keeper, Snapshot};

use file::Body;

/// A span of time, as the command line gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
        let seconds = match &text[digits.len()..] {
            "" | "s" => Some(1),
            "m" => Some(60),
            "h" => Some(3_600),
            _ => None,
        };
        let span = digits.parse::<u64>().ok().zip(seconds);
        let seconds = span.and_then(|(number, seconds)| number.checked_mul(seconds));
        seconds
            .map(|seconds| Self(Duration::from_secs(seconds)))
            .ok_or_else(|| "write a number of seconds, minutes or hours, such as 90s, 5m or 1h".to_owned())
    }
}

/// Keeps one run's search in a file, and holds what it goes on from.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    subject: Subject,
    path: Option<PathBuf>,
    every: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    from: Option<Body>,
    written: Instant,
    /// How the last write ended: the states that it holds.
    last: Option<Result<u64, io::Error>>,
}

impl Checkpoints {
    /// Keeps the search for `subject` at `path`, if there is one, and goes on from the file at `from`, if there is one.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file to go on from cannot be used.
    pub(crate) fn new(
        subject: Subject,
        path: Option<PathBuf>,
        every: Span,
        from: Option<&Path>,
    ) -> Result<Self, CheckpointError> {
        let from = from.map(|from| file::open(from, &subject)).transpose()?;
        let state = State { from, written: Instant::now(), last: None };
        Ok(Self { subject, path, every: every.0, state: Mutex::new(state) })
    }

    /// The file that was written last and the states that it holds; `None` if none was written.
    ///
    /// # Errors
    /// Why the last one could not be written.
    pub(crate) fn written(&self) -> Result<Option<(&Path, u64)>, CheckpointError> {
        let Some(path) = &self.path else { return Ok(None) };
        match self.lock().last.take() {
            Some(Ok(states)) => Ok(Some((path, states))),
            Some(Err(source)) => Err(CheckpointError::Unwritable { path: path.clone(), source }),
            None => Ok(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper for Checkpoints {
    fn resume(&self) -> io::Result<Option<Box<dyn Read>>> {
        Ok(self.lock().from.take().map(|body| Box::new(body) as Box<dyn Read>))
    }

    fn is_due(&self) -> bool {
        self.path.is_some() && self.lock().written.elapsed() >= self.every
    }

    fn keep(&self, snapshot: &Snapshot<'_>) {
        let Some(path) = &self.path else { return };
        let written = file::write(path, &self.subject, snapshot);
        let mut state = self.lock();
        state.last = Some(written.map(|()| snapshot.counts.unique));
        state.written = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_spans_are_written_with_units() {
        let spans = ["90", "90s", "5m", "2h", "0s"].map(str::parse);
        assert_eq!(spans, [90, 90, 300, 7_200, 0].map(|seconds| Ok(Span(Duration::from_secs(seconds)))));
        let wrong = ["", "m", "1d", "-1s", "1.5h", "99999999999999999h"];
        assert!(wrong.iter().all(|text| text.parse::<Span>().is_err()));
    }
}
