//! What the runs of the decode group should reach.

use crate::coverage::Points;
use crate::decode::DecodeFact;
use crate::explore::Notes;
use crate::world::Standing;
use lockstep_spec::decode::DecodeMachine;
use lockstep_spec::decode::action::{Action, Do};
use lockstep_spec::decode::evidence::LegFact;
use lockstep_spec::decode::phase::{Outcome, Phase, Tenant};
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::machine::{Fact, Local};
use lockstep_spec::role::Decision;
use lockstep_spec::table::{Slot, State};

/// Indices of [`POINTS`]' phases.
const FREE: usize = 0;
const BOOTSTRAPPING: usize = 1;
const HANDSHAKEN: usize = 2;
const TRANSFERRING: usize = 3;
const READY: usize = 4;
const RUNNING: usize = 5;
const RETRACTING: usize = 6;
const RETRACTED: usize = 7;
const STORED: usize = 8;
const RESTORING: usize = 9;
const DRAINING: usize = 10;

/// The points.
pub const POINTS: Points = Points {
    role: "decode",
    facts: &[
        "Retired",
        "Submitted",
        "AbortWanted",
        "PauseWanted",
        "ShutdownWanted",
        "Broken",
        "Tick",
        "Copied",
        "HandshakeDone",
        "HandshakeFailed",
        "Published",
        "PagesLanded",
        "RowLanded",
        "TransferFailed",
        "Fenced",
    ],
    phases: &[
        "free",
        "Bootstrapping",
        "Handshaken",
        "Transferring",
        "Ready",
        "Running",
        "Retracting",
        "Retracted",
        "Stored",
        "Restoring",
        "Draining",
    ],
    // One decision may take an occupant through several phases: whose handshake is agreed may be admitted at once, who has just become
    // ready may be the victim, and who holds nothing that may still be written leaves the table as it ends.
    arcs: &[
        (FREE, BOOTSTRAPPING),
        (BOOTSTRAPPING, HANDSHAKEN),
        (BOOTSTRAPPING, TRANSFERRING),
        (BOOTSTRAPPING, FREE),
        (HANDSHAKEN, TRANSFERRING),
        (HANDSHAKEN, FREE),
        (TRANSFERRING, READY),
        (TRANSFERRING, RETRACTING),
        (TRANSFERRING, DRAINING),
        (READY, RUNNING),
        (READY, RETRACTING),
        (READY, DRAINING),
        (READY, FREE),
        (RUNNING, RETRACTING),
        (RUNNING, DRAINING),
        (RUNNING, FREE),
        (RETRACTING, RETRACTED),
        (RETRACTING, DRAINING),
        (RETRACTING, FREE),
        (RETRACTED, TRANSFERRING),
        (RETRACTED, FREE),
        (RETRACTING, STORED),
        (RETRACTING, RESTORING),
        (STORED, RESTORING),
        (STORED, FREE),
        (RESTORING, READY),
        (RESTORING, RUNNING),
        (RESTORING, RETRACTING),
        (RESTORING, DRAINING),
        (RESTORING, FREE),
        (DRAINING, FREE),
    ],
    excused: &[
        ("outcome BlockEvicted", PREFILL_ALONE),
        ("outcome BlockForgotten", PREFILL_ALONE),
        ("outcome BlockKept", PREFILL_ALONE),
        ("outcome BlockStored", PREFILL_ALONE),
        ("outcome BlockLoaded", PREFILL_ALONE),
        ("outcome ChunkComputed", PREFILL_ALONE),
        ("outcome LegWritten", PREFILL_ALONE),
        ("outcome PlanFull", PREFILL_ALONE),
        ("outcome PlanOmitsLoading", PREFILL_ALONE),
        ("outcome PrefixMatched", PREFILL_ALONE),
        ("failure Revoked", PREFILL_ALONE),
        ("failure NeverFits", "a request that could never run is refused at the door and takes no slot"),
        ("fact Broken", "a rank that breaks ends the epoch, which no run goes beyond"),
    ],
};

const PREFILL_ALONE: &str = "of the prefill group alone";

/// Notes the kind of a fact.
pub(crate) fn note_fact(fact: &DecodeFact, notes: &mut Notes) {
    let kind = match fact {
        Fact::Retired { .. } => 0,
        Fact::Submitted(_) => 1,
        Fact::AbortWanted(_) => 2,
        Fact::PauseWanted(_) => 3,
        Fact::ShutdownWanted => 4,
        Fact::Broken => 5,
        Fact::Tick => 6,
        Fact::Copied(_) => 7,
        Fact::Role((_, LegFact::HandshakeDone)) => 8,
        Fact::Role((_, LegFact::HandshakeFailed)) => 9,
        Fact::Role((_, LegFact::Published)) => 10,
        Fact::Role((_, LegFact::PagesLanded)) => 11,
        Fact::Role((_, LegFact::RowLanded(_))) => 12,
        Fact::Role((_, LegFact::TransferFailed)) => 13,
        Fact::Role((_, LegFact::Fenced)) => 14,
    };
    Points::note_fact(kind, notes);
}

/// Where each slot's occupant stands.
pub(crate) fn standings<R: Rules>(rank: &DecodeMachine<R>) -> Vec<Standing> {
    standings_in(rank.state().value())
}

fn standings_in(state: &State<Tenant>) -> Vec<Standing> {
    state.slots.iter().map(standing).collect()
}

/// Notes a decision that was taken without ranks.
pub(crate) fn note_agreed(before: &State<Tenant>, decision: &Decision<Tenant, Action>, notes: &mut Notes) {
    decision.reasons.iter().for_each(|why| Points::note_why(*why, notes));
    POINTS.note_arcs(&standings_in(before), &standings_in(&decision.state), notes);
    for action in &decision.actions {
        if let Action::End { outcome: Outcome::Failed(failure), .. } = action {
            Points::note_failure(*failure, notes);
        }
    }
}

fn standing(slot: &Slot<Tenant>) -> Standing {
    let phase = match slot.occupant.as_ref().map(|tenant| tenant.phase) {
        None => FREE,
        Some(Phase::Bootstrapping) => BOOTSTRAPPING,
        Some(Phase::Handshaken) => HANDSHAKEN,
        Some(Phase::Transferring) => TRANSFERRING,
        Some(Phase::Ready) => READY,
        Some(Phase::Running) => RUNNING,
        Some(Phase::Retracting) => RETRACTING,
        Some(Phase::Retracted) => RETRACTED,
        Some(Phase::Stored) => STORED,
        Some(Phase::Restoring) => RESTORING,
        Some(Phase::Draining(_)) => DRAINING,
    };
    Standing { generation: slot.generation.0, phase }
}

/// Notes a decision: why, and from where to where. Failures are told by the leader.
pub(crate) fn note_decision<R: Rules>(
    before: &[Standing],
    rank: &DecodeMachine<R>,
    locals: &[Local<Do>],
    notes: &mut Notes,
) {
    for local in locals {
        match local {
            Local::Decided(whys) => {
                whys.iter().for_each(|why| Points::note_why(*why, notes));
                POINTS.note_arcs(before, &standings(rank), notes);
            }
            Local::Role(Do::End { outcome: Outcome::Failed(failure), .. }) => {
                Points::note_failure(*failure, notes);
            }
            Local::Launch { .. } | Local::Role(_) => {}
        }
    }
}
