//! The page of `lockstep-check explore`, as a person uses it.

use std::fs;

use lockstep_tests::server::Scratch;
use serde_json::{Value, json};

use crate::checker::{Explorer, RUN, STEPS, said};
use crate::driver::Browser;

const LEFT: char = '\u{e012}';
const RIGHT: char = '\u{e014}';
const HOME: char = '\u{e011}';

/// Opens an address and waits until the page is drawn.
fn open(browser: &Browser, address: &str) {
    // An address that differs in its hash alone would not be loaded anew.
    browser.open("about:blank");
    browser.open(address);
    let drawn = "return new Promise(done => { \
                 const look = () => document.body.dataset.shown ? done() : setTimeout(look, 10); look(); })";
    browser.run(drawn, json!([]));
}

/// Clicks the action of this name.
fn take(browser: &Browser, action: &str) {
    browser.click(&format!("//button[contains(@class,'offer')][span[@class='name'][.='{action}']]"));
}

/// Takes the first steps of the counterexample.
fn take_steps(browser: &Browser, steps: usize) {
    for (index, action) in STEPS.iter().enumerate().take(steps) {
        take(browser, action);
        let step = index + 1;
        browser.wait_for("#count", &format!("step {step} of {step}"));
    }
}

/// The link to the shown state, and all cells of it.
fn state(browser: &Browser) -> (String, String) {
    let link = browser.run("return location.href", json!([])).as_str().unwrap().to_owned();
    browser.press('f');
    browser.wait_for(".row.now .whole", "waits in");
    let cells =
        "return [...document.querySelectorAll('.row.now .whole')].map(lane => lane.innerText).join('|')";
    let cells = browser.run(cells, json!([])).as_str().unwrap().to_owned();
    browser.press('f');
    (link, cells)
}

#[test]
fn page_steps_through_a_run_to_its_violation() {
    let (explorer, browser) = (Explorer::start(Scratch::default(), RUN), Browser::start());
    open(&browser, &explorer.address);
    assert_eq!((browser.text("#run"), browser.text("#count")), (RUN.to_owned(), "step 0 of 0".to_owned()));
    take_steps(&browser, 9);
    assert_eq!(browser.count(".wrong"), 0);
    assert_eq!(browser.count(".row .band.joined, .row .band.joins"), 2, "one band over two lanes");
    assert!(browser.text(".offer.bad").contains("leads to: violates matched"));
    take(&browser, STEPS[9]);
    browser.wait_for("#here .wrong", "violates matched");
    assert_eq!((browser.count(".row.now .band.broken"), browser.count(".row.now .cross")), (2, 1));
    browser.wait_for(".mark.no-return", "point of no return");
    assert!(browser.text("#here").contains("The point of no return was step 9"));
    browser.back();
    browser.wait_for("#count", "step 9 of 9");
    assert_eq!(browser.count("#here .wrong"), 0, "the state before is not at fault");
}

#[test]
fn page_moves_along_a_path_by_keys() {
    let (explorer, browser) = (Explorer::start(Scratch::default(), RUN), Browser::start());
    open(&browser, &explorer.address);
    take_steps(&browser, 3);
    browser.press(LEFT);
    browser.wait_for("#count", "step 2 of 3");
    assert_eq!(browser.count(".row.ahead"), 1);
    browser.press(RIGHT);
    browser.wait_for("#count", "step 3 of 3");
    browser.press(HOME);
    browser.wait_for("#count", "step 0 of 3");
    browser.press('2');
    browser.wait_for("#count", "step 1 of 1");
}

#[test]
fn page_link_leads_to_the_same_state_elsewhere() {
    let (link, cells) = {
        let (explorer, browser) = (Explorer::start(Scratch::default(), RUN), Browser::start());
        open(&browser, &explorer.address);
        take_steps(&browser, 6);
        state(&browser)
    };
    let (explorer, browser) = (Explorer::start(Scratch::default(), RUN), Browser::start());
    let (_, place) = link.split_once('#').unwrap();
    open(&browser, &format!("{}#{place}", explorer.address));
    assert_eq!(browser.text("#count"), "step 6 of 6");
    assert_eq!(state(&browser).1, cells);
    assert!(cells.contains("request 0 Handshaking shaken"), "{cells}");
    browser.press(LEFT);
    browser.wait_for("#count", "step 5 of 6");
    assert_ne!(state(&browser).1, cells, "another state is told apart");
}

#[test]
fn page_says_what_is_wrong_with_a_link() {
    let (explorer, browser) = (Explorer::start(Scratch::default(), RUN), Browser::start());
    let cases = [
        (
            format!("#run={RUN}&path=0.1.77"),
            "step 2 of the path takes action 77, and possible there are only 0 to",
        ),
        (format!("#run={RUN}&path=0..1"), "`0..1` is no path"),
        (format!("#run={RUN}&path=0.1&at=9"), "there is no state after step 9"),
        (format!("#run={RUN}&build=old&path=0.1"), "the link is of build old, and this is build "),
        ("#run=nothing&path=0".to_owned(), "no run of this build is called `nothing`"),
    ];
    for (place, expected) in cases {
        open(&browser, &format!("{}{place}", explorer.address));
        let message = browser.text("#message");
        assert!(message.contains(expected), "{place}: {message}");
        assert!(explorer.errors().contains(expected), "{place}: {}", explorer.errors());
    }
    open(&browser, &format!("{}#run={RUN}&path=0.1.77", explorer.address));
    browser.click("//a[.='go as far as the path leads']");
    browser.wait_for("#count", "step 1 of 1");
}

