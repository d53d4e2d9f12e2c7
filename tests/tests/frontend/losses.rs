//! Deaths that no restart follows: of a rank, of a group, of the front end; and the orderly end. Nothing is ever left running.

use std::time::{Duration, Instant};

use crate::common::{Events, Server, completion, kill, lives, wait_for};
use rustix::process::Signal;

/// A loss is for good.
const NO_RESTARTS: [&str; 2] = ["--restarts", "0"];

fn running_stream(server: &Server) -> Events {
    let mut stream = server.stream(&completion("!slow", 200, true));
    stream.next().unwrap();
    stream
}

#[test]
fn losses_a_killed_decode_rank_ends_streams_and_groups_but_not_the_front_end() {
    let server = Server::start(&NO_RESTARTS);
    let pids = server.rank_pids();
    let stream = running_stream(&server);
    kill(pids[1], Signal::KILL);
    let error = stream.error();
    assert!(error.contains(&format!("decode rank 1 (pid {}) was killed by signal 9", pids[1])), "{error}");
    let refused = server.post(&completion("ab", 2, false));
    assert_eq!((refused.status, refused.error()["code"].as_str()), (503, Some("group_lost")));
    wait_for("the leader ends by itself", || !lives(pids[0]));
    wait_for("the other group leaves", || !lives(pids[2]) && !lives(pids[3]));
    wait_for("the report", || server.errors().contains("no epoch follows: 0 of 0 restarts"));
    let report = server.errors();
    assert_eq!(report.matches("the decode group is lost").count(), 1, "{report}");
    assert!(
        report.contains("decode rank 0 ends: a peer did not come to the vote; missing: rank 1"),
        "{report}"
    );
    assert!(report.contains("last ticket: epoch 1 round 7 Vote"), "{report}");
    assert!(report.contains(&format!("decode rank 0 (pid {}) exited with code 1", pids[0])), "{report}");
    let (status, health) = server.health();
    assert_eq!((status, health["status"].as_str()), (503, Some("lost")));
    assert!(health["reason"].as_str().unwrap().contains("decode rank 1"), "{health}");
    assert_eq!(health["groups"][0]["ranks"][1]["state"], "ended");
    assert_eq!((server.get("/livez").status, server.get("/readyz").status), (200, 503));
}

#[test]
fn losses_a_killed_prefill_rank_ends_what_decode_holds() {
    let server = Server::start(&NO_RESTARTS);
    let pids = server.rank_pids();
    let stream = running_stream(&server);
    kill(pids[2], Signal::KILL);
    assert!(stream.error().contains("prefill rank 0"));
    wait_for("both groups end", || pids.iter().all(|&pid| !lives(pid)));
    wait_for("the report", || server.errors().contains("the prefill group is lost"));
    assert!(!server.errors().contains("decode rank"), "it left as it was asked: {}", server.errors());
}

#[test]
fn losses_a_leader_that_breaks_the_protocol_loses_its_group() {
    for (prompt, expected) in [
        ("!skip", "decode rank 0 broke the protocol: token 3 of request 0 came where token 2 was due"),
        ("!vocabulary", "decode rank 0 sent token 256, but the vocabulary has 256"),
        ("!fatal", "decode rank 0 ends: the device is gone; last ticket: epoch 1 round 7 Vote"),
        ("!crash", "was killed by signal 6"),
    ] {
        let server = Server::start(&NO_RESTARTS);
        let pids = server.rank_pids();
        let broken = server.post(&completion(prompt, 9, false));
        assert_eq!(broken.status, 500, "{}", broken.body);
        assert!(broken.body.contains(expected), "{prompt}: {}", broken.body);
        assert_eq!(server.get("/health").status, 503);
        wait_for("the group ends", || !lives(pids[0]) && !lives(pids[1]));
    }
}

#[test]
fn losses_a_silent_rank_is_noticed_while_idle_and_killed() {
    let server = Server::start_with(&NO_RESTARTS, Some(1000));
    let pids = server.rank_pids();
    kill(pids[3], Signal::STOP);
    wait_for("the loss", || server.health().1["status"] == "lost");
    let reason = server.health().1["reason"].to_string();
    assert!(reason.contains("prefill rank 1 has been silent for 1."), "{reason}");
    wait_for("the kill", || !lives(pids[3]));
    wait_for("the report", || server.errors().contains("prefill rank 1 did not end in time and is killed"));
}

