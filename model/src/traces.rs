//! The traces that ranks write when they go a way through a model: what `validate` reads, written from the other side. With them the
//! runtime's loop is led along any way that was explored.

use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::ids::RankIndex;
use lockstep_spec::machine::{Fact, Local, RankMachine};
use lockstep_spec::program::{Effect, Event, RankProgram};
use lockstep_spec::role::Role;
use lockstep_spec::ticket::Site;
use lockstep_spec::trace::{Closing, FORMAT, GroupName, Header, Line};
use serde::Serialize;

type FactOf<R> = Fact<<R as Role>::Arrival, <R as Role>::Fact>;
type LineOf<R> = Line<FactOf<R>, Local<<R as Role>::Effect>>;

/// The first line of a rank's trace.
#[must_use]
pub fn opened<R: Role>(group: GroupName, configuration: &GroupConfiguration, rank: usize) -> String {
    let header = Header {
        format: FORMAT,
        group,
        rank: RankIndex(u32::try_from(rank).unwrap_or(u32::MAX)),
        configuration: configuration.clone(),
        protocol: lockstep_spec::FINGERPRINT.to_owned(),
    };
    json(&LineOf::<R>::Opened(header))
}

/// The lines that a rank writes when `event` happens to it: the event, and what it does then. A rank that leaves writes that it
/// has; of one that faults, no more is written here.
#[must_use]
pub fn performed<R: Role>(machine: &RankMachine<R>, event: Event<FactOf<R>, Site>) -> String {
    let mut effects = Vec::new();
    machine.clone().step(event.clone(), &mut effects);
    let line = |effect| match effect {
        Effect::Enter(entry) => Some(LineOf::<R>::Entered(lockstep_spec::agreed::Entry::into(entry))),
        Effect::Local(local) => Some(LineOf::<R>::Did(local)),
        Effect::Leave => Some(Line::Closed(Closing::Left)),
        Effect::Fault(_) => None,
    };
    std::iter::once(Line::Took(event))
        .chain(effects.into_iter().filter_map(line))
        .map(|line| json(&line))
        .collect()
}

/// The line, with its end. Nothing that ranks write can fail to be JSON: no maps, no foreign types.
fn json(line: &impl Serialize) -> String {
    serde_json::to_string(line).map_or_else(|_| String::new(), |line| line + "\n")
}
