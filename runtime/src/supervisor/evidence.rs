//! What is kept of a lost epoch: the last lines of every rank that could still write them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::say;
use crate::launch::EVIDENCE;
use lockstep_spec::ids::Epoch;

/// Bundles kept: as many losses as two default bursts of restarts have.
const KEPT_BUNDLES: usize = 16;

/// Where bundles are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence(PathBuf);

impl Evidence {
    /// Bundles go below `directory`, or where the system keeps temporary files.
    pub fn new(directory: Option<&Path>) -> Self {
        Self(directory.map_or_else(|| std::env::temp_dir().join("lockstep-evidence"), Path::to_owned))
    }

    /// Copies what the ranks of an epoch left in its directory; tells the files' directory, or none if no rank left anything.
    ///
    /// # Errors
    /// The system's reason, with the path.
    pub(crate) fn keep(&self, epoch_directory: &Path, epoch: Epoch) -> io::Result<Option<PathBuf>> {
        let left = epoch_directory.join(EVIDENCE);
        if !left.is_dir() {
            return Ok(None);
        }
        let bundle = self.0.join(format!("{}-{}-{epoch}", seconds(), std::process::id()));
        DirBuilder::new().recursive(true).mode(0o700).create(&bundle)?;
        for file in fs::read_dir(&left)? {
            let file = file?;
            fs::copy(file.path(), bundle.join(file.file_name()))?;
        }
        if let Err(error) = self.forget_old() {
            say(&format!("lockstep: old evidence in {} can not be removed: {error}", self.0.display()));
        }
        Ok(Some(bundle))
    }

    /// Removes the oldest bundles beyond those that are kept.
    fn forget_old(&self) -> io::Result<()> {
        let entries = fs::read_dir(&self.0)?.filter_map(Result::ok);
        let dated = entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
        let mut bundles: Vec<_> = dated.filter(|(_, path)| is_bundle(path)).collect();
        bundles.sort();
        let surplus = bundles.len().saturating_sub(KEPT_BUNDLES);
        bundles.into_iter().take(surplus).try_for_each(|(_, path)| fs::remove_dir_all(path))
    }
}

/// Seconds since 1970: tells bundles apart whose processes have the same number, as in a container.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Whether a directory is named as bundles are: nothing else is ever removed.
fn is_bundle(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let mut parts = name.unwrap_or_default().split('-');
    let mut number = |prefix: &str| {
        let part = parts.next().and_then(|part| part.strip_prefix(prefix));
        part.is_some_and(|part| part.parse::<u64>().is_ok())
    };
    number("") && number("") && number("e")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_keeps_the_latest_bundles_and_nothing_else_goes() {
        let (epochs, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let evidence = Evidence::new(Some(kept.path()));
        assert_eq!(evidence.keep(epochs.path(), Epoch(1)).unwrap(), None);
        fs::create_dir(epochs.path().join(EVIDENCE)).unwrap();
        fs::write(epochs.path().join(EVIDENCE).join("decode-0.ndjson"), "{}\n").unwrap();
        fs::write(kept.path().join("notes"), "").unwrap();
        fs::create_dir(kept.path().join("7-else")).unwrap();
        for epoch in 1..=20 {
            let bundle = evidence.keep(epochs.path(), Epoch(epoch)).unwrap().unwrap();
            assert!(is_bundle(&bundle), "{}", bundle.display());
            assert_eq!(fs::read_to_string(bundle.join("decode-0.ndjson")).unwrap(), "{}\n");
        }
        let left = fs::read_dir(kept.path()).unwrap().count();
        assert_eq!(left, KEPT_BUNDLES + 2);
    }
}