/// A rank that lives, reports, and takes part in nothing: what health checks must not call green.
#[test]
fn losses_a_rank_without_rounds_turns_health_red_and_ends_its_group() {
    let server = Server::start_with(&NO_RESTARTS, Some(2000));
    let _stream = server.stream(&completion("!stall", 200, true));
    wait_for("health is red", || server.health().0 == 503);
    let health = server.health().1;
    let reason = health["reason"].as_str().unwrap();
    assert_eq!(health["status"], "stalled", "{reason}");
    assert!(reason.starts_with("decode rank 0 has not come to round "), "{reason}");
    assert!(reason.ends_with(" of epoch 1, Vote"), "{reason}");
    let rank = &health["groups"][0]["ranks"][0];
    assert_eq!((rank["state"].as_str(), rank["site"].as_str()), (Some("ready"), Some("Vote")), "{rank}");
    assert!(rank["age_ms"].as_u64().unwrap() < 1000, "it reports: {rank}");
    wait_for("the loss", || server.health().1["status"] == "lost");
    assert!(server.health().1["reason"].to_string().contains("decode rank 0 has not come to round "));
}

#[test]
fn losses_a_killed_front_end_leaves_no_orphans() {
    let mut server = Server::start(&[]);
    let pids = server.rank_pids();
    // One rank neither reads its socket nor is stopped: only the kernel can end it.
    let mut stream = server.stream(&completion("!hang", 9, true));
    stream.next().unwrap();
    stream.next().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    server.signal(Signal::KILL);
    server.wait_for_end();
    wait_for("all ranks are gone", || pids.iter().all(|&pid| !lives(pid)));
}

#[test]
fn losses_an_orderly_stop_leaves_nothing() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(&["--drain-seconds", "0"]);
        let pids = server.rank_pids();
        let stream = running_stream(&server);
        server.signal(signal);
        assert!(stream.error().contains("the server is stopping"));
        let status = server.wait_for_end();
        assert_eq!(status.code(), Some(0), "{}", server.errors());
        assert!(pids.iter().all(|&pid| !lives(pid)), "{}", server.errors());
        assert_eq!(server.scratch.left_behind(), 0);
    }
}

#[test]
fn losses_a_drain_lets_streams_end_and_takes_no_more() {
    let mut server = Server::start(&[]);
    let mut stream = server.stream(&completion("!slow", 12, true));
    stream.next().unwrap();
    server.signal(Signal::TERM);
    wait_for("readiness ends", || server.get("/readyz").status == 503);
    assert_eq!(server.health().1["status"], "stopping");
    let refused = server.post(&completion("ab", 2, false));
    assert_eq!((refused.status, refused.error()["code"].as_str()), (503, Some("stopping")));
    assert_eq!(stream.rest().pop().as_deref(), Some("[DONE]"));
    assert_eq!(server.wait_for_end().code(), Some(0), "{}", server.errors());
}

#[test]
fn losses_a_drain_has_an_end() {
    for (second_signal, drain) in [(false, "1"), (true, "60")] {
        let mut server = Server::start(&["--drain-seconds", drain]);
        let stream = running_stream(&server);
        let begun = Instant::now();
        server.signal(Signal::TERM);
        if second_signal {
            wait_for("readiness ends", || server.get("/readyz").status == 503);
            server.signal(Signal::TERM);
        }
        assert!(stream.error().contains("the server is stopping"));
        let took = begun.elapsed();
        assert!(
            took < Duration::from_secs(20) && (second_signal || took >= Duration::from_secs(1)),
            "{took:?}"
        );
        server.wait_for_end();
        assert_eq!(server.scratch.left_behind(), 0);
    }
}

#[test]
fn losses_a_death_during_a_drain_ends_it() {
    let mut server = Server::start(&[]);
    let (pids, stream) = (server.rank_pids(), running_stream(&server));
    server.signal(Signal::TERM);
    wait_for("readiness ends", || server.get("/readyz").status == 503);
    kill(pids[3], Signal::KILL);
    assert!(stream.error().contains("prefill rank 1"));
    server.wait_for_end();
    assert!(!server.errors().contains("follows"), "{}", server.errors());
    assert!(pids.iter().all(|&pid| !lives(pid)));
}

#[test]
fn losses_a_rank_that_does_not_leave_is_killed() {
    for second_signal in [false, true] {
        let mut server = Server::start_with(&[], Some(if second_signal { 60_000 } else { 500 }));
        let pids = server.rank_pids();
        kill(pids[1], Signal::STOP);
        server.signal(Signal::TERM);
        if second_signal {
            wait_for("the others leave", || !lives(pids[0]));
            server.signal(Signal::TERM);
        }
        let status = server.wait_for_end();
        assert_eq!(status.code(), Some(1), "second signal {second_signal}: {}", server.errors());
        assert!(pids.iter().all(|&pid| !lives(pid)));
        let told = format!("decode rank 1 (pid {}) was killed by signal 9", pids[1]);
        wait_for("the word on it", || server.errors().contains(&told));
        assert_eq!(server.scratch.left_behind(), 0);
    }
}
