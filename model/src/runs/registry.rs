//! The list of runs, and what is said around them.

mod agreed;
mod conventional;
mod decode;
mod epochs;
mod handshake;
mod prefill;
mod start;
mod two_groups;

use super::listing::Registry;
use super::run::{Mode, PropertyDoc, Ranks, Tier};
use lockstep_spec::invariant::{self, Property};

/// Every run of the checker.
#[must_use]
pub fn registry() -> Registry {
    let mut runs = decode::proofs();
    runs.extend(prefill::proofs());
    runs.extend(agreed::proofs());
    runs.extend(epochs::proofs());
    runs.extend(two_groups::proofs());
    runs.extend(start::proofs());
    runs.extend(handshake::proofs());
    runs.extend(conventional::hazards());
    runs.extend(epochs::hazards());
    runs.extend(two_groups::hazards());
    runs.extend(start::hazards());
    runs.extend(decode::mutants());
    runs.extend(prefill::mutants());
    runs.extend(agreed::mutants());
    runs.extend(epochs::mutants());
    runs.extend(two_groups::mutants());
    runs.extend(start::mutants());
    runs.extend(handshake::mutants());
    Registry {
        runs,
        properties: invariant::ALL.iter().map(document).collect(),
        not_covered: NOT_COVERED.to_vec(),
        unbroken: UNBROKEN.to_vec(),
        spec_fingerprint: lockstep_spec::FINGERPRINT.to_owned(),
    }
}

fn document(property: &Property) -> PropertyDoc {
    let Property { id, sentence, source, not_covered } = *property;
    PropertyDoc { id, sentence, source, not_covered }
}

/// Both loops, with votes between the hosts.
const LOOPS: [Mode; 2] = [Mode::Normal, Mode::Overlap];

/// What takes minutes goes with each pull request in the loop that serves by default, and each night in the other.
fn tier_in(mode: Mode, tier: Tier) -> Tier {
    match (mode, tier) {
        (Mode::Normal, Tier::Pr) => Tier::Nightly,
        (Mode::Normal | Mode::Overlap | Mode::Stream, tier) => tier,
    }
}

fn ranks(ranks: u32) -> Ranks {
    match ranks {
        1 => Ranks::One,
        2 => Ranks::Two,
        _ => Ranks::More,
    }
}

/// Joins the parts of a name; runs live as long as the program.
fn name(parts: &[&str]) -> &'static str {
    Box::leak(parts.join("-").into_boxed_str())
}

/// Methods of spec's `Rules` by role and name, and rules that are no method.
const UNBROKEN: [(&str, &str); 9] = [
    (
        "decode: may_resume",
        "a running request lacks one page at most, and then none is free to resume with; `agreed-control-resumes-ahead-of-growth`",
    ),
    ("decode: transfer_brings_token", "another design, not a fault; `agreed-control-from-copy`"),
    (
        "copies are taken in behind retirements",
        "whoever has a forward in flight has no copy on its way back; a test compares each step of both orders",
    ),
    (
        "aborts come behind copies",
        "who is aborted ends, whether or not its copy has just come back; a test compares each step of both orders",
    ),
    (
        "the plan is made behind admissions",
        "it reads requests that run and the pages that they hold, which no admission touches; a test compares each step of both orders",
    ),
    (
        "the vote's epoch, round, digest, configuration and fault flag",
        "honest ranks never differ in them, and no run lets a rank lie or break; spec's tests do",
    ),
    (
        "the digest of a forward's tokens",
        "the explored devices sample the same; spec's tests let them differ",
    ),
    (
        "a whole receipt stays whole",
        "the explored fabric is silent once all is written; spec's tests are not",
    ),
    (
        "a retraction starts a new attempt",
        "what an old attempt could still do is fenced before; that prefill takes no leg twice is the two groups' matter",
    ),
];

