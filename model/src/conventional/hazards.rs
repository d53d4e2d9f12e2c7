//! The hazards that the conventional variants show, in the order of the catalogue, and the property that each must be found to violate.

use crate::conventional::rules::Variant;
use crate::conventional::surroundings::{Surroundings, model};
use crate::model::WorldModel;
use lockstep_spec::invariant::{agreed_equal, kv_before_run, matched, no_skip, no_stuck};

/// Ranks at which every hazard shows.
const RANKS: usize = 2;

/// A rule of a real engine, and what the checker must say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Name by which runs and reports refer to it.
    pub name: &'static str,
    /// The design with that rule.
    pub variant: Variant,
    /// Fewest requests at which the rule matters.
    pub requests: usize,
    /// Property that falls first under overlap; none where the design holds.
    pub expectation: Option<&'static str>,
    /// Property that falls first in the normal loop.
    pub expectation_normal: Option<&'static str>,
    /// The rule, in a sentence.
    pub rule: &'static str,
    /// What an operator sees.
    pub consequence: &'static str,
    /// Where the rule was met.
    pub sources: &'static str,
}

impl Hazard {
    /// Property that falls first in a loop.
    #[must_use]
    pub fn expected(&self, overlap: bool) -> Option<&'static str> {
        if overlap { self.expectation } else { self.expectation_normal }
    }

    /// The variant at the smallest size at which the hazard shows.
    #[must_use]
    pub fn model(&self, overlap: bool) -> WorldModel<Surroundings> {
        model(self.variant, overlap, RANKS, self.requests)
    }

    const fn fails(name: &'static str, variant: Variant, property: &'static str) -> Self {
        Self::new(name, variant, 1, Some(property))
    }

    const fn holds(name: &'static str, variant: Variant) -> Self {
        Self::new(name, variant, 2, None)
    }

    const fn new(
        name: &'static str,
        variant: Variant,
        requests: usize,
        expectation: Option<&'static str>,
    ) -> Self {
        let (rule, consequence, sources) = ("", "", "");
        Self {
            name,
            variant,
            requests,
            expectation,
            expectation_normal: expectation,
            rule,
            consequence,
            sources,
        }
    }

    const fn told(self, rule: &'static str, consequence: &'static str, sources: &'static str) -> Self {
        Self { rule, consequence, sources, ..self }
    }
}

/// All hazards of the conventional design, in the order of the catalogue.
#[must_use]
pub fn variants() -> Vec<Hazard> {
    let mut hazards = polls();
    hazards.extend(queues());
    hazards.extend(after_reduce());
    hazards.extend(fixed_shape());
    hazards
}

/// Polls that all look the same on the wire.
fn fixed_shape() -> Vec<Hazard> {
    vec![
        Hazard::fails("same-shape-cross-match", Variant::SameShapeCrossMatch, matched::PROPERTY.id).told(
            "The handshake poll is skipped by a local condition, and the next poll has its kind and shape.",
            "Wrong data in silence.",
            "TensorRT-LLM #14560; vLLM #28774; seen on gloo: a poll value read as a batch decision",
        ),
        Hazard::holds("base", Variant::Base).told(
            "No poll is ever skipped, all have one fixed shape, and queues change by reduced values alone.",
            "None.",
            "The control: the conventional design with every rule of this list repaired",
        ),
    ]
}

/// Early-outs in front of the two polls.
fn polls() -> Vec<Hazard> {
    vec![
        Hazard::fails("handshake-skip-local", Variant::HandshakeSkipLocal, matched::PROPERTY.id).told(
            "The handshake poll is skipped when all receivers are WaitingForInput by this rank's own polls.",
            "Hang or wrong data.",
            "The outage behind this project; vLLM's MoRIIO connector's handshake [model]",
        ),
        Hazard::holds("handshake-skip-reduced", Variant::HandshakeSkipReduced).told(
            "The handshake poll is skipped when the reduced polls have marked every request of the queue.",
            "None.",
            "sglang up to 0.5.12 [model]",
        ),
        Hazard::fails("transfer-skip-local-queue", Variant::TransferSkipLocalQueue, matched::PROPERTY.id)
            .told(
                "The transfer poll is as long as this rank's queue, skipped when empty; admission is local.",
                "Hang, or the process aborts.",
                "sglang #36928, #36893",
            ),
        Hazard::holds("transfer-skip-agreed-queue", Variant::TransferSkipAgreedQueue).told(
            "The transfer poll is as long as the queue, skipped when empty; admission is agreed.",
            "None.",
            "sglang 0.5.20 and later",
        ),
    ]
}

/// What queues, and the choice of run or idle, are computed from.
fn queues() -> Vec<Hazard> {
    vec![
        Hazard::fails("local-admission", Variant::LocalAdmission, agreed_equal::PROPERTY.id).told(
            "A request is admitted by this rank's own free pages.",
            "A wrong shape later.",
            "sglang #33442; TensorRT-LLM #14020",
        ),
        Hazard {
            expectation_normal: Some(no_stuck::PROPERTY.id),
            ..Hazard::fails("local-run-or-idle", Variant::LocalRunOrIdle, no_skip::PROPERTY.id)
        }
        .told(
            "Each rank decides between run and idle from its own queue.",
            "Hang.",
            "The outage behind this project: ranks 0 and 1 in a cache reduce, ranks 2 and 3 idle",
        ),
        Hazard::fails("broadcast-have-batch", Variant::BroadcastHaveBatch, kv_before_run::PROPERTY.id).told(
            "The leader broadcasts one bit, that there is a batch, and every rank runs.",
            "Wrong data.",
            "A repair that was weighed after the outage and rejected",
        ),
    ]
}

/// One rank-local read after the reduction.
fn after_reduce() -> Vec<Hazard> {
    vec![
        Hazard::fails("metadata-after-reduce", Variant::MetadataAfterReduce, agreed_equal::PROPERTY.id).told(
            "Each rank looks for its metadata row after the reduce, and keeps a request whose row lacks.",
            "Hang.",
            "sglang #26394, #23252 [model]",
        ),
        Hazard::new("metadata-before-reduce", Variant::MetadataBeforeReduce, 1, None).told(
            "This rank's element of the transfer poll waits for the metadata row.",
            "None.",
            "sglang 0.5.13 and later",
        ),
        Hazard::fails("local-clock-timeout", Variant::LocalClockTimeout, agreed_equal::PROPERTY.id).told(
            "A waiting request is dropped when its time is up by this rank's own clock.",
            "Hang.",
            "sglang #27221, #27164, #37143",
        ),
        Hazard::fails("local-retry-exhaustion", Variant::LocalRetryExhaustion, agreed_equal::PROPERTY.id)
            .told(
                "A rank drops a request when its own retries for the prefill address are used up.",
                "Hang.",
                "The outage behind this project",
            ),
    ]
}
