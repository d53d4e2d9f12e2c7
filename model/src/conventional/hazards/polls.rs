//! Collectives that are entered by a condition.

use super::Hazard;
use crate::conventional::variant::Variant;
use lockstep_spec::invariant::matched;

/// Early-outs in front of a collective.
pub(super) fn early_outs() -> Vec<Hazard> {
    let matched = matched::PROPERTY.id;
    vec![
        Hazard::fails("handshake-skip-local", Variant::HandshakeSkipLocal, matched).told(
            "The handshake poll is skipped when all receivers are WaitingForInput by this rank's own polls.",
            "Hang or wrong data.",
            "The outage behind this project; vLLM's MoRIIO connector's handshake [model]",
        ),
        Hazard::holds("handshake-skip-reduced", Variant::HandshakeSkipReduced, 2).told(
            "The handshake poll is skipped when the reduced polls have marked every request of the queue.",
            "None.",
            "sglang up to 0.5.12 [model]",
        ),
        Hazard::fails("transfer-skip-local-queue", Variant::TransferSkipLocalQueue, matched).told(
            "The transfer poll is as long as this rank's queue, skipped when empty; admission is local.",
            "Hang, or the process aborts.",
            "sglang #36928, #36893",
        ),
        Hazard::holds("transfer-skip-agreed-queue", Variant::TransferSkipAgreedQueue, 2).told(
            "The transfer poll is as long as the queue, skipped when empty; admission is agreed.",
            "None.",
            "sglang 0.5.20 and later",
        ),
        Hazard::fails("retracted-skip-local", Variant::RetractedSkipLocal, matched).told(
            "Both polls are skipped while a request is retracted; retraction is by this rank's own free memory.",
            "Hang.",
            "The outage behind this project; sglang #33442",
        ),
        Hazard::holds("retracted-skip-agreed", Variant::RetractedSkipAgreed, 2).control(
            "Both polls are skipped while a request is retracted; retraction is by the pages that agreed phases leave.",
        ),
        Hazard::fails("local-recv-skip", Variant::LocalRecvSkip, matched).told(
            "The request broadcast is passed in the turn after a forward with rows of this rank.",
            "Hang.",
            "sglang #30457",
        ),
        Hazard::holds("recv-skip-agreed", Variant::RecvSkipAgreed, 1)
            .control("The request broadcast is passed in the turn after any forward."),
        Hazard::fails("cache-drain-conditional", Variant::CacheDrainConditional, matched).told(
            "Host copies that are done are reduced unless this rank has none in flight; a full host refuses one.",
            "Hang.",
            "sglang #26921, #27489, #28429",
        ),
        Hazard::fails("device-event-collective", Variant::DeviceEventCollective, matched).told(
            "Host copies are reduced once this rank's device event has fired.",
            "Hang.",
            "sglang #29483 [model]",
        ),
        Hazard::holds("cache-drain-unconditional", Variant::CacheDrainUnconditional, 1).control(
            "Host copies that are done are reduced in every turn, and drained in the order in which they were asked for.",
        ),
    ]
}

/// Polls that all look the same on the wire.
pub(super) fn fixed_shape() -> Vec<Hazard> {
    vec![
        Hazard::fails("same-shape-cross-match", Variant::SameShapeCrossMatch, matched::PROPERTY.id).told(
            "The handshake poll is skipped by a local condition, and the next poll has its kind and shape.",
            "Wrong data in silence.",
            "TensorRT-LLM #14560; vLLM #28774; seen on gloo: a poll value read as a batch decision",
        ),
        Hazard::holds("base", Variant::Base, 2).told(
            "No poll is ever skipped, all have one fixed shape, and queues change by reduced values alone.",
            "None.",
            "The control: the conventional design with every rule of this list repaired",
        ),
    ]
}