const NOT_COVERED: [&str; 17] = [
    "What reductions may hide: worlds move the lowest rank first between two collectives, and let all ranks take a completed collective's outcome in one step. Both are compared with what they stand for at 2 × 1: all interleavings, and completions rank by rank. Runs named `symmetric` take ranks that do not lead as interchangeable, which is compared at 3 × 1; those named `bundled` let a transfer land in the step that publishes it, which is compared at 3 × 1 and 2 × 2. Runs of both groups take a group's round as one step, which hides a group that dies between the decisions of two of its ranks; they have a group go round once a rank of it has taken a fact, before the other one moves, which may hide what depends on when the next request is sent and is compared at the hazards; and they forget what can change nothing any more. In all of them, what happens around a rank happens when the rank takes it, which hides what the surroundings would do by a fact that still waits to be taken.",
    "Larger tables: slots, pages, page sizes and outputs beyond those of the runs are argued. Behaviour depends on who lacks what, not on how much.",
    "The agreed level of the prefill group knows nothing of what kept pages hold, nor of shutdown; it has two legs in a brief at most, and holds legs to be fair in the order of acceptance, where one that waits for its list may be overtaken by as many as the decode group has slots.",
    "More than two words of the front end in one brief beside its verdicts and a word on pausing, and more than two that wait. Most runs have one request or one abort a round; the prefill leader is asked for one leg a round, and briefs those that wait for their lists together.",
    "Crashes of decode's front end, and what survivors of a prefill rank do until they are ended: runs let ranks of the decode group crash between any two steps, dismiss it when a rank of the prefill group has crashed, and replace either group as a whole, between rounds, under the other that lives on; what is lost on the way stands for the rest.",
    "Epochs: that every process of the last group is gone before the next forms, its grants and posted writes with it, is assumed (ranks of launchers are cut off instead, and docs/launchers.md says why that does); so is that what the front end says reaches the leader at once. Runs have two slots and two open requests at most.",
    "Stop strings. Copies on the hosts of requests that gave their pages up: beyond two ranks with two slots, across epochs, with faults other than aborts (these at one rank, with pauses and leaving, without votes in the devices' queue), and requests that go there twice but at the agreed level. Of the prefix cache: keys that collide, and two ranks with two slots each with each commit (they are explored each night).",
    "The two groups together beyond their runs: more ranks and slots, shutdown, corrupt rows; ranks of both sides that have several peers each, as three and two have; two decode deployments for one prefill; with several ranks on a side, fair cycles. Replaced groups: more than two deaths, and a prefill group that dies before decode's front end knows of the death before.",
    "Pacing: when the leader starts a round. Explored rounds follow each other at any pace, and the deployed leader starts them by the clock too, so no progress hangs on a wake-up.",
    "Transports beyond the ring in shared memory (loom explores it, up to two preemptions), the rank loop (a test leads it along every edge between states in which two ranks with one slot are between rounds, by one way each, or, where pages are copied to the hosts, along one such way in 16; along ways across epochs and of both groups; and `validate` judges its recorded runs), what its hands make of fabric and device, and of the front end all but its journal: they are tested, not explored. `validate` judges inputs, order and outcomes of collectives, each group by itself; not what fabric and device made of an effect.",
    "Votes in the devices' queue across epochs and of two groups together: runs have one group that lives. Of what breaks there with two ranks and two slots, deadlines and first tokens, and pages that are kept but in one run. The agreed level has no places, and holds for them as it does for others.",
    "Fairness with ranks, beyond runs named `fair`: more than two ranks, faults, the prefill group, votes in the devices' queue, crashes. At the agreed level it is shown with faults, for both groups.",
    "Faults in company: all at once with two ranks and one slot. With three, or with two slots, all that may break with aborts (with two slots each night); late answers, pauses and leaving with aborts alone. Two words a brief, and copies on the hosts, with what their runs say.",
    "More ranks and slots are argued, not exhausted: with two slots beyond 8 ranks without faults (each night), 4 with aborts and outputs too short for a retraction (in the normal loop), 3 with failing handshakes; with one slot and faults beyond 4 (8 with failing handshakes); with three slots, so not 4 × 3, only at the agreed level. All interleavings beyond 3 × 1 and 2 × 2 with short outputs. Ranks meet only in a minimum, and what they do between two collectives is theirs alone.",
    "The start of a group: ranks that die in it (the transports notice), and more than three; `validate` does not judge it. Assumed: a rank that prepares comes to an end, by its own deadlines.",
    "The handshake client with more than two legs, and attempts that overlap: it has one connection. That its answers are the handshakes of the decode group's runs is by their names; there an answer or a failure may come at any time.",
    "Graphics processors: nothing of this project has run on one. The CUDA path has been executed only on the tests' stand-ins for NVIDIA's libraries, with the kernels' own sources on the CPU.",
];