#[test]
fn page_finds_and_follows_a_counterexample() {
    let (explorer, browser) = (Explorer::start(Scratch::default(), RUN), Browser::start());
    open(&browser, &explorer.address);
    browser.click("//button[@id='find']");
    browser.wait_for("#count", "step 10 of 10");
    browser.wait_for(".mark.ending", "matched violated after 10 steps");
    assert_eq!(browser.text("#verdict"), "violates matched");
    browser.press(HOME);
    browser.wait_for(".offer.next", STEPS[0]);
    take(&browser, "rank 1 turns");
    browser.wait_for("#count", "step 1 of 1");
    assert_eq!(browser.count(".mark"), 0, "what holds of the counterexample is not said of another path");
}

#[test]
fn page_opens_a_trace_file() {
    let scratch = Scratch::default();
    said(&scratch, &["explain", RUN, "--format", "json", "--output", "t.json"], 0);
    let file = scratch.path("tmp").join("t.json");
    let written = fs::read_to_string(&file).unwrap();
    fs::write(scratch.path("tmp").join("old.json"), written.replace("\"spec\": \"", "\"spec\": \"0"))
        .unwrap();
    let foreign = scratch.path("foreign.json");
    fs::write(&foreign, written.replace(RUN, "elsewhere")).unwrap();
    let browser = Browser::start();
    let explorer = Explorer::start(scratch, "old.json");
    open(&browser, &explorer.address);
    assert_eq!(
        (browser.text("#count"), browser.text("#verdict")),
        ("step 10 of 10".into(), "violates matched".into())
    );
    browser.wait_for("#warnings", "the trace is of another specification");
    assert!(explorer.errors().contains("the trace is of another specification"));
    let foreign = Explorer::start(Scratch::default(), foreign.to_str().unwrap());
    open(&browser, &foreign.address);
    browser.wait_for("#warnings", "this build has no run `elsewhere`");
    browser.wait_for("#here", "as it was recorded");
    assert_eq!(browser.count(".offer"), 0);
}

#[test]
fn page_stands_alone() {
    let scratch = Scratch::default();
    said(&scratch, &["explore", RUN, "--output", "t.html"], 0);
    let browser = Browser::start();
    let address = format!("file://{}", scratch.path("tmp").join("t.html").display());
    open(&browser, &address);
    assert_eq!(
        (browser.text("#count"), browser.text("#verdict")),
        ("step 10 of 10".into(), "violates matched".into())
    );
    assert!(browser.text("#here .wrong").contains("violates matched"));
    assert!(browser.text(".row .guard").contains("a receiver here is not WaitingForInput yet? no"));
    open(&browser, &format!("{address}#at=4"));
    assert_eq!(browser.text("#count"), "step 4 of 10");
    open(&browser, &format!("{address}#at=40"));
    assert!(browser.text("#message").contains("has steps 0 to 10, and no step 40"));
}

/// The trace with an idle lane between its two.
fn parted(trace: &mut Value) {
    let lanes = |items: &mut Value| {
        for item in items.as_array_mut().unwrap() {
            if item["lane"].as_u64() >= Some(1) {
                item["lane"] = (item["lane"].as_u64().unwrap() + 1).into();
            }
        }
    };
    trace["run"] = "parted".into();
    trace["start"]["lanes"].as_array_mut().unwrap().insert(1, json!({ "title": "idle", "cells": [] }));
    for step in trace["steps"].as_array_mut().unwrap() {
        lanes(&mut step["events"]);
        lanes(&mut step["changes"]);
    }
}

#[test]
fn page_joins_ranks_that_are_apart() {
    let scratch = Scratch::default();
    said(&scratch, &["explain", RUN, "--format", "json", "--output", "t.json"], 0);
    let file = scratch.path("tmp").join("t.json");
    let mut trace: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    parted(&mut trace);
    fs::write(&file, trace.to_string()).unwrap();
    said(&scratch, &["explore", "t.json", "--output", "t.html"], 0);
    let browser = Browser::start();
    open(&browser, &format!("file://{}", scratch.path("tmp").join("t.html").display()));
    assert_eq!(browser.count(".row .band.leads-on"), 2, "one collective that completes, one that does not");
    assert_eq!(browser.count(".row .band.goes-on"), 2);
    assert_eq!(browser.count(".row .thread:not(.broken)"), 1);
    assert_eq!(browser.count(".row .thread.broken .cross"), 1);
    // The thread reaches from one band to the other.
    let gaps = "const at = (name) => document.querySelector(name).getBoundingClientRect(); \
                const line = at('.thread:not(.broken)'); \
                return [line.left - at('.band.leads-on').right, at('.band.goes-on').left - line.right]";
    let gaps: Vec<f64> = serde_json::from_value(browser.run(gaps, json!([]))).unwrap();
    assert!(gaps.iter().all(|gap| (0.0..=22.0).contains(gap)), "{gaps:?}");
}

#[test]
fn page_is_refused_on_the_terminal() {
    let scratch = Scratch::default();
    assert!(said(&scratch, &["explore", "nothing"], 2).contains("neither a file nor a run"));
    assert!(said(&scratch, &["explore", "--output", "t.html"], 2).contains("name a trace file or a run"));
    fs::write(scratch.path("tmp").join("cut.json"), "{\"format\": \"lockstep-trace\",").unwrap();
    assert!(said(&scratch, &["explore", "cut.json"], 2).contains("no whole trace"));
    let explorer = Explorer::start(Scratch::default(), RUN);
    let port = explorer.address.trim_end_matches('/').rsplit(':').next().unwrap();
    let taken = said(&scratch, &["explore", RUN, "--port", port], 2);
    assert!(taken.contains(&format!("cannot listen on port {port} of 127.0.0.1")), "{taken}");
}
