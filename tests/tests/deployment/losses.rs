//! Ranks that die in the middle of work: the rest of their group ends in time and says why, and so do the streams.

use std::time::Duration;

use lockstep_tests::http::{Events, completion};
use lockstep_tests::process::{kill, lives, wait_within};
use rustix::process::Signal;

use crate::common::Deployment;

/// Promised for everything that follows a death.
const DEADLINE: Duration = Duration::from_secs(10);

struct Loss {
    server: Deployment,
    pids: Vec<u32>,
    streams: Vec<Events>,
}

impl Loss {
    /// Kills a rank of two groups of two while streams run.
    fn of(place: usize) -> Self {
        let server = Deployment::start("");
        let pids = server.rank_pids();
        let streams = (0..3).map(|_| server.long_stream()).collect();
        kill(pids[place], Signal::KILL);
        Self { server, pids, streams }
    }

    /// Checks what must follow when rank `killed` of the `role` group is gone and `survivor` is its only peer.
    fn check(self, role: &str, killed: u32, survivor: u32) {
        let Self { server, pids, streams } = self;
        let group = if role == "decode" { &pids[..2] } else { &pids[2..] };
        let others = if role == "decode" { &pids[2..] } else { &pids[..2] };
        wait_within(DEADLINE, "the group's rest ends", || group.iter().all(|&pid| !lives(pid)));
        wait_within(DEADLINE, "health is 503", || server.health().0 == 503);
        wait_within(DEADLINE, "the report", || server.errors().contains(&format!("the {role} group is lost")));
        let report = server.errors();
        let death = format!("{role} rank {killed} (pid {}) was killed by signal 9", group[killed as usize]);
        assert!(report.contains(&death), "{report}");
        let words = report.lines().find(|line| line.contains(&format!("{role} rank {survivor} ends: ")));
        let words = words.unwrap_or_else(|| panic!("no last words: {report}"));
        assert!(words.contains(&format!("missing: rank {killed}")), "{words}");
        assert!(words.contains("last ticket: ") && words.contains(" e1 round"), "{words}");
        for stream in streams {
            let error = stream.error();
            assert!(error.contains(&format!("{role} rank ")), "{error}");
        }
        assert_eq!(server.get("/livez").status, 200);
        let refused = server.post(&completion("In the beginning", 4, false));
        assert_eq!((refused.status, refused.error()["code"].as_str()), (503, Some("group_lost")));
        assert!(others.iter().all(|&pid| lives(pid)), "the other group lives on");
        server.end(&pids);
    }
}

#[test]
fn losses_of_a_decode_follower() {
    Loss::of(1).check("decode", 1, 0);
}

#[test]
fn losses_of_the_decode_leader() {
    Loss::of(0).check("decode", 0, 1);
}

#[test]
fn losses_of_a_prefill_follower() {
    Loss::of(3).check("prefill", 1, 0);
}

#[test]
fn losses_of_the_prefill_leader() {
    Loss::of(2).check("prefill", 0, 1);
}
