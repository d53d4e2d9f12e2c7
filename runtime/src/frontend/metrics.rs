//! What `/metrics` says: the counters of front end and ranks as Prometheus reads them (text format 0.0.4).
//!
//! The ranks' counters begin anew with each epoch, as counters of restarted processes do.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::groups::{GroupHealth, RankHealth};
use super::status::Health;
use crate::wire::{Progress, RankName};

/// The type that a scraper reads.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// A metric of `T`: its name, its type, what it is, and where it is read.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> f64);

const OF_THE_FRONT_END: [Metric<Health>; 7] = [
    ("ready", "gauge", "1 when every rank serves", |health| f64::from(health.reason.is_none())),
    ("paused", "gauge", "1 when nothing is to be launched", |health| f64::from(health.paused)),
    ("epoch", "gauge", "Epoch of the ranks", |health| float(health.epoch)),
    ("restarts_total", "counter", "Epochs that followed one that was lost", |health| float(health.restarts)),
    ("resumes_total", "counter", "Prefills anew of requests that gave their pages up", |health| {
        float(health.resumes)
    }),
    ("queue_requests", "gauge", "Requests accepted and not ended", |health| float(health.queue)),
    ("queue_limit_requests", "gauge", "Requests that may be accepted and not ended", |health| {
        float(health.queue_limit)
    }),
];

const OF_A_RANK: [Metric<Progress>; 17] = [
    ("rank_rounds_total", "counter", "Rounds completed", |told| float(told.round)),
    ("rank_rounds_with_work_total", "counter", "Rounds in which a slot was used", |told| {
        float(told.rounds_with_work)
    }),
    ("rank_votes_total", "counter", "Votes completed", |told| float(told.votes)),
    ("rank_votes_in_stream_total", "counter", "Of those, votes reduced in the devices' queue", |told| {
        float(told.votes_in_stream)
    }),
    ("rank_briefs_total", "counter", "Briefs completed", |told| float(told.briefs)),
    ("rank_forwards_total", "counter", "Forwards retired", |told| float(told.forwards)),
    (
        "rank_vote_wait_seconds_total",
        "counter",
        "Time from entering votes between the hosts to their end; the leader's is its group's skew",
        |told| seconds(told.vote_wait_micros_total),
    ),
    (
        "rank_agreement_seconds_total",
        "counter",
        "Time in votes between the hosts and briefs, of rounds with work",
        |told| seconds(told.agreement_micros_total),
    ),
    ("rank_forward_seconds_total", "counter", "Time in forwards", |told| seconds(told.forward_micros_total)),
    (
        "rank_forward_gap_seconds_total",
        "counter",
        "Time without a forward between two of which the later goes on from the earlier",
        |told| seconds(told.forward_gap_micros_total),
    ),
    ("rank_slots_used", "gauge", "Slots in use", |told| told.slots_used.into()),
    ("rank_pages_free", "gauge", "KV pages that a new request may have, kept ones among them", |told| {
        told.pages_free.into()
    }),
    ("rank_pages_kept", "gauge", "KV pages kept for prompts that begin alike", |told| told.pages_kept.into()),
    (
        "rank_pages_matched_total",
        "counter",
        "Pages of prompts not computed, because they were kept",
        |told| float(told.pages_matched),
    ),
    ("rank_pages_loaded_total", "counter", "Of those, pages that came back from the host", |told| {
        float(told.pages_loaded)
    }),
    (
        "rank_restored_total",
        "counter",
        "Requests that came back from the hosts after giving their pages up",
        |told| float(told.restored),
    ),
    ("rank_paused", "gauge", "1 when paused, with no forward in flight", |told| f64::from(told.paused)),
];

const OF_A_SEAT: [Metric<RankHealth>; 3] = [
    ("rank_slots", "gauge", "Slots", |rank| rank.slots.into()),
    ("rank_pages", "gauge", "KV pages", |rank| rank.pages.into()),
    ("rank_report_age_seconds", "gauge", "Time since the rank was heard", |rank| {
        float(rank.age_ms.unwrap_or_default()) / 1e3
    }),
];

/// The whole text.
pub(crate) fn render(health: &Health, progress: &BTreeMap<RankName, Progress>) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in OF_THE_FRONT_END {
        describe(&mut text, name, kind, help);
        line(&mut text, name, "", value(health));
    }
    for (name, kind, help, value) in OF_A_RANK {
        describe(&mut text, name, kind, help);
        progress.iter().for_each(|(rank, told)| line(&mut text, name, &labels(*rank), value(told)));
    }
    for (name, kind, help, value) in OF_A_SEAT {
        describe(&mut text, name, kind, help);
        for GroupHealth { role, ranks } in &health.groups {
            let seat = |rank: &RankHealth| RankName { role: *role, rank: rank.rank };
            ranks.iter().for_each(|rank| line(&mut text, name, &labels(seat(rank)), value(rank)));
        }
    }
    text
}

fn describe(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing into a string does not fail.
    writeln!(text, "# HELP lockstep_{name} {help}.\n# TYPE lockstep_{name} {kind}").ok();
}

fn labels(RankName { role, rank }: RankName) -> String {
    format!("{{role=\"{role}\",rank=\"{rank}\"}}")
}

fn line(text: &mut String, name: &str, labels: &str, value: f64) {
    writeln!(text, "lockstep_{name}{labels} {value}").ok();
}

/// A count as scrapers keep it; beyond 2^53 it is rounded, as it is there.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has no other number")]
fn float(count: u64) -> f64 {
    count as f64
}

fn seconds(micros: u64) -> f64 {
    float(micros) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::Standing;
    use crate::wire::Role;

    #[test]
    fn metrics_tell_front_end_and_every_rank() {
        let health = Health { epoch: 2, restarts: 1, ..Health::of(&Standing::Starting, false, None) };
        let told = Progress { votes: 7, agreement_micros_total: 1500, ..Progress::default() };
        let rank = |rank| RankName { role: Role::Prefill, rank };
        let text = render(&health, &[(rank(0), told), (rank(1), Progress::default())].into());
        for line in [
            "# HELP lockstep_epoch Epoch of the ranks.\n# TYPE lockstep_epoch gauge\nlockstep_epoch 2\n",
            "\nlockstep_restarts_total 1\n",
            "lockstep_ready 0\n",
            "\nlockstep_rank_votes_total{role=\"prefill\",rank=\"0\"} 7\n",
            "\nlockstep_rank_votes_total{role=\"prefill\",rank=\"1\"} 0\n",
            "\nlockstep_rank_agreement_seconds_total{role=\"prefill\",rank=\"0\"} 0.0015\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }
}
