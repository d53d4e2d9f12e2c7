//! What the front end says, and which rank hears it when.

use super::Hazard;
use crate::conventional::variant::Variant;
use lockstep_spec::invariant::{agreed_equal, matched};

pub(super) fn hazards() -> Vec<Hazard> {
    vec![
        Hazard::fails("abort-split", Variant::AbortSplit, agreed_equal::PROPERTY.id).told(
            "An abort of all requests is acted on by each rank when it hears of it.",
            "Hang.",
            "What set off the outage behind this project; sglang #34572, #28651",
        ),
        Hazard::holds("abort-broadcast", Variant::AbortBroadcast, 1)
            .control("An abort of all requests rides in the request broadcast."),
        Hazard::fails("pause-split", Variant::PauseSplit, matched::PROPERTY.id).told(
            "A pause takes effect at once on the rank that hears it: it goes from one request broadcast to the next.",
            "Hang.",
            "sglang #23668; vLLM #39366",
        ),
        Hazard::holds("pause-broadcast", Variant::PauseBroadcast, 1)
            .control("Pause and resume ride in the request broadcast."),
        Hazard::fails("role-switch-local", Variant::RoleSwitchLocal, agreed_equal::PROPERTY.id).told(
            "A switch of the group's role is accepted by each rank on its own free memory.",
            "Hang.",
            "sglang 0.5.23, by reading",
        ),
        Hazard::holds("role-switch-voted", Variant::RoleSwitchVoted, 1)
            .control("Each rank's free memory is an element of the handshake poll; the group switches if all have it."),
    ]
}
