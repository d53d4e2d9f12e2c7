//! The rank loop led along a written trace: what reaches it, when a round is due and what comes out of its collectives is read from the
//! trace, and what it does is held against it. So every way that the checker has explored can be gone by the loop that is deployed.
//!
//! ```text
//!  trace ──▶ Script ──┬─ inputs, ticks, bells, outcomes ──▶ Driver
//!                     └◀── events, entries, deeds ──────────┘
//! ```
//! The loop, its machine, its queue of inputs and its record are the real ones; pace, collectives, device and the role's hands are scripted.
//!
//! What is left out: what hands make of an input (a fact of a leg comes in as the input that says it), and how a rank learns that a peer
//! died. A rank that ends so, or is killed, has a trace that goes no further, and the loop is led to its last line, be it in a collective.
//!
//! Reading order: [`rehearse`], `roles` (how facts come in), `script` (what is read, and what is held against it), `acted` (who acts it).

mod acted;
mod roles;
mod script;

use self::acted::{Absent, Scripted};
use self::roles::Rehearsed;
use self::script::{Script, Step};
use super::device;
use super::driver::{Driver, Front, Surroundings};
use super::hands::FactOf;
use super::inputs::Inputs;
use super::recorder::Recorder;
use crate::wire::RankEnd;
use lockstep_spec::decode::Decode;
use lockstep_spec::machine::{Fact, RankMachine};
use lockstep_spec::prefill::Prefill;
use lockstep_spec::program::Event;
use lockstep_spec::role::Role;
use lockstep_spec::trace::{Closing, GroupName, Header, Line};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// How the loop left its trace, or why it could not be led along it.
#[derive(Debug, thiserror::Error)]
pub enum Departure {
    /// The loop did something else than the trace says.
    #[error("line {line}: the trace says {expected}, and the rank {happened}")]
    Differs {
        /// Number of the line, from 1.
        line: usize,
        /// What the trace says.
        expected: String,
        /// What the rank did.
        happened: String,
    },
    /// The trace is of another protocol.
    #[error(
        "the trace is of the protocol {theirs}, and this build's is {}; write it anew",
        lockstep_spec::FINGERPRINT
    )]
    OtherProtocol {
        /// The protocol's fingerprint.
        theirs: String,
    },
    /// A line is not one of a trace.
    #[error("line {line} of the trace: {why}")]
    Unreadable {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The loop could not be set up.
    #[error("the rehearsal does not begin: {0}")]
    Unprepared(String),
}

/// Leads a rank's loop along `trace`, from its first round to the trace's end, and returns the number of its rounds.
///
/// # Errors
/// [`Departure`], at the first line that the loop does not keep to.
pub fn rehearse(trace: &str) -> Result<u64, Departure> {
    let first = trace.lines().next().unwrap_or_default();
    let header = match parsed::<Decode>(first, 1)? {
        Line::Opened(header) => header,
        Line::Skipped(_)
        | Line::Seen(_)
        | Line::Received
        | Line::Drained
        | Line::Took(_)
        | Line::Entered(_)
        | Line::Did(_)
        | Line::Closed(_) => {
            let why = "it must say whose trace it is: the trace must be whole".to_owned();
            return Err(Departure::Unreadable { line: 1, why });
        }
    };
    if header.protocol != lockstep_spec::FINGERPRINT {
        return Err(Departure::OtherProtocol { theirs: header.protocol });
    }
    match header.group {
        GroupName::Decode => lead::<Decode>(header, trace),
        GroupName::Prefill => lead::<Prefill>(header, trace),
    }
}

/// A line with facts of role `R`; deeds are compared as they are written.
type LineOf<R> = Line<FactOf<R>, Value>;

fn parsed<R: Role>(text: &str, line: usize) -> Result<LineOf<R>, Departure> {
    serde_json::from_str(text).map_err(|error| Departure::Unreadable { line, why: error.to_string() })
}

fn lead<R: Rehearsed>(header: Header, trace: &str) -> Result<u64, Departure> {
    let unprepared = |error: &dyn std::fmt::Display| Departure::Unprepared(error.to_string());
    let Header { rank, configuration, .. } = header;
    let (pages, size) = (configuration.pages, configuration.ranks as usize);
    let machine = RankMachine::<R>::new(Arc::new(configuration), rank).map_err(|error| unprepared(&error))?;
    let recorder: Arc<Recorder> = Arc::default();
    let (inbox, inputs) = Inputs::new(&recorder);
    let (device, commands) = device::queue(pages, 1);
    // Nobody listens: the loop is never due to report.
    let (line, _front_end) = UnixStream::pair().map_err(|error| unprepared(&error))?;
    let front = Front::new(RankEnd::of(line).map_err(|error| unprepared(&error))?.sender);
    let script = Scripted::new(Script::new(steps(trace)?, inbox, recorder, commands));
    let control = Absent { script: script.clone(), rank: rank.0 as usize, size };
    let votes = Box::new(script.clone());
    let surroundings = Surroundings { control, pace: script.clone(), votes, device, inputs, front };
    let lived = Driver::new(machine, script.clone(), surroundings).run();
    script.read(|script| script.verdict(&lived))
}

/// What the loop is to do, of all that a trace says, and whether it leaves then.
fn steps<R: Role>(trace: &str) -> Result<(Vec<Step<R>>, bool), Departure> {
    let (mut steps, mut leaves) = (Vec::new(), false);
    // Whether the line before is something that hands did, or were told for it.
    let mut answers = false;
    for (number, text) in (1..).zip(trace.lines()) {
        let line = parsed::<R>(text, number)?;
        let at_once = answers && matches!(&line, Line::Took(Event::Fact(fact)) if *fact != Fact::Tick);
        answers = at_once || matches!(&line, Line::Did(deed) if deed.get("Role").is_some());
        match line {
            Line::Took(_) | Line::Entered(_) | Line::Did(_) => {
                steps.push(Step { number, text: text.to_owned(), line, at_once });
            }
            Line::Closed(closing) => leaves = closing == Closing::Left,
            Line::Opened(_) | Line::Seen(_) | Line::Received | Line::Drained => {}
            Line::Skipped(_) => {
                let why = "lines are left out here: the trace must be whole".to_owned();
                return Err(Departure::Unreadable { line: number, why });
            }
        }
    }
    Ok((steps, leaves))
}
