//! What the runs of the prefill group should reach.

use crate::coverage::Points;
use crate::explore::Notes;
use crate::prefill::PrefillFact;
use crate::world::Standing;
use lockstep_spec::machine::{Fact, Local};
use lockstep_spec::prefill::PrefillMachine;
use lockstep_spec::prefill::action::{Action, Do};
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::{LegOutcome, LegPhase, LegTenant};
use lockstep_spec::prefill::rules::Rules;
use lockstep_spec::role::Decision;
use lockstep_spec::table::{Slot, State};

/// Indices of [`POINTS`]' phases.
const FREE: usize = 0;
const WAITING: usize = 1;
const RUNNING: usize = 2;
const INFLIGHT: usize = 3;
const DRAINING: usize = 4;

/// The points.
pub const POINTS: Points = Points {
    role: "prefill",
    facts: &[
        "Retired",
        "Submitted",
        "AbortWanted",
        "PauseWanted",
        "ShutdownWanted",
        "Broken",
        "Tick",
        "Copied",
        "Listed",
        "Revoked",
        "Written",
        "WriteFailed",
    ],
    phases: &["free", "Waiting", "Running", "Inflight", "Draining"],
    arcs: &[
        (FREE, WAITING),
        (WAITING, RUNNING),
        (WAITING, FREE),
        (RUNNING, INFLIGHT),
        (RUNNING, DRAINING),
        (RUNNING, FREE),
        (INFLIGHT, DRAINING),
        (INFLIGHT, FREE),
        (DRAINING, FREE),
    ],
    excused: &[
        ("outcome Aborted", DECODE_ALONE),
        ("outcome Admitted", DECODE_ALONE),
        ("outcome AdmissionYieldsToGrowth", DECODE_ALONE),
        ("outcome AdmissionYieldsToResume", DECODE_ALONE),
        ("outcome FinishedByStop", DECODE_ALONE),
        ("outcome FinishedByLength", DECODE_ALONE),
        ("outcome FirstToken", DECODE_ALONE),
        ("outcome Grew", DECODE_ALONE),
        ("outcome GrowthWaitsForPromised", DECODE_ALONE),
        ("outcome GrowthWaitsAlone", DECODE_ALONE),
        ("outcome HandshakeAgreed", DECODE_ALONE),
        ("outcome ResumeLacksPages", DECODE_ALONE),
        ("outcome PlanOmitsLacking", DECODE_ALONE),
        ("outcome PlanOmitsUnfenced", DECODE_ALONE),
        ("outcome Resumed", DECODE_ALONE),
        ("outcome Retracted", DECODE_ALONE),
        ("outcome Restored", DECODE_ALONE),
        ("outcome Stored", DECODE_ALONE),
        ("outcome RetractionReleased", DECODE_ALONE),
        ("failure Corrupt", DECODE_ALONE),
        ("failure WrongLeg", DECODE_ALONE),
        ("failure HandshakeFailed", DECODE_ALONE),
        ("failure FirstTokenDiffers", DECODE_ALONE),
        ("fact AbortWanted", "legs are given up by their decode ranks, not by the front end"),
        ("fact Broken", "a rank that breaks ends the epoch, which no run goes beyond"),
    ],
};

const DECODE_ALONE: &str = "of the decode group alone";

/// Notes the kind of a fact.
pub(crate) fn note_fact(fact: &PrefillFact, notes: &mut Notes) {
    let kind = match fact {
        Fact::Retired { .. } => 0,
        Fact::Submitted(_) => 1,
        Fact::AbortWanted(_) => 2,
        Fact::PauseWanted(_) => 3,
        Fact::ShutdownWanted => 4,
        Fact::Broken => 5,
        Fact::Tick => 6,
        Fact::Copied(_) => 7,
        Fact::Role((_, WriteFact::Listed)) => 8,
        Fact::Role((_, WriteFact::Revoked)) => 9,
        Fact::Role((_, WriteFact::Written)) => 10,
        Fact::Role((_, WriteFact::WriteFailed)) => 11,
    };
    Points::note_fact(kind, notes);
}

/// Where each slot's occupant stands.
pub(crate) fn standings<R: Rules>(rank: &PrefillMachine<R>) -> Vec<Standing> {
    rank.state().value().slots.iter().map(standing).collect()
}

/// Notes a decision that was taken without ranks.
pub(crate) fn note_agreed(
    before: &State<LegTenant>,
    decision: &Decision<LegTenant, Action>,
    notes: &mut Notes,
) {
    let standings = |state: &State<LegTenant>| state.slots.iter().map(standing).collect::<Vec<_>>();
    decision.reasons.iter().for_each(|why| Points::note_why(*why, notes));
    POINTS.note_arcs(&standings(before), &standings(&decision.state), notes);
    for action in &decision.actions {
        if let Action::End { outcome: LegOutcome::Failed(failure), .. } = action {
            Points::note_failure(*failure, notes);
        }
    }
}

fn standing(slot: &Slot<LegTenant>) -> Standing {
    let phase = match slot.occupant.as_ref().map(|tenant| tenant.phase) {
        None => FREE,
        Some(LegPhase::Waiting) => WAITING,
        Some(LegPhase::Running) => RUNNING,
        Some(LegPhase::Inflight) => INFLIGHT,
        Some(LegPhase::Draining(_)) => DRAINING,
    };
    Standing { generation: slot.generation.0, phase }
}

/// Notes a decision: why, from where to where, and how legs failed.
pub(crate) fn note_decision<R: Rules>(
    before: &[Standing],
    rank: &PrefillMachine<R>,
    locals: &[Local<Do>],
    notes: &mut Notes,
) {
    for local in locals {
        match local {
            Local::Decided(whys) => {
                whys.iter().for_each(|why| Points::note_why(*why, notes));
                POINTS.note_arcs(before, &standings(rank), notes);
            }
            Local::Role(Do::Fail { outcome: LegOutcome::Failed(failure), .. }) => {
                Points::note_failure(*failure, notes);
            }
            Local::Launch { .. } | Local::Role(_) => {}
        }
    }
}
