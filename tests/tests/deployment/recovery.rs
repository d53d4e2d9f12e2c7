//! Ranks that die in the middle of work: the streams go on as if nothing had happened, and nothing of the old epoch is left.

use std::fs;
use std::thread;
use std::time::Duration;

use lockstep_tests::golden::goldens;
use lockstep_tests::http::{Events, completion, text_of};
use lockstep_tests::places::model_directory;
use lockstep_tests::process::{kill, lives, wait_for};
use lockstep_tests::server::Scratch;
use rustix::process::Signal;

use crate::common::{Deployment, pieces, request, story, texts};

const PROMPTS: [&str; 3] = ["The wisdom of", "In the beginning", "And the LORD said"];

/// Tokens of each stream; the death comes after [`BEGUN`] of the first.
const TOKENS: u32 = 300;
const BEGUN: usize = 20;

/// What clients get when nothing happens.
struct Undisturbed(Vec<Vec<String>>);

impl Undisturbed {
    fn on(server: &Deployment) -> Self {
        Self(streams(server).into_iter().map(texts).collect())
    }

    /// Runs the streams again, with `disturb` in the middle of the first, and checks that they are the same to the letter.
    fn check(&self, server: &Deployment, disturb: impl FnOnce()) {
        let mut streams = streams(server);
        let begun: Vec<String> = streams[0].by_ref().take(BEGUN).map(|event| text_of(&event)).collect();
        disturb();
        let mut told: Vec<Vec<String>> = streams.into_iter().map(texts).collect();
        told[0].splice(..0, begun);
        assert_eq!(told, self.0);
    }
}

fn streams(server: &Deployment) -> Vec<Events> {
    PROMPTS.iter().map(|prompt| server.stream(&story(prompt, TOKENS))).collect()
}

/// Kills each rank in turn under running streams.
fn check_each_rank(arguments: &str) {
    let server = Deployment::start(arguments);
    let undisturbed = Undisturbed::on(&server);
    let ranks = server.rank_pids().len();
    for place in 0..ranks {
        let pids = server.rank_pids();
        undisturbed.check(&server, || kill(pids[place], Signal::KILL));
        server.wait_for_epoch(2 + place as u64);
        assert!(pids.iter().all(|&pid| !lives(pid)), "a rank of an old epoch lives: {}", server.errors());
        let culprit = format!("(pid {}) was killed by signal 9", pids[place]);
        assert!(server.errors().contains(&culprit), "{culprit}: {}", server.errors());
    }
    server.wait_until_drained(256);
    let golden = &goldens()[0];
    assert_eq!(server.post(&request(golden, false)).text(), pieces(golden).concat());
    assert_eq!(server.health().1["restarts"], ranks);
    let pids = server.rank_pids();
    server.end(&pids);
}

#[test]
fn recovery_from_the_death_of_each_rank_of_groups_of_two() {
    check_each_rank("");
}

#[test]
fn recovery_from_the_death_of_each_rank_alone_without_overlap() {
    check_each_rank("--tp 1 --no-overlap");
}

/// Its peers wait in the devices' queue, and not in a round.
#[test]
fn recovery_from_the_death_of_each_rank_where_votes_go_in_the_stream() {
    check_each_rank("--votes-in-stream");
}

#[test]
fn recovery_from_the_death_of_each_rank_of_groups_that_differ_in_size() {
    check_each_rank("--prefill-tp 1 --decode-tp 2");
}

/// Streams that were retracted, wait for pages, or wait for a slot go on as well.
#[test]
fn recovery_under_page_pressure() {
    let server = Deployment::start("--slots 2 --pages 24 --page-size 16");
    let undisturbed = Undisturbed::on(&server);
    let leader = server.rank_pids()[0];
    undisturbed.check(&server, || kill(leader, Signal::KILL));
    server.wait_for_epoch(2);
    server.wait_until_drained(24);
}

/// Nothing closes the connections of a rank that is stopped: the supervisor sees it and kills it. A client that leaves meanwhile is not
/// served in the next epoch.
#[test]
fn recovery_from_a_rank_that_is_stopped() {
    let server = Deployment::start("");
    let undisturbed = Undisturbed::on(&server);
    let (pids, leaves) = (server.rank_pids(), server.long_stream());
    undisturbed.check(&server, || {
        kill(pids[1], Signal::STOP);
        drop(leaves);
    });
    server.wait_for_epoch(2);
    assert!(!lives(pids[1]));
    let words = server.errors();
    assert!(words.contains("has been stopped by a signal for 2 s and is killed"), "{words}");
    assert!(words.contains("missing: rank 1"), "{words}");
    server.wait_until_drained(256);
}

/// Whoever is stopped for a moment only, or slowed down, loses nothing.
#[test]
fn recovery_is_not_needed_after_a_short_stop() {
    let server = Deployment::start("");
    let undisturbed = Undisturbed::on(&server);
    for pid in server.rank_pids() {
        undisturbed.check(&server, || {
            kill(pid, Signal::STOP);
            thread::sleep(Duration::from_secs(1));
            kill(pid, Signal::CONT);
        });
    }
    assert_eq!(server.health().1["epoch"], 1, "{}", server.errors());
}

#[test]
fn recovery_is_given_up_when_ranks_can_not_start_again() {
    let scratch = Scratch::default();
    let model = scratch.path("model");
    fs::create_dir(&model).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(model_directory().join(name), model.join(name)).unwrap();
    }
    let server = Deployment::start(&format!("--restarts 2 --model {}", model.display()));
    let stream = server.long_stream();
    fs::remove_file(model.join("model.safetensors")).unwrap();
    kill(server.rank_pids()[3], Signal::KILL);
    let error = stream.error();
    assert!(error.contains("model.safetensors"), "{error}");
    wait_for("the last word", || server.errors().contains("no epoch follows: 2 of 2 restarts"));
    let refused = server.post(&completion("In the beginning", 4, false));
    assert_eq!((refused.status, refused.error()["code"].as_str()), (503, Some("group_lost")));
    server.end(&[]);
}
