//! Pages, copies and caches.

use super::Hazard;
use crate::conventional::variant::Variant;
use lockstep_spec::invariant::{agreed_equal, no_write_after_free, pages_sound};

pub(super) fn hazards() -> Vec<Hazard> {
    [caches(), pages()].concat()
}

fn caches() -> Vec<Hazard> {
    vec![
        Hazard::fails("cache-drain-completion-order", Variant::CacheDrainCompletionOrder, agreed_equal::PROPERTY.id)
            .with_requests(2)
            .told(
                "The count of host copies that are over is agreed; which they are is each rank's order of completion.",
                "The ranks' queues drift apart.",
                "By reading",
            ),
        Hazard::fails("lru-wall-clock", Variant::LruWallClock, agreed_equal::PROPERTY.id).with_requests(2).told(
            "The prefix cache evicts by each rank's own clock.",
            "The ranks' caches drift apart.",
            "sglang #10070, #22759",
        ),
        Hazard::holds("lru-logical-clock", Variant::LruLogicalClock, 2)
            .control("The prefix cache evicts by a clock that counts agreed landings."),
    ]
}

fn pages() -> Vec<Hazard> {
    vec![
        Hazard::fails("swallowed-release", Variant::SwallowedRelease, pages_sound::PROPERTY.id).told(
            "An exception while a page is given back is swallowed on one rank.",
            "The ranks' pools drift apart.",
            "sglang 0.5.23, by reading",
        ),
        Hazard::holds("release-retried", Variant::ReleaseRetried, 1)
            .control("What throws while a page is given back is done again."),
        Hazard::fails("page-reuse-in-flight", Variant::PageReuseInFlight, no_write_after_free::PROPERTY.id).told(
            "The page of an aborted transfer goes back at once.",
            "Corrupt KV.",
            "sglang #35049, #37454; vLLM #21570",
        ),
        Hazard::holds("abort-fenced", Variant::AbortFenced, 1)
            .control("The page of an aborted transfer goes back once no rank's can be written any more."),
        Hazard::fails("overlap-early-free", Variant::OverlapEarlyFree, no_write_after_free::PROPERTY.id)
            .normally(None)
            .told(
                "A finished request's page goes back although the forward that was launched ahead still reads it.",
                "Corrupt KV.",
                "What launching ahead invites",
            ),
        Hazard::holds("launch-ahead", Variant::LaunchAhead, 2)
            .control("A finished request's page goes back once the result of the forward launched ahead is read."),
    ]
}
