//! The reference answers through HTTP, whatever the group's size and mode and however scarce its pages.

use std::thread;
use std::time::{Duration, Instant};

use lockstep_tests::golden::{Golden, goldens};
use serde_json::{Value, json};

use crate::common::{Deployment, LONG, leaders, long_request, pieces, request, texts};

fn check_whole(server: &Deployment, golden: &Golden) {
    let answer = server.post(&request(golden, false));
    assert_eq!(answer.text(), pieces(golden).concat(), "{:?}", golden.prompt);
    assert_eq!(answer.json()["choices"][0]["finish_reason"], "length");
    assert_eq!(answer.json()["usage"]["completion_tokens"], golden.greedy_ids.len());
}

fn check_streamed(server: &Deployment, golden: &Golden) {
    assert_eq!(texts(server.stream(&request(golden, true))), pieces(golden), "{:?}", golden.prompt);
}

/// Every reference answer at once, whole and streamed.
fn check_all(server: &Deployment) {
    let goldens = goldens();
    thread::scope(|scope| {
        for golden in &goldens {
            scope.spawn(|| check_whole(server, golden));
            scope.spawn(|| check_streamed(server, golden));
        }
    });
}

fn check_group(size: u32) {
    check_modes(size, &["", "--no-overlap"]);
}

fn check_modes(size: u32, modes: &[&str]) {
    for mode in modes {
        let server = Deployment::start(&format!("--tp {size} {mode}"));
        assert!(server.ready.contains(&format!("prefill tp {size}, decode tp {size}")), "{}", server.ready);
        check_whole(&server, &goldens()[0]);
        check_all(&server);
        server.wait_until_drained(256);
        assert_eq!(server.health().1["resumes"], 0, "there were pages enough");
    }
}

#[test]
fn answers_are_the_references_alone() {
    check_group(1);
}

#[test]
fn answers_are_the_references_in_groups_of_two() {
    check_group(2);
}

/// Ranks have one or two of the four key and value heads.
#[test]
fn answers_are_the_references_in_groups_of_three() {
    check_modes(3, &[""]);
}

/// Votes that launches go with are reduced in the devices' queue; the others between the hosts, as ever.
#[test]
fn answers_are_the_references_where_votes_go_in_the_stream() {
    for size in [1, 2, 3] {
        let server = Deployment::start(&format!("--tp {size} --votes-in-stream"));
        check_all(&server);
        server.wait_until_drained(256);
        for role in ["prefill", "decode"] {
            let count = |name| leaders::<u64>(&server, role, &format!("{name}_total"));
            assert!(count("votes") > count("votes_in_stream"), "some rounds launch nothing");
            assert_eq!(count("votes_in_stream"), count("forwards"), "each launch has its vote");
        }
    }
}

/// A request's draws are a function of its seed: the same at any group size, when it is asked for again, and beside greedy ones.
#[test]
fn answers_are_drawn_by_the_requests_seed() {
    let drawn = |server: &Deployment, seed: Option<i64>| {
        let body = json!({"prompt": "In the beginning", "max_tokens": 24, "temperature": 0.8, "seed": seed});
        server.post(&body).text()
    };
    let texts = [1, 2].map(|size| {
        let server = Deployment::start(&format!("--tp {size} --slots 2 --pages 8"));
        let texts = thread::scope(|scope| {
            let greedy = scope.spawn(|| check_whole(&server, &goldens()[0]));
            let texts = [7, 7, -8].map(|seed| drawn(&server, Some(seed)));
            greedy.join().unwrap();
            texts
        });
        assert_ne!(drawn(&server, None), drawn(&server, None), "without a seed one is made up");
        texts
    });
    assert_eq!(texts[0], texts[1]);
    let [first, again, other] = &texts[0];
    assert_eq!(first, again);
    assert_ne!(first, other);
}

/// A rank has one peer or several; where three meet two, heads are shared out across.
#[test]
fn answers_are_the_references_where_groups_differ_in_size() {
    let cases = [([1, 2], ""), ([4, 2], "--fabric tcp"), ([2, 3], "--no-overlap --fabric unix")];
    for ([prefill, decode], flags) in cases {
        let server = Deployment::start(&format!("--prefill-tp {prefill} --decode-tp {decode} {flags}"));
        assert!(
            server.ready.contains(&format!("prefill tp {prefill}, decode tp {decode}")),
            "{}",
            server.ready
        );
        check_all(&server);
        server.wait_until_drained(256);
    }
}

#[test]
fn answers_are_the_references_in_groups_of_four() {
    check_group(4);
}

