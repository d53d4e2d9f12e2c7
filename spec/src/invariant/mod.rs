//! The properties, each in one file: its sentence, its source, what it does not cover, and its check as a plain function. The checker
//! calls them in every state it reaches; the runtime calls its own rank's part after every decision, in production too.

pub mod admission_fair;
pub mod agreed_equal;
pub mod ends;
pub mod epoch_fenced;
pub mod handshake_sound;
pub mod kv_before_run;
pub mod matched;
pub mod no_fault;
pub mod no_skip;
pub mod no_stuck;
pub mod no_write_after_free;
pub mod pages_sound;
pub mod start_sound;
pub mod token_exact;
pub mod vote_fresh;

use crate::configuration::GroupConfiguration;
use crate::fault::Fault;
use crate::role::Decision;
use crate::table::{Occupant, State};

/// A property, as documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Property {
    /// Name by which runs, reports and faults refer to it.
    pub id: &'static str,
    /// What holds.
    pub sentence: &'static str,
    /// Where the demand comes from.
    pub source: &'static str,
    /// What it does not say.
    pub not_covered: &'static str,
}

/// All properties, in the order in which reports list them.
pub const ALL: [Property; 15] = [
    matched::PROPERTY,
    no_skip::PROPERTY,
    no_stuck::PROPERTY,
    agreed_equal::PROPERTY,
    vote_fresh::PROPERTY,
    kv_before_run::PROPERTY,
    pages_sound::PROPERTY,
    no_write_after_free::PROPERTY,
    no_fault::PROPERTY,
    ends::PROPERTY,
    admission_fair::PROPERTY,
    token_exact::PROPERTY,
    epoch_fenced::PROPERTY,
    start_sound::PROPERTY,
    handshake_sound::PROPERTY,
];

/// Checks what one rank can check of a decision.
///
/// # Errors
/// [`Fault::Invariant`] with the property's id.
pub fn check_decision<O: Occupant, A>(
    configuration: &GroupConfiguration,
    before: &State<O>,
    decision: &Decision<O, A>,
) -> Result<(), Fault> {
    let checks = [
        (pages_sound::PROPERTY.id, pages_sound::holds(configuration, &decision.state)),
        (no_write_after_free::PROPERTY.id, no_write_after_free::holds_for_flights(&decision.state)),
        (vote_fresh::PROPERTY.id, vote_fresh::holds(before, &decision.applied)),
    ];
    checks.into_iter().find(|(_, holds)| !holds).map_or(Ok(()), |(id, _)| Err(Fault::Invariant(id)))
}

/// The property that a fault violates, where no broken part excuses it.
#[must_use]
pub fn violated_by(fault: &Fault) -> &'static str {
    match fault {
        Fault::Invariant(id) => id,
        Fault::KvNotWhole(_) | Fault::NotListed(_) => kv_before_run::PROPERTY.id,
        Fault::Diverged(_) => agreed_equal::PROPERTY.id,
        Fault::WrongCompletion { .. } | Fault::Unasked(_) | Fault::WrongShape { .. } => matched::PROPERTY.id,
        Fault::ImpossiblePoll(_) => vote_fresh::PROPERTY.id,
        Fault::Raised
        | Fault::NoRoom
        | Fault::BadBrief(_)
        | Fault::VerdictsMissing(_)
        | Fault::RetiredAhead(_)
        | Fault::UnexpectedRetirement(_)
        | Fault::CopiedAhead(_)
        | Fault::UnexpectedCopy(_) => no_fault::PROPERTY.id,
    }
}
