//! Losses that restarts follow: what clients see, and what the next group is told.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use crate::common::{Events, Server, completion, kill, lives, post, text_of, wait_for};
use rustix::process::Signal;
use serde_json::Value;

/// A server whose ranks do not get ready again until it is let go.
struct Held {
    server: Server,
    hold: PathBuf,
}

impl Held {
    /// Kills a rank of a server with these arguments, and holds the next epoch's ranks back.
    fn kill(server: Server, place: usize) -> Self {
        let hold = server.scratch.path("bytes-256/hold");
        std::fs::write(&hold, "").unwrap();
        let pids = server.rank_pids();
        kill(pids[place], Signal::KILL);
        let held = Self { server, hold };
        held.wait_for_ranks(2);
        assert!(
            pids.iter().all(|&pid| !lives(pid)),
            "the next epoch began before the last one's ranks were gone"
        );
        held
    }

    /// Waits until the ranks of `epoch` are started, and said hello.
    fn wait_for_ranks(&self, epoch: u64) {
        wait_for("ranks of the next epoch", || {
            let joined = self.server.ranks().iter().all(|rank| rank["state"] == "joined");
            self.server.health().1["epoch"] == epoch && joined
        });
    }

    fn let_go(&self) {
        std::fs::remove_file(&self.hold).unwrap();
    }
}

fn text(events: Events) -> String {
    let mut events = events.rest();
    assert_eq!(events.pop().as_deref(), Some("[DONE]"), "after {events:?}");
    events.iter().map(|event| text_of(event)).collect()
}

fn begun(server: &Server, prompt: &str, tokens: u32) -> Events {
    let mut stream = server.stream(&completion(prompt, tokens, true));
    assert_eq!(text_of(&stream.next().unwrap()), prompt[..1]);
    stream
}

#[test]
fn restarts_let_streams_go_on_and_hand_over_what_was_sent() {
    let server = Server::start(&[]);
    for (place, epoch) in [(0, 2), (1, 3), (2, 4), (3, 5)] {
        let pids = server.rank_pids();
        let streams = [begun(&server, "abcdefg", 200), begun(&server, "xyz", 200)];
        kill(pids[place], Signal::KILL);
        let [first, second] = streams.map(text);
        assert_eq!(first, "abcdefg".repeat(30)[1..200]);
        assert_eq!(second, "xyz".repeat(67)[1..200]);
        wait_for("the next epoch", || server.health().1["epoch"] == epoch && server.health().0 == 200);
        assert!(pids.iter().all(|&pid| !lives(pid)));
    }
    let words = server.errors();
    assert!(words.contains("the decode group is lost, and epoch 1 with it"), "{words}");
    assert!(
        words.contains("decode rank 1 ends: a peer did not come to the vote; missing: rank 0"),
        "{words}"
    );
    assert!(words.contains("epoch 5 serves, "), "{words}");
    assert_eq!(server.log().matches("Submit").count(), 2 * 8, "each once, and once more after its loss");
    assert_eq!(server.log().matches("generated: 0").count(), 8, "the second time behind what was sent");
    assert!(!server.log().contains("Abort"));
}

/// Whether a stream is accepted; it is left at once.
fn is_accepted(server: &Server) -> bool {
    let mut head = String::new();
    let stream = server.send(&post("application/json", &completion("cd", 4, true).to_string()));
    BufReader::new(stream).read_line(&mut head).unwrap();
    head.contains(" 200 ")
}

#[test]
fn restarts_keep_requests_waiting_and_tell_health() {
    let server = Server::start(&["--max-queue", "3"]);
    let (stays, leaves) = (begun(&server, "!slow", 9), begun(&server, "!slow", 200));
    let held = Held::kill(server, 2);
    let (status, health) = held.server.health();
    assert_eq!((status, health["status"].as_str()), (503, Some("restarting")));
    let reason = health["reason"].as_str().unwrap();
    assert!(reason.starts_with("epoch 1 ended: prefill rank 0 "), "{reason}");
    assert_eq!((held.server.get("/livez").status, held.server.get("/readyz").status), (200, 503));

    let comes = held.server.stream(&completion("ab", 4, true));
    let full = held.server.post(&completion("cd", 4, false));
    assert_eq!(full.status, 429);
    assert!(full.headers.contains("retry-after: 1"), "{}", full.headers);
    drop(leaves);
    wait_for("room in the queue", || is_accepted(&held.server));
    held.let_go();
    assert_eq!(text(comes), "abab");
    assert_eq!(text(stays), "slow!slo");
    let told =
        |request: u32| held.server.log().matches(&format!("Submit(Request {{ id: q{request},")).count();
    assert_eq!((told(0), told(1), told(2)), (2, 1, 1), "the one that left is not submitted again");
    assert_eq!(held.server.health().0, 200);
}

#[test]
fn restarts_are_left_cleanly_by_a_stop() {
    let server = Server::start(&[]);
    let stream = begun(&server, "!slow", 200);
    let mut held = Held::kill(server, 0);
    let pids = held.server.rank_pids();
    held.server.signal(Signal::TERM);
    assert!(stream.error().contains("the server is stopping"));
    assert_eq!(held.server.wait_for_end().code(), Some(0), "{}", held.server.errors());
    assert!(pids.iter().all(|&pid| !lives(pid)));
    assert_eq!(held.server.scratch.left_behind(), 0);
}

#[test]
fn restarts_survive_a_death_before_the_group_is_formed() {
    let server = Server::start(&[]);
    let stream = begun(&server, "abc", 100);
    let held = Held::kill(server, 1);
    kill(held.server.rank_pids()[0], Signal::KILL);
    held.wait_for_ranks(3);
    held.let_go();
    assert_eq!(text(stream), "abc".repeat(34)[1..100]);
    assert_eq!(held.server.health().1["restarts"], 2);
}

#[test]
fn restarts_that_are_used_up_end_streams_with_the_reason() {
    let server = Server::start(&["--restarts", "2"]);
    let (stream, pids) = (begun(&server, "!slow", 200), server.rank_pids());
    std::fs::write(server.scratch.path("bytes-256/refuse"), "").unwrap();
    kill(pids[3], Signal::KILL);
    assert!(stream.error().contains("the weights are not to be had"));
    wait_for("the last word", || server.errors().contains("no epoch follows: 2 of 2 restarts"));
    let health: Value = server.health().1;
    assert_eq!((health["status"].as_str(), health["epoch"].as_u64()), (Some("lost"), Some(3)));
    assert_eq!(server.post(&completion("ab", 2, false)).status, 503);
    let mut server = server;
    server.signal(Signal::TERM);
    assert_eq!(server.wait_for_end().code(), Some(0), "{}", server.errors());
}
