//! Written by `lockstep-check explain conventional-handshake-skip-local-overlap --format test`.

use lockstep_model::explain::{PathError, path};

/// ranks 2, requests 1, overlap; The handshake poll is skipped when all receivers are WaitingForInput by this rank's own polls. (Hang or wrong data.; The outage behind this project; vLLM's MoRIIO connector's handshake [model])
/// The k-th collective that two ranks enter on one communicator agrees in site, kind, shape, epoch and round.
///
/// Once the fault is gone, say `.holds()` in the end, or delete the step that is not possible any more.
#[test]
fn conventional_handshake_skip_local_overlap_violates_matched() -> Result<(), PathError> {
    path("conventional-handshake-skip-local-overlap")?
        .step("rank 0 sees Arrived")
        .step("rank 0 sees AddressResolved")
        // rank 0: address Cached
        .step("rank 0 turns")
        // rank 0: waits in Requests[5] e0 round0
        .step("rank 1 turns")
        // rank 1: waits in Requests[5] e0 round0
        .step("the collective completes")
        // rank 0: waits in -; before HandshakePoll; request 0 Handshaking
        // rank 1: waits in -; before HandshakePoll; request 0 Handshaking
        .step("rank 0 sees HandshakeDone(0)")
        // rank 0: request 0 Handshaking shaken
        .step("rank 0 turns")
        // rank 0: before TransferPoll; request 0 Transferring shaken
        .step("rank 0 turns")
        // rank 0: waits in TransferPoll[1] e0 round0
        .step("rank 1 turns")
        // rank 1: waits in HandshakePoll[1] e0 round0
        // The point of no return.
        .step("the collective completes")
        .violates("matched")
}
