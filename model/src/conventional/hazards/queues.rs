//! What queues, and the choice of run or idle, are computed from.

use super::Hazard;
use crate::conventional::variant::Variant;
use lockstep_spec::invariant::{agreed_equal, kv_before_run, no_skip, no_stuck};

const AGREED_EQUAL: &str = agreed_equal::PROPERTY.id;

pub(super) fn hazards() -> Vec<Hazard> {
    [decisions(), after_reduce(), samples()].concat()
}

/// Admission, and run or idle.
fn decisions() -> Vec<Hazard> {
    vec![
        Hazard::fails("local-admission", Variant::LocalAdmission, AGREED_EQUAL).told(
            "A request is admitted by this rank's own free pages.",
            "A wrong shape later.",
            "sglang #33442; TensorRT-LLM #14020",
        ),
        Hazard::fails("local-run-or-idle", Variant::LocalRunOrIdle, no_skip::PROPERTY.id)
            .normally(Some(no_stuck::PROPERTY.id))
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
        Hazard::fails("metadata-after-reduce", Variant::MetadataAfterReduce, AGREED_EQUAL).told(
            "Each rank looks for its metadata row after the reduce, and keeps a request whose row lacks.",
            "Hang.",
            "sglang #26394, #23252 [model]",
        ),
        Hazard::holds("metadata-before-reduce", Variant::MetadataBeforeReduce, 1).told(
            "This rank's element of the transfer poll waits for the metadata row.",
            "None.",
            "sglang 0.5.13 and later",
        ),
        Hazard::fails("room-mismatch-after-reduce", Variant::RoomMismatchAfterReduce, AGREED_EQUAL).told(
            "The room in the metadata row is checked on each rank after the reduce; a mismatch drops the request there.",
            "Hang.",
            "sglang 0.5.23, by reading [model]",
        ),
        Hazard::fails("checksum-after-reduce", Variant::ChecksumAfterReduce, AGREED_EQUAL).told(
            "The checksum is checked on each rank after the reduce; a mismatch drops the request there.",
            "Hang.",
            "sglang #39500, #39729",
        ),
        Hazard::holds("rows-checked-in-poll", Variant::RowsCheckedInPoll, 1)
            .control("Room and checksum are part of this rank's element of the transfer poll."),
        Hazard::fails("local-clock-timeout", Variant::LocalClockTimeout, AGREED_EQUAL).told(
            "A waiting request is dropped when its time is up by this rank's own clock.",
            "Hang.",
            "sglang #27221, #27164, #37143",
        ),
        Hazard::fails("local-retry-exhaustion", Variant::LocalRetryExhaustion, AGREED_EQUAL).told(
            "A rank drops a request when its own retries for the prefill address are used up.",
            "Hang.",
            "The outage behind this project",
        ),
    ]
}

/// What a forward computes, and for which rows.
fn samples() -> Vec<Hazard> {
    vec![
        Hazard::fails("local-sampling", Variant::LocalSampling, AGREED_EQUAL).told(
            "Each rank samples from its own logits, and stops at its own end of the output.",
            "Hang or wrong text.",
            "sglang #3060; candle's multi-process example",
        ),
        Hazard::holds("sampling-shared", Variant::SamplingShared, 1)
            .control("Logits may differ in a last bit; what is sampled is made equal inside the forward."),
        Hazard::fails("row-order-local", Variant::RowOrderLocal, AGREED_EQUAL).with_requests(2).told(
            "The rows of a forward are in the order of this rank's hash set.",
            "Wrong data.",
            "mini-sglang #113",
        ),
        Hazard::holds("row-order-by-arrival", Variant::RowOrderByArrival, 2)
            .control("The rows of a forward are in order of arrival."),
    ]
}
