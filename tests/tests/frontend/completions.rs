//! The HTTP surface over both groups, whole and streamed, refused and aborted.

use std::thread;

use crate::common::{Server, completion, post, text_of, wait_for};
use serde_json::{Value, json};

#[test]
fn completions_stream_each_token_then_usage_then_done() {
    let server = Server::start(&[]);
    let body = json!({
        "model": "bytes-256", "prompt": "Grüße, ", "max_tokens": 20, "stream": true, "stream_options": {"include_usage": true},
    });
    let events = server.stream(&body).rest();
    assert_eq!(events.len(), 22, "20 tokens, usage, done: {events:?}");
    assert_eq!(events[21], "[DONE]");
    let text: String = events[..20].iter().map(|event| text_of(event)).collect();
    assert_eq!(text, "Grüße, Grüße, Gr");
    let events: Vec<Value> = events[..21].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    assert_eq!(events[18]["choices"][0]["finish_reason"], Value::Null);
    assert_eq!(events[19]["choices"][0]["finish_reason"], "length");
    assert_eq!(events[20]["choices"], json!([]));
    assert_eq!(events[20]["usage"], json!({"prompt_tokens": 9, "completion_tokens": 20, "total_tokens": 29}));
    assert_eq!(events[0]["object"], "text_completion");
    assert_eq!(events[0]["id"], events[20]["id"]);
}

#[test]
fn completions_whole_ones_say_how_they_ended() {
    let server = Server::start(&[]);
    for round in 0..2 {
        let stopped = server.post(&json!({"prompt": "ab.cd", "max_tokens": 20}));
        assert_eq!(stopped.status, 200, "{}", stopped.body);
        assert_eq!(stopped.json()["choices"][0]["text"], "ab.", "round {round}");
        assert_eq!(stopped.json()["choices"][0]["finish_reason"], "stop");
    }
    let ignored = server.post(&json!({"prompt": "ab.cd", "max_tokens": 8, "ignore_eos": true})).json();
    assert_eq!(ignored["choices"][0]["text"], "ab.cdab.");
    assert_eq!(ignored["choices"][0]["finish_reason"], "length");
    let tokens = server.post(&json!({"prompt": [104, 105], "temperature": 0})).json();
    assert_eq!(tokens["choices"][0]["text"], "hihihihihihihihi");
    assert_eq!(tokens["usage"]["completion_tokens"], 16);
}

#[test]
fn completions_many_at_once_stay_apart_and_reach_every_prefill_rank() {
    let server = Server::start(&["--slots", "4"]);
    thread::scope(|scope| {
        for number in 0..24 {
            let server = &server;
            scope.spawn(move || {
                let prompt = format!("<{number}>");
                let answer = server.post(&completion(&prompt, 30, false)).json();
                assert_eq!(answer["choices"][0]["text"], prompt.repeat(10)[..30], "{answer}");
            });
        }
    });
    let log = server.log();
    for rank in ["prefill rank 0", "prefill rank 1"] {
        let legs = log.lines().filter(|line| line.starts_with(rank) && line.contains(" Leg {"));
        assert_eq!(legs.count(), 48, "two legs a request, for {rank}");
    }
    assert!(!log.contains("decode rank 1"), "a follower is told nothing");
}

#[test]
fn completions_a_client_that_leaves_is_aborted_once() {
    let server = Server::start(&[]);
    let mut streamed = server.stream(&completion("!slow stream", 200, true));
    assert_eq!(text_of(&streamed.next().unwrap()), "!");
    let whole = server.send(&post("application/json", &completion("!slow whole", 200, false).to_string()));
    wait_for("both are submitted", || server.log().matches("Submit").count() == 2);
    drop(streamed);
    wait_for("the stream's abort", || server.log().contains("Abort { request: 0 }"));
    assert!(!server.log().contains("Abort { request: 1 }"));
    drop(whole);
    wait_for("the other's abort", || server.log().contains("Abort { request: 1 }"));
    let finished = server.post(&completion("ab", 4, false));
    assert_eq!(finished.status, 200);
    assert_eq!(server.log().matches("Abort").count(), 2, "{}", server.log());
    assert!(
        server
            .log()
            .lines()
            .filter(|line| line.contains("Abort"))
            .all(|line| line.starts_with("decode rank 0 "))
    );
}

