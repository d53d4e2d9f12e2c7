//! All ranks of a group at once: each trace goes on as far as it can without the others.

use crate::rendezvous::{Control, Device};
use crate::validate::Verdict;
use crate::validate::log::{Log, LogError};
use crate::validate::rank::{Meeting, Rank, Step};
use crate::validate::report::{Divergence, Report};
use crate::validate::surroundings::Judged;

/// Checks that there is one trace of each rank and that all are of one configuration; brings them into the order of ranks. A trace that is
/// not there may be one that could not be read.
///
/// # Errors
/// What is missing, or there twice, or differs.
pub fn complete(mut logs: Vec<Log>, some_unread: bool) -> Result<Vec<Log>, LogError> {
    logs.sort_by_key(|log| log.header.rank);
    let Some(first) = logs.first() else { return Ok(logs) };
    let header = &first.header;
    let whose = format!("{} {}", header.group, header.configuration.epoch);
    for pair in logs.windows(2) {
        if pair[0].header.rank == pair[1].header.rank {
            let (rank, paths) =
                (pair[0].header.rank.0, [&pair[0].path, &pair[1].path].map(|path| path.display()));
            let why = format!("rank {rank} of {whose} is there twice: {} and {}", paths[0], paths[1]);
            return Err(LogError::Incomplete(why));
        }
    }
    if let Some(other) = logs.iter().find(|log| log.header.configuration != header.configuration) {
        let (first, other) = (first.path.display(), other.path.display());
        let why =
            format!("{first} and {other} are of {whose} with different configurations: two runs are mixed");
        return Err(LogError::Incomplete(why));
    }
    let there = |rank: &u32| logs.iter().any(|log| log.header.rank.0 == *rank);
    let ranks = header.configuration.ranks;
    match (0..ranks).find(|rank| !there(rank)) {
        Some(missing) if some_unread => Err(LogError::Incomplete(format!(
            "{whose} is not judged: the trace of rank {missing} is a file that could not be read, or is not named; all {ranks} ranks' are needed"
        ))),
        Some(missing) => Err(LogError::Incomplete(format!(
            "the trace of rank {missing} of {whose} is missing: name the traces of all {ranks} ranks"
        ))),
        None => Ok(logs),
    }
}

/// Takes the traces of a whole group again.
///
/// # Errors
/// A line that is not what a rank writes.
pub fn take_again<R: Judged>(logs: Vec<Log>) -> Result<Verdict, LogError> {
    let ranks: Result<Vec<Rank<R>>, LogError> = logs.into_iter().map(Rank::new).collect();
    let ranks = ranks?;
    let (control, device) = (Control::new(ranks.len()), Device::new(ranks.len()));
    Group { ranks, meeting: Meeting { control, device } }.take_again()
}

struct Group<R: Judged> {
    ranks: Vec<Rank<R>>,
    meeting: Meeting,
}

impl<R: Judged> Group<R> {
    fn take_again(mut self) -> Result<Verdict, LogError> {
        loop {
            let before = self.lines();
            let mut waits = None;
            for index in 0..self.ranks.len() {
                match self.ranks[index].advance(&mut self.meeting)? {
                    None | Some(Step::Taken) => {}
                    Some(Step::Waits(why)) => waits = waits.or(Some((index, why))),
                    Some(Step::Leaves(why)) => return Ok(Verdict::Diverges(self.divergence(index, why))),
                }
            }
            self.meeting.device.rebase(&mut |_| {});
            match waits {
                None => return Ok(Verdict::Valid(self.report())),
                Some((index, why)) if self.lines() == before => {
                    let what = self.waits_for_ever(index, why);
                    return Ok(Verdict::Diverges(self.divergence(index, what)));
                }
                Some(_) => {}
            }
        }
    }

    fn lines(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.log.line).sum()
    }

    /// What a line that waits for other ranks' traces is, when those have ended: which of them ends too early.
    fn waits_for_ever(&self, index: usize, why: &str) -> String {
        let others = || self.ranks.iter().enumerate().filter(|(rank, _)| *rank != index);
        let without = |(rank, _): &(usize, &Rank<R>)| !self.meeting.control.has_entered(*rank);
        let some_without = others().any(|other| without(&other));
        let early = others().filter(|other| !some_without || without(other));
        let early: Vec<String> = early
            .map(|(rank, other)| {
                format!("{} (rank {rank}) after line {}", other.log.path.display(), other.log.line)
            })
            .collect();
        let (early, ends) = (early.join(", "), if early.len() == 1 { "ends" } else { "end" });
        format!(
            "here the rank goes on from its wait {why}; {early} {ends} before that: either what was written is cut off, or the rank went on \
             without the others"
        )
    }

    fn divergence(&self, index: usize, happened: String) -> Divergence {
        let rank = &self.ranks[index];
        let header = &rank.log.header;
        Divergence {
            group: header.group,
            epoch: header.configuration.epoch,
            rank: index,
            round: rank.machine.round().0,
            path: rank.log.path.clone(),
            line: rank.log.line,
            happened,
            allowed: rank.allowed(),
        }
    }

    fn report(&self) -> Report {
        let header = &self.ranks[0].log.header;
        Report {
            group: header.group,
            epoch: header.configuration.epoch,
            rounds: self.ranks.iter().map(|rank| rank.machine.round().0).min().unwrap_or(0),
            lines: self.lines(),
            endings: self.ranks.iter().map(|rank| rank.closing.clone()).collect(),
        }
    }
}
