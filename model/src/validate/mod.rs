//! Whether what a running group wrote down is one behaviour of the model.
//!
//! The ranks' traces ([`lockstep_spec::trace`]) are taken again, all at once: each rank's machine takes the events that its trace tells, the
//! group's collectives meet as in every model ([`crate::rendezvous`]), and what surrounds a rank may do what it may do there
//! ([`crate::decode::fabric`]). The first line at which a trace leaves the model is named, with what the model allowed there.
//!
//! Reading order: [`log`] (a file, line by line), [`surroundings`] (what may reach a rank), [`rank`] (one rank's trace against its machine),
//! [`group`] (all ranks at once), [`report`] (what came of it).

pub mod group;
pub mod log;
pub mod rank;
pub mod report;
pub mod surroundings;

use std::collections::BTreeMap;
use std::path::PathBuf;

use lockstep_spec::decode::Decode;
use lockstep_spec::prefill::Prefill;
use lockstep_spec::trace::GroupName;

pub use log::{Log, LogError};
pub use report::{Divergence, Report};

/// What came of one group's traces.
#[derive(Debug)]
pub enum Verdict {
    /// They are one behaviour of the model.
    Valid(Report),
    /// They leave the model.
    Diverges(Divergence),
    /// They cannot be judged: a file is no trace, is damaged, is of another protocol, or a rank's is missing.
    Unjudged(LogError),
}

/// Takes the traces of any number of groups and epochs again: first what cannot be read at all, then a verdict a group, in the order of
/// epochs.
#[must_use]
pub fn validate(paths: &[PathBuf]) -> Vec<Verdict> {
    let (mut groups, mut verdicts) = (BTreeMap::<_, Vec<PathBuf>>::new(), Vec::new());
    for path in paths {
        match Log::open(path) {
            Ok(Log { header, .. }) => {
                groups.entry((header.configuration.epoch, header.group)).or_default().push(path.clone());
            }
            Err(error) => verdicts.push(Verdict::Unjudged(error)),
        }
    }
    let some_unread = !verdicts.is_empty();
    verdicts.extend(groups.into_iter().map(|((_, name), paths)| match judge(name, &paths, some_unread) {
        Ok(verdict) => verdict,
        Err(error) => Verdict::Unjudged(error),
    }));
    verdicts
}

/// Only one group's files are open at a time.
fn judge(name: GroupName, paths: &[PathBuf], some_unread: bool) -> Result<Verdict, LogError> {
    let logs: Result<Vec<Log>, LogError> = paths.iter().map(|path| Log::open(path)).collect();
    let logs = group::complete(logs?, some_unread)?;
    match name {
        GroupName::Decode => group::take_again::<Decode>(logs),
        GroupName::Prefill => group::take_again::<Prefill>(logs),
    }
}
