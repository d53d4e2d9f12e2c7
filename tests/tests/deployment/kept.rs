//! Prompts that begin alike: their pages are computed once, and nobody can tell but by the metrics.

use std::thread;

use lockstep_tests::golden::goldens;
use lockstep_tests::http::text_of;
use lockstep_tests::process::kill;
use rustix::process::Signal;
use serde_json::json;

use crate::common::{Deployment, leaders, long_request, pieces, request, story, texts};

fn matched(server: &Deployment) -> u64 {
    leaders(server, "prefill", "pages_matched_total")
}

/// Asks for every reference answer, all at once, and waits until all is free again.
fn check_all(server: &Deployment, pages: u32) {
    let goldens = goldens();
    thread::scope(|scope| {
        for golden in &goldens {
            let ask = move || texts(server.stream(&request(golden, true)));
            scope.spawn(move || assert_eq!(ask(), pieces(golden), "{:?}", golden.prompt));
        }
    });
    server.wait_until_drained(pages);
}

#[test]
fn kept_pages_are_not_computed_again_and_answers_are_the_same() {
    for mode in ["--tp 1", "--tp 2 --no-overlap", "--prefill-tp 2 --decode-tp 1 --chunk-tokens 3"] {
        let server = Deployment::start(&format!("--pages 256 --page-size 2 {mode}"));
        check_all(&server, 256);
        let before = matched(&server);
        check_all(&server, 256);
        assert!(matched(&server) >= before + goldens().len() as u64, "{mode}: {before}");
        assert!(leaders::<u64>(&server, "prefill", "pages_kept") > 0);
        assert_eq!(leaders::<u64>(&server, "decode", "pages_kept"), 0);
    }
}

/// A second word of a conversation begins with all that was said before.
#[test]
fn kept_pages_are_those_of_the_conversation_so_far() {
    let server = Deployment::start("--page-size 4");
    let prompt: Vec<u32> = (1..42).collect();
    let ask = |prompt: &[u32]| {
        let answer = server.post(&json!({"prompt": prompt, "max_tokens": 1, "ignore_eos": true}));
        assert_eq!(answer.status, 200, "{}", answer.body);
        server.wait_until_drained(256);
        matched(&server)
    };
    assert_eq!(ask(&prompt), 0);
    assert_eq!(ask(&prompt), 10, "all full pages");
    let longer: Vec<u32> = (1..62).collect();
    assert_eq!(ask(&longer), 20, "the same");
    assert_eq!(ask(&longer), 35);
    assert_eq!(ask(&prompt[..40]), 44, "its last token is computed, for the one that follows");
    assert_eq!(ask(&prompt[1..]), 44, "it begins otherwise");
}

#[test]
fn kept_pages_are_none_where_none_are_wanted() {
    let server = Deployment::start("--page-size 2 --prefix-pages 0");
    check_all(&server, 256);
    check_all(&server, 256);
    assert_eq!((matched(&server), leaders::<u64>(&server, "prefill", "pages_kept")), (0, 0));
}

/// The pool has room for one prompt at a time; the hosts have room for all.
#[test]
fn kept_pages_come_back_from_the_host() {
    for mode in ["", "--no-overlap"] {
        let server =
            Deployment::start(&format!("--slots 2 --pages 36 --page-size 2 --host-pages 256 {mode}"));
        let other: Vec<u32> = (1..60).collect();
        let others = json!({"prompt": other, "max_tokens": 1, "ignore_eos": true});
        for _ in 0..3 {
            check_all(&server, 36);
            assert_eq!(server.post(&others).status, 200);
        }
        assert!(leaders::<u64>(&server, "prefill", "pages_loaded_total") > 0);
    }
}

/// What was kept goes with the epoch, and what comes after it is the same.
#[test]
fn kept_pages_go_with_their_epoch() {
    let server = Deployment::start("--page-size 4 --host-pages 64");
    let whole = texts(server.stream(&long_request()));
    let mut stream = server.stream(&long_request());
    let begun: Vec<String> = stream.by_ref().take(20).map(|event| text_of(&event)).collect();
    kill(*server.rank_pids().last().unwrap(), Signal::KILL);
    let told: Vec<String> = begun.into_iter().chain(texts(stream)).collect();
    assert_eq!(told, whole);
    server.wait_for_epoch(2);
    assert_eq!(texts(server.stream(&story("The wisdom of", 8))).len(), 8);
}
