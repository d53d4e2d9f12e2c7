//! Pause and resume over HTTP: nothing is launched, requests wait within the bound, and everything goes on where it was.

use std::thread;
use std::time::Duration;

use lockstep_tests::golden::goldens;
use lockstep_tests::http::{Answer, post, text_of};
use lockstep_tests::process::{kill, wait_for};
use rustix::process::Signal;
use serde_json::json;

use crate::common::{Deployment, pieces, request, texts};

/// Longer than a round, a forward and a report.
const WHILE: Duration = Duration::from_millis(600);

/// Sends a word on pausing; it is answered once every rank does as it says.
fn word(server: &Deployment, path: &str, status: &str) {
    let answer = server.request(&post("application/json", "{}").replacen("/v1/completions", path, 1));
    assert_eq!((answer.status, answer.json()), (200, json!({"status": status})));
}

fn pause(server: &Deployment) {
    word(server, "/pause_generation", "paused");
}

fn resume(server: &Deployment) {
    word(server, "/continue_generation", "running");
}

/// Forwards that every rank has retired, as told in `/metrics`.
fn forwards(server: &Deployment) -> Vec<String> {
    let metrics = server.get("/metrics").body;
    metrics
        .lines()
        .filter(|line| line.starts_with("lockstep_rank_forwards_total{"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn pausing_stops_every_forward_and_goes_on_where_it_was() {
    let server = Deployment::start("--max-queue 3");
    let golden = &goldens()[1];
    let mut running = server.stream(&request(golden, true));
    let begun = text_of(&running.next().unwrap());
    pause(&server);
    let (before, round) = (forwards(&server), server.round());
    assert_eq!(before.len(), 4);
    let waits = server.stream(&request(golden, true));
    let leaves = server.stream(&request(golden, true));
    assert_eq!(server.post(&request(golden, false)).status, 429, "the bound holds");
    drop(leaves);
    wait_for("room in the queue", || server.health().1["queue"] == 2);
    thread::sleep(WHILE);
    assert_eq!(forwards(&server), before, "a forward was launched under a pause");
    assert!(server.round() > round, "rounds go on");
    let (code, health) = server.health();
    assert_eq!(
        (code, health["status"].as_str(), health["paused"].as_bool()),
        (200, Some("paused"), Some(true))
    );
    assert!(server.get("/metrics").body.contains("\nlockstep_paused 1\n"));
    resume(&server);
    assert_eq!(begun + &texts(running).concat(), pieces(golden).concat());
    assert_eq!(texts(waits), pieces(golden));
    assert_eq!(server.health().1["status"], "ok");
    server.wait_until_drained(256);
}

#[test]
fn pausing_holds_for_the_epoch_after_a_loss() {
    let server = Deployment::start("");
    let golden = &goldens()[2];
    let mut running = server.stream(&request(golden, true));
    let begun = text_of(&running.next().unwrap());
    pause(&server);
    kill(server.rank_pids()[1], Signal::KILL);
    server.wait_for_epoch(2);
    wait_for("every rank is paused again", || {
        server.get("/metrics").body.matches("lockstep_rank_paused{").count() == 4
            && !server
                .get("/metrics")
                .body
                .lines()
                .any(|line| line.starts_with("lockstep_rank_paused{") && line.ends_with(" 0"))
    });
    assert!(forwards(&server).iter().all(|line| line.ends_with(" 0")), "{:?}", forwards(&server));
    resume(&server);
    assert_eq!(begun + &texts(running).concat(), pieces(golden).concat());
    let pids = server.rank_pids();
    server.end(&pids);
}

#[test]
fn pausing_refuses_what_it_is_not_and_ends_with_the_server() {
    let server = Deployment::start("--tp 1");
    let pids = server.rank_pids();
    let other =
        post("application/json", r#"{"mode": "abort"}"#).replacen("/v1/completions", "/pause_generation", 1);
    let refused: Answer = server.request(&other);
    assert_eq!((refused.status, refused.error()["param"].as_str()), (400, Some("mode")));
    assert_eq!(server.get("/pause_generation").status, 405);
    let stream = server.long_stream();
    pause(&server);
    server.end(&pids);
    assert!(stream.error().contains("the server is stopping"));
}