/// Four requests of 71 positions each need 20 pages together; there are 8.
#[test]
fn answers_under_page_pressure_are_the_same() {
    for mode in ["", "--no-overlap"] {
        let server = Deployment::start(&format!("--slots 4 --pages 8 --page-size 16 {mode}"));
        check_all(&server);
        server.wait_until_drained(8);
        let resumes = server.health().1["resumes"].as_u64().unwrap();
        assert!(resumes > 0, "no request gave its pages up, so this showed nothing");
    }
}

/// The same with copies on the hosts: prefill computes nothing anew where they have room for all, and some of it where they have room for one.
#[test]
fn answers_under_page_pressure_are_the_same_with_copies_on_the_hosts() {
    for (flags, all) in
        [("--swap-pages 32", true), ("--swap-pages 32 --no-overlap", true), ("--swap-pages 2", false)]
    {
        let server = Deployment::start(&format!("--tp 2 --slots 4 --pages 8 --page-size 16 {flags}"));
        check_all(&server);
        server.wait_until_drained(8);
        let restored: u64 = leaders(&server, "decode", "restored_total");
        assert!(restored > 0, "{flags}: no request came back");
        let anew = server.health().1["resumes"].as_u64().unwrap();
        assert_eq!(anew == 0, all, "{flags}: {anew} prefills anew");
    }
}

/// Pages are as many as the memory that they may take holds; a rank of two has half of each page's heads.
#[test]
fn answers_with_a_limit_of_memory_are_the_same() {
    for (size, pages) in [(1, 64), (2, 128)] {
        let server = Deployment::start(&format!("--tp {size} --page-size 8 --kv-memory 1"));
        check_all(&server);
        server.wait_until_drained(pages);
    }
}

/// Three tokens a prefill forward: every prompt is computed in chunks, also the longer ones of a resume.
#[test]
fn answers_are_the_same_when_prompts_are_computed_in_chunks() {
    for mode in ["", "--no-overlap"] {
        let server =
            Deployment::start(&format!("--chunk-tokens 3 --slots 4 --pages 8 --page-size 16 {mode}"));
        check_all(&server);
        server.wait_until_drained(8);
        assert!(server.health().1["resumes"].as_u64().unwrap() > 0, "{}", server.ready);
    }
}

#[test]
fn answers_stream_while_they_are_made() {
    let server = Deployment::start("");
    let (begun, mut times) = (Instant::now(), Vec::new());
    for event in server.stream(&long_request()) {
        times.push(begun.elapsed());
        assert!(event == "[DONE]" || event.contains("text_completion"), "{event}");
    }
    assert_eq!(times.len(), LONG as usize + 1, "an event a token, and the end");
    let (first, last) = (times[0], times[times.len() - 1]);
    assert!(first * 2 < last, "the first of {LONG} tokens came after {first:?}, the last after {last:?}");
}

/// The time in which nobody asks for anything is no gap between forwards.
#[test]
fn answers_far_apart_leave_a_gap_between_forwards_of_one_request_alone() {
    let server = Deployment::start("--tp 1");
    let idle = Duration::from_secs(2);
    for golden in &goldens()[..2] {
        check_whole(&server, golden);
        thread::sleep(idle);
    }
    let gap: f64 = leaders(&server, "decode", "forward_gap_seconds_total");
    assert!(gap > 0.0 && gap < idle.as_secs_f64(), "{gap} s");
}

#[test]
fn answers_to_bad_bodies_say_what_is_wrong() {
    let server = Deployment::start("--tp 1 --pages 8");
    let cases: [(Value, &str); 8] = [
        (json!({"prompt": ""}), "prompt"),
        (json!({"max_tokens": 4}), "prompt"),
        (json!({"prompt": [1024]}), "prompt"),
        (json!({"prompt": "a", "max_tokens": 0}), "max_tokens"),
        (json!({"prompt": "a", "max_tokens": 129}), "max_tokens"),
        (json!({"prompt": "a", "temperature": 2.5}), "temperature"),
        (json!({"prompt": "a", "temperature": 0.5, "top_p": 0.9}), "top_p"),
        (json!({"prompt": "a", "stream": "yes"}), "stream"),
    ];
    for (body, param) in cases {
        let answer = server.post(&body);
        assert_eq!(
            (answer.status, answer.error()["param"].as_str()),
            (400, Some(param)),
            "{body}: {}",
            answer.body
        );
    }
    let broken = server.request(&lockstep_tests::http::post("application/json", "{\"prompt\":"));
    assert_eq!(broken.status, 400);
    assert!(broken.error()["message"].as_str().unwrap().contains("not a JSON object"), "{}", broken.body);
    check_whole(&server, &goldens()[1]);
}