#[test]
fn completions_a_failed_request_fails_alone() {
    let server = Server::start(&[]);
    let events = server.stream(&completion("!fail", 9, true)).rest();
    assert_eq!(events.len(), 3, "two tokens and the error, no done: {events:?}");
    let error: Value = serde_json::from_str(&events[2]).unwrap();
    assert!(
        error["error"]["message"].as_str().unwrap().contains("the transfer of its KV cache failed"),
        "{error}"
    );
    assert_eq!(server.log().matches("Submit").count(), 2, "it was tried once more");
    let whole = server.post(&completion("!fail", 9, false));
    assert_eq!(whole.status, 500);
    assert_eq!(whole.error()["code"], "request_failed");
    assert_eq!(server.post(&completion("ab", 2, false)).status, 200);
}

#[test]
fn completions_a_transfer_that_fails_once_is_not_noticed() {
    let server = Server::start(&[]);
    assert_eq!(server.post(&completion("!stumble", 9, false)).text(), "!stumble!");
    assert_eq!(server.log().matches("Submit").count(), 2);
}

#[test]
fn completions_refusals_come_in_openais_form() {
    let server = Server::start(&["--pages", "4", "--page-size", "16"]);
    let cases = [
        (json!({"prompt": ""}), 400, "prompt"),
        (json!({"prompt": []}), 400, "prompt"),
        (json!({"prompt": [256]}), 400, "prompt"),
        (json!({"prompt": "a", "max_tokens": 65}), 400, "max_tokens"),
        (json!({"prompt": "a", "max_tokens": 0}), 400, "max_tokens"),
        (json!({"prompt": "a", "temperature": 3}), 400, "temperature"),
        (json!({"prompt": "a", "n": 2}), 400, "n"),
        (json!({"prompt": "a", "stop": ["x"]}), 400, "stop"),
        (json!({"prompt": "a", "model": "gpt-9"}), 404, "model"),
    ];
    for (body, status, param) in cases {
        let answer = server.post(&body);
        assert_eq!(
            (answer.status, answer.error()["param"].as_str()),
            (status, Some(param)),
            "{body}: {}",
            answer.body
        );
        assert_eq!(answer.error()["type"], "invalid_request_error");
    }
    assert_eq!(server.post(&json!({"prompt": "a", "max_tokens": 64, "ignore_eos": true})).status, 200);
    assert_eq!(server.request(&post("application/json", "{\"prompt\": ")).status, 400);
    assert_eq!(server.request(&post("text/plain", "{}")).status, 415);
    assert_eq!(server.request(&post("application/json", &" ".repeat(2 * 1024 * 1024 + 1))).status, 413);
    assert_eq!(server.get("/v1/completions").status, 405);
    assert_eq!(server.get("/nowhere").error()["message"], "there is nothing at /nowhere");
    assert!(!server.log().contains("Abort"));
}

#[test]
fn completions_beyond_the_queue_are_told_when_to_come_back() {
    let server = Server::start(&["--max-queue", "1"]);
    let mut first = server.stream(&completion("!slow", 200, true));
    first.next().unwrap();
    let refused = server.post(&completion("ab", 2, false));
    assert_eq!(refused.status, 429);
    assert!(refused.headers.contains("retry-after: 1"), "{}", refused.headers);
    assert_eq!(refused.error()["type"], "rate_limit_error");
    drop(first);
    wait_for("room in the queue", || server.post(&completion("ab", 2, false)).status == 200);
}

#[test]
fn completions_neighbours_tell_model_and_health() {
    let server = Server::start(&[]);
    let models = server.get("/v1/models").json();
    assert_eq!(models["data"][0]["id"], "bytes-256");
    assert_eq!(server.get("/livez").status, 200);
    assert_eq!(server.get("/readyz").status, 200);
    let (status, health) = server.health();
    assert_eq!((status, health["status"].as_str()), (200, Some("ok")));
    for (place, role) in ["decode", "prefill"].into_iter().enumerate() {
        assert_eq!(health["groups"][place]["role"], role);
        for rank in health["groups"][place]["ranks"].as_array().unwrap() {
            assert_eq!(rank["state"], "ready", "{rank}");
            assert!(rank["age_ms"].as_u64().unwrap() < 3000, "{rank}");
        }
    }
    let metrics = server.get("/metrics");
    assert!(metrics.headers.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.headers);
    assert!(metrics.body.contains("lockstep_ready 1\n"), "{}", metrics.body);
    assert!(metrics.body.contains("\nlockstep_queue_limit_requests 256\n"), "{}", metrics.body);
    wait_for("rounds go on while idle", || {
        server.health().1["groups"][1]["ranks"][1]["round"].as_u64() > Some(10)
    });
}
