//! What may happen to a conventional rank: whatever its rules could read, and no more.

use crate::conventional::fact::Fact;
use crate::conventional::rank::{Address, ConventionalRank};
use crate::conventional::request::{HostCopy, MetadataRow, Phase, Request};
use crate::conventional::rules::{DrainEntry, Release, RowCheck, Sampling, Switch, Word};
use crate::conventional::surroundings::ConventionalSetting;

/// Facts that may reach a rank now.
pub(super) fn facts(setting: &ConventionalSetting, rank: &ConventionalRank, facts: &mut Vec<Fact>) {
    words(rank, facts);
    if rank.page_late {
        facts.push(Fact::PageFreed);
    }
    if rank.address == Address::Missing {
        facts.push(Fact::AddressResolved);
    }
    for (index, request) in rank.requests.iter().enumerate().filter(|(_, request)| !request.failed) {
        progress(rank, index, request, facts);
    }
    mishaps(rank, facts);
    if setting.receivers_fail {
        failures(rank, facts);
    }
}

/// What the front end may say: to all ranks what each acts on by itself, the rest to rank 0.
fn words(rank: &ConventionalRank, facts: &mut Vec<Fact>) {
    let rules = rank.rules();
    let hears = |word: Word| word == Word::AsHeard || (word == Word::Broadcast && rank.leads());
    if rank.leads() && rank.heard.arrived < rank.requests.len() {
        facts.push(Fact::Arrived);
    }
    if hears(rules.aborts) && !rank.heard.abort && rank.requests.iter().any(|request| request.phase.waits()) {
        facts.push(Fact::AbortHeard);
    }
    if hears(rules.pause) {
        facts.push(if rank.heard.pause { Fact::ResumeHeard } else { Fact::PauseHeard });
    }
    if rules.switch != Switch::Unasked && rank.leads() && !rank.heard.switch && !rank.switched {
        facts.push(Fact::SwitchAsked);
    }
}

/// How a request comes further.
fn progress(rank: &ConventionalRank, index: usize, request: &Request, facts: &mut Vec<Fact>) {
    if request.phase == Phase::Handshaking && rank.address != Address::Missing && !request.shaken {
        facts.push(Fact::HandshakeDone(index));
    }
    if request.phase == Phase::Transferring && !request.kv {
        facts.push(Fact::KvLanded(index));
    }
    if request.phase == Phase::Transferring && rank.rules().row_apart() && request.row == MetadataRow::Missing
    {
        facts.extend(rows(rank).map(|row| Fact::RowLanded(index, row)));
    }
    if request.writing && request.phase != Phase::Transferring {
        facts.push(Fact::Fenced(index));
    }
    if request.copy == HostCopy::Writing {
        facts.push(Fact::CopyDone(index));
    }
}

/// The rows that may land.
fn rows(rank: &ConventionalRank) -> impl Iterator<Item = MetadataRow> {
    let rules = rank.rules();
    let possible = [
        (true, MetadataRow::Sound),
        (rules.room != RowCheck::Unneeded, MetadataRow::OtherRoom),
        (rules.checksum != RowCheck::Unneeded, MetadataRow::Corrupt),
    ];
    possible.into_iter().filter(|(possible, _)| *possible).map(|(_, row)| row)
}

/// What goes wrong on one rank alone, where the rules have an answer to it.
fn mishaps(rank: &ConventionalRank, facts: &mut Vec<Fact>) {
    let rules = rank.rules();
    let runs = rank.requests.iter().any(|request| request.phase == Phase::Running);
    if rules.sampling != Sampling::OneToken && runs && !rank.drifted {
        facts.push(Fact::LogitsDiffer);
    }
    if rules.drain != DrainEntry::Absent && !rank.cache.host_full {
        facts.push(Fact::HostFull);
    }
    if rules.release != Release::Certain && runs && !rank.throws {
        facts.push(Fact::ReleaseThrows);
    }
}

/// How a receiver fails, unless it has already.
fn failures(rank: &ConventionalRank, facts: &mut Vec<Fact>) {
    let sound = |request: &Request| !request.failed;
    let mut requests = rank.requests.iter();
    let unresolved = requests.any(|request| request.phase == Phase::Handshaking && sound(request));
    if rank.address == Address::Missing && unresolved {
        facts.push(Fact::RetriesExhausted);
    }
    let waiting = |(_, request): &(usize, &Request)| request.phase.waits() && sound(request);
    let late = rank.requests.iter().enumerate().filter(waiting);
    facts.extend(late.map(|(index, _)| Fact::TimedOut(index)));
}

/// Whether a fact neither aborts, nor fails, nor adds work.
pub(super) fn benign(fact: &Fact) -> bool {
    match fact {
        Fact::RowLanded(_, row) => *row == MetadataRow::Sound,
        Fact::Arrived
        | Fact::AbortHeard
        | Fact::PauseHeard
        | Fact::SwitchAsked
        | Fact::RetriesExhausted
        | Fact::TimedOut(_)
        | Fact::LogitsDiffer
        | Fact::HostFull
        | Fact::ReleaseThrows => false,
        Fact::AddressResolved
        | Fact::ResumeHeard
        | Fact::HandshakeDone(_)
        | Fact::PageFreed
        | Fact::KvLanded(_)
        | Fact::Fenced(_)
        | Fact::Retired
        | Fact::CopyDone(_) => true,
    }
}
