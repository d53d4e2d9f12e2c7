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
pub type Verdict = Result<Report, Divergence>;

/// Takes the traces of any number of groups and epochs again; one verdict a group, in the order of epochs.
///
/// # Errors
/// What cannot be judged: a file that is no trace, is damaged, is of another protocol, or a rank whose trace is missing.
pub fn validate(paths: &[PathBuf]) -> Result<Vec<Verdict>, LogError> {
    let mut groups: BTreeMap<_, Vec<Log>> = BTreeMap::new();
    for path in paths {
        let log = Log::open(path)?;
        groups.entry((log.header.configuration.epoch, log.header.group)).or_default().push(log);
    }
    let taken = groups.into_iter().map(|((_, name), logs)| match name {
        GroupName::Decode => group::take_again::<Decode>(group::complete(logs)?),
        GroupName::Prefill => group::take_again::<Prefill>(group::complete(logs)?),
    });
    taken.collect()
}
