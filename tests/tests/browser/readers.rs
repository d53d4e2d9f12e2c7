//! What `explain` draws, read by the programs that it is drawn for: Mermaid, and the browser itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use lockstep_tests::places::workspace;
use lockstep_tests::server::{Scratch, output};
use serde_json::{Value, json};

use crate::checker::{RUN, said};
use crate::driver::Browser;

/// A mismatch, a stuck group, a fair cycle, and two groups with links.
const RUNS: [&str; 4] =
    [RUN, "conventional-local-run-or-idle-normal", "agreed-mutant-admits-ahead", "two-groups-ack-fence"];

/// Mermaid, fetched first if need be.
fn mermaid() -> PathBuf {
    let script = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("readers").join("mermaid.min.js");
    let mut fetch = Command::new("python3");
    fetch.arg(workspace().join("tests/fetch.py")).arg("mermaid").arg(&script);
    let (code, out, errors) = output(&mut fetch);
    assert_eq!(code, 0, "{out}{errors}\ninstall python3 with pip (Debian: python3 python3-pip)");
    script
}

fn drawn(scratch: &Scratch, run: &str, format: &str) -> PathBuf {
    let name = format!("{run}.{format}");
    said(scratch, &["explain", run, "--format", format, "--output", &name], 0);
    scratch.path("tmp").join(name)
}

/// What Mermaid makes of a text: its kind, and how many of what is in the drawing.
const RENDERED: &str = "return (async () => { \
    mermaid.initialize({ startOnLoad: false, securityLevel: 'strict' }); \
    const { svg, diagramType } = await mermaid.render('drawn', arguments[0]); \
    document.body.innerHTML = svg; \
    const count = (name) => document.querySelectorAll(name).length; \
    return { type: diagramType, actors: count('.actor-top'), notes: count('.note'), \
             arrows: count('.messageLine0, .messageLine1'), text: document.body.textContent }; })()";

/// A browser whose page has loaded Mermaid.
fn with_mermaid(scratch: &Scratch) -> Browser {
    let page = scratch.path("tmp").join("page.html");
    fs::write(&page, format!("<body><script src=\"file://{}\"></script></body>", mermaid().display()))
        .unwrap();
    let browser = Browser::start();
    browser.open(&format!("file://{}", page.display()));
    browser
}

#[test]
fn readers_mermaid_renders_what_explain_draws() {
    let scratch = Scratch::default();
    let browser = with_mermaid(&scratch);
    for run in RUNS {
        let text = fs::read_to_string(drawn(&scratch, run, "mermaid")).unwrap();
        let rendered = browser.run(RENDERED, json!([text]));
        let lines = |starts: &str| text.lines().filter(|line| line.trim().starts_with(starts)).count();
        let arrows =
            text.lines().filter(|line| ["->>", "--x"].iter().any(|arrow| line.contains(arrow))).count();
        let expected = json!({ "type": "sequence", "actors": lines("participant"), "notes": lines("Note over"), "arrows": arrows });
        assert!(
            expected.as_object().unwrap().iter().all(|(field, value)| rendered[field] == *value),
            "{run}: {rendered}"
        );
        assert!(rendered["text"].as_str().unwrap().contains("violate"), "{run}: {rendered}");
    }
}

#[test]
fn readers_mermaid_refuses_what_is_no_diagram() {
    let scratch = Scratch::default();
    let browser = with_mermaid(&scratch);
    let parse =
        "return mermaid.parse('sequenceDiagram\\n  A->>: 1. x').then(() => 'parsed', () => 'refused')";
    assert_eq!(browser.run(parse, json!([])), "refused");
}

/// Texts that leave the sheet, and pairs of texts that overlap.
const MISPLACED: &str = "const sheet = document.documentElement.viewBox.baseVal; \
    const boxes = [...document.querySelectorAll('text')].map(text => ({ said: text.textContent, box: text.getBBox() })); \
    const outside = boxes.filter(({ box }) => box.x < 0 || box.x + box.width > sheet.width || box.y + box.height > sheet.height); \
    const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y + 3 < b.y + b.height && b.y + 3 < a.y + a.height; \
    const pairs = boxes.flatMap((one, index) => boxes.slice(index + 1).filter(other => meet(one.box, other.box)) \
        .map(other => one.said + ' | ' + other.said)); \
    return { texts: boxes.length, outside: outside.map(({ said }) => said), pairs };";

#[test]
fn readers_svg_is_laid_out_without_overlap() {
    let (scratch, browser) = (Scratch::default(), Browser::start());
    for run in RUNS {
        browser.open(&format!("file://{}", drawn(&scratch, run, "svg").display()));
        let layout = browser.run(MISPLACED, json!([]));
        let is_empty = |field: &str| layout[field].as_array().is_some_and(Vec::is_empty);
        assert!(is_empty("outside") && is_empty("pairs"), "{run}: {layout}");
        assert!(layout["texts"].as_u64() > Some(20), "{run}: {layout}");
    }
}

#[test]
fn readers_svg_overlap_is_noticed() {
    let (scratch, browser) = (Scratch::default(), Browser::start());
    let file = scratch.path("tmp").join("wrong.svg");
    let text = r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 40"><text x="5" y="20">one one</text><text x="9" y="22">two</text><text x="70" y="20">leaves</text></svg>"#;
    fs::write(&file, text).unwrap();
    browser.open(&format!("file://{}", file.display()));
    let layout = browser.run(MISPLACED, json!([]));
    assert_eq!(layout["outside"], json!(["leaves"]), "{layout}");
    assert!(
        layout["pairs"].as_array().is_some_and(|pairs| pairs.contains(&Value::from("one one | two"))),
        "{layout}"
    );
}
