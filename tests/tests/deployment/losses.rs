//! Ranks that die in the middle of work when no restart follows: the rest ends in time and says why, and so do the streams.

use std::time::{Duration, Instant};

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
    begun: Instant,
}

impl Loss {
    /// Sends a signal to a rank of two groups of two while streams run.
    fn of(place: usize, signal: Signal) -> Self {
        let server = Deployment::start("--restarts 0");
        let pids = server.rank_pids();
        let streams = (0..3).map(|_| server.long_stream()).collect();
        kill(pids[place], signal);
        Self { server, pids, streams, begun: Instant::now() }
    }

    /// Waits for what must follow within `deadline` of the loss.
    fn wait(&self, deadline: Duration, what: &str, condition: impl Fn() -> bool) {
        wait_within(deadline.saturating_sub(self.begun.elapsed()), what, condition);
    }

    /// Checks what must follow when rank `killed` of the `role` group is killed and `survivor` is its only peer.
    fn check(self, role: &str, killed: u32, survivor: u32) {
        let group = if role == "decode" { &self.pids[..2] } else { &self.pids[2..] };
        self.wait(DEADLINE, "the rest of both groups ends", || self.pids.iter().all(|&pid| !lives(pid)));
        self.wait(DEADLINE, "health is 503", || self.server.health().0 == 503);
        let death = format!("{role} rank {killed} (pid {}) was killed by signal 9", group[killed as usize]);
        self.check_report(role, &death);
        self.check_last_words(&format!("{role} rank {survivor}"), killed);
        self.check_clients(role);
    }

    fn check_report(&self, role: &str, finding: &str) {
        self.wait(DEADLINE * 2, "the report", || {
            self.server.errors().contains(&format!("the {role} group is lost"))
        });
        assert!(self.server.errors().contains(finding), "{finding:?} is not in\n{}", self.server.errors());
    }

    fn check_last_words(&self, survivor: &str, missing: u32) {
        let report = self.server.errors();
        let words = report.lines().find(|line| line.contains(&format!("{survivor} ends: ")));
        let words = words.unwrap_or_else(|| panic!("no last words: {report}"));
        assert!(words.contains(&format!("missing: rank {missing}")), "{words}");
        assert!(words.contains("last ticket: ") && words.contains(" e1 round"), "{words}");
    }

    /// Checks that streams ended with the reason, that new requests are refused, and that an orderly end is still possible.
    fn check_clients(self, role: &str) {
        for stream in self.streams {
            let error = stream.error();
            assert!(error.contains(&format!("{role} rank ")), "{error}");
        }
        assert_eq!(self.server.get("/livez").status, 200);
        let refused = self.server.post(&completion("In the beginning", 4, false));
        assert_eq!((refused.status, refused.error()["code"].as_str()), (503, Some("group_lost")));
        self.server.end(&self.pids);
    }
}

#[test]
fn losses_of_a_decode_follower() {
    Loss::of(1, Signal::KILL).check("decode", 1, 0);
}

#[test]
fn losses_of_the_decode_leader() {
    Loss::of(0, Signal::KILL).check("decode", 0, 1);
}

#[test]
fn losses_of_a_prefill_follower() {
    Loss::of(3, Signal::KILL).check("prefill", 1, 0);
}

#[test]
fn losses_of_the_prefill_leader() {
    Loss::of(2, Signal::KILL).check("prefill", 0, 1);
}

/// A rank that is stopped: nothing closes its connections, but the kernel tells.
#[test]
fn losses_of_a_rank_that_is_stopped() {
    let loss = Loss::of(1, Signal::STOP);
    loss.wait(DEADLINE, "health is 503", || loss.server.health().0 == 503);
    loss.wait(DEADLINE, "the leader ends", || !lives(loss.pids[0]));
    loss.wait(DEADLINE, "the rank that is stopped is killed", || !lives(loss.pids[1]));
    loss.check_report(
        "decode",
        &format!("decode rank 1 (pid {}) has been stopped by a signal for 2 s", loss.pids[1]),
    );
    loss.check_last_words("decode rank 0", 1);
    loss.check_clients("decode");
}
