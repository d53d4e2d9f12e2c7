//! What ranks write down is a behaviour of the model; what a loop that drops, repeats or reorders would have written is not.

use std::fs;
use std::path::{Path, PathBuf};

use lockstep_model::validate::{Divergence, LogError, Verdict, validate};
use lockstep_tests::process::kill;
use lockstep_tests::server::{Scratch, output};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Deployment, story, texts, traces_in};

/// The traces of two ranks a group that served three streams, one of which was left.
fn recorded() -> Deployment {
    let mut server = Deployment::start("--slots 2 --pages 24 --page-size 16");
    assert!(server.stream(&story("And the LORD said", 300)).next().is_some());
    for prompt in ["The wisdom of", "In the beginning"] {
        assert_eq!(texts(server.stream(&story(prompt, 12))).len(), 12);
    }
    server.wait_until_drained(24);
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    server
}

/// Copies of recorded traces, one of which is edited.
struct Copy {
    scratch: Scratch,
    name: &'static str,
    lines: Vec<String>,
}

impl Copy {
    fn of(recorded: &Deployment, name: &'static str) -> Self {
        let scratch = Scratch::default();
        fs::create_dir(scratch.path("traces")).unwrap();
        for file in traces_in(&recorded.scratch) {
            fs::copy(&file, scratch.path("traces").join(file.file_name().unwrap())).unwrap();
        }
        let text = fs::read_to_string(scratch.path("traces").join(name)).unwrap();
        Self { scratch, name, lines: text.lines().map(str::to_owned).collect() }
    }

    fn path(&self) -> PathBuf {
        self.scratch.path("traces").join(self.name)
    }

    /// Index of the first line from `from` on that has all of these in it.
    fn find(&self, from: usize, parts: &[&str]) -> usize {
        let has = |line: &String| parts.iter().all(|part| line.contains(part));
        from + self.lines[from..].iter().position(has).unwrap_or_else(|| panic!("no line has {parts:?}"))
    }

    fn judge(&self) -> Vec<Verdict> {
        let lines: String = self.lines.iter().flat_map(|line| [line, "\n"]).collect();
        fs::write(self.path(), lines).unwrap();
        validate(&traces_in(&self.scratch))
    }

    /// Checks that the trace leaves the model at the line of this index, for a reason that says this.
    fn leaves_at(&self, index: usize, why: &str) {
        let divergence = divergence(self.judge()).unwrap_or_else(|| panic!("nothing leaves: {why}"));
        let at = (divergence.path.clone(), divergence.line);
        assert_eq!(at, (self.path(), index as u64 + 1), "{divergence}");
        assert!(divergence.happened.contains(why), "{divergence}");
    }
}

fn divergence(verdicts: Vec<Verdict>) -> Option<Divergence> {
    verdicts.into_iter().find_map(|verdict| match verdict {
        Verdict::Diverges(divergence) => Some(divergence),
        Verdict::Valid(_) | Verdict::Unjudged(_) => None,
    })
}

fn unjudged(verdicts: Vec<Verdict>) -> Option<LogError> {
    verdicts.into_iter().find_map(|verdict| match verdict {
        Verdict::Unjudged(error) => Some(error),
        Verdict::Valid(_) | Verdict::Diverges(_) => None,
    })
}

const FOLLOWER: &str = "e1-decode-1.ndjson";

#[test]
fn traces_of_a_loop_that_drops_repeats_or_reorders_leave_the_model_there() {
    let recorded = recorded();
    let copy = || Copy::of(&recorded, FOLLOWER);

    let mut dropped = copy();
    let taken = dropped.find(0, &["took", "PagesLanded"]);
    dropped.lines.remove(taken);
    dropped.leaves_at(taken, "never taken");

    let mut lost = copy();
    let drained =
        (2..).find(|&at| lost.lines[at] == "\"drained\"" && lost.lines[at - 1].contains("took")).unwrap();
    lost.lines.drain(drained - 2..drained);
    lost.leaves_at(drained - 2, "never received");

    let mut undrained = copy();
    let turn = "{\"took\":\"Turn\"}";
    let turns: Vec<usize> = (0..undrained.lines.len()).filter(|at| undrained.lines[*at] == turn).collect();
    let is_quiet = |pair: &&[usize]| {
        let between = &undrained.lines[pair[0]..pair[1]];
        !between.iter().any(|line| line == "\"received\"" || line == "\"drained\"")
    };
    let [first, second] = turns.windows(2).find(is_quiet).unwrap() else { unreachable!() };
    let (first, second) = (*first, *second);
    undrained.lines.insert(first, "{\"seen\":[]}".to_owned());
    undrained.leaves_at(second + 1, "the loop turns twice");

    let mut repeated = copy();
    repeated.lines.insert(taken + 1, repeated.lines[taken].clone());
    repeated.leaves_at(taken + 1, "which the loop did not receive");

    let mut reordered = copy();
    let other = reordered.find(taken + 1, &["took", "Retired"]);
    reordered.lines.swap(taken, other);
    reordered.leaves_at(taken, "came first");

    let mut late = copy();
    let fact = late.lines.remove(taken);
    let turn = late.find(taken, &["took", "Turn"]);
    late.lines.insert(turn + 1, fact);
    let next = late.find(taken, &["\""]);
    late.leaves_at(next, "never taken");
}

#[test]
fn traces_of_a_rank_that_does_something_else_leave_the_model_there() {
    let recorded = recorded();
    let copy = || Copy::of(&recorded, FOLLOWER);

    let mut idle = copy();
    let did = idle.find(0, &["did", "Publish"]);
    idle.lines.remove(did);
    idle.leaves_at(did, "did not receive");

    let mut eager = copy();
    eager.lines.insert(did, eager.lines[did].clone());
    let again = eager.find(did + 1, &["\""]);
    eager.leaves_at(again, "the machine was not told");

    let mut vote = copy();
    let entered = vote.find(did, &["entered", "Vote"]);
    vote.lines[entered] = altered(&vote.lines[entered], "/entered/payload/10");
    vote.leaves_at(entered, "other words than its machine");

    let mut outcome = copy();
    let completed = outcome.find(entered, &["took", "Completed", "Vote"]);
    outcome.lines[completed] = altered(&outcome.lines[completed], "/took/Completed/payload/10");
    outcome.leaves_at(completed, "other words than the ranks' entries give");

    let mut skips = copy();
    let brief = skips.find(0, &["entered", "Brief"]);
    skips.lines.remove(brief);
    skips.leaves_at(brief, "had entered nothing");

    let mut invents = copy();
    let drained = invents.find(0, &["drained"]);
    let forward = r#"{"Retired":{"forward":77,"tokens":[1]}}"#;
    let taken = [
        format!(r#"{{"seen":[{{"fact":{forward}}}]}}"#),
        r#""received""#.to_owned(),
        format!(r#"{{"took":{{"Fact":{forward}}}}}"#),
    ];
    invents.lines.splice(drained + 1..drained + 1, taken);
    invents.leaves_at(drained + 3, "cannot happen there");
}

/// A forward whose tokens are told otherwise than they were voted.
#[test]
fn traces_whose_tokens_are_not_those_voted_leave_the_model_at_the_vote() {
    let recorded = recorded();
    let mut copy = Copy::of(&recorded, FOLLOWER);
    let seen = copy.find(0, &["seen", "Retired"]);
    let taken = copy.find(seen, &["took", "Retired"]);
    for (at, place) in [(seen, "/seen/0/fact/Retired/tokens/0"), (taken, "/took/Fact/Retired/tokens/0")] {
        copy.lines[at] = altered(&copy.lines[at], place);
    }
    let vote = copy.find(taken, &["entered", "Vote"]);
    copy.leaves_at(vote, "other words than its machine");
}

/// The line with the number at this place made one less.
fn altered(line: &str, pointer: &str) -> String {
    let mut value: Value = serde_json::from_str(line).unwrap();
    let word = value.pointer_mut(pointer).unwrap();
    *word = Value::from(word.as_u64().unwrap().wrapping_sub(1));
    value.to_string()
}

#[test]
fn traces_that_cannot_be_judged_are_named() {
    let recorded = recorded();
    let judged = |edit: &dyn Fn(&mut Copy)| {
        let mut copy = Copy::of(&recorded, FOLLOWER);
        edit(&mut copy);
        unjudged(copy.judge()).unwrap().to_string()
    };
    type Case<'a> = (&'a str, &'a str, &'a dyn Fn(&mut Copy));
    let cases: [Case<'_>; 8] = [
        ("line 7: this is not what a rank writes", "damage", &|copy| copy.lines[6] = "{\"took\":".to_owned()),
        ("line 7: this is not what a rank writes", "bytes", &|copy| {
            copy.lines[6] = "\u{0}\u{1b}[2J".to_owned()
        }),
        ("line 9: this is not what a rank writes", "depth", &|copy| copy.lines[8] = "[".repeat(1 << 20)),
        ("line 5: the line is longer than", "length", &|copy| copy.lines[4] = " ".repeat(17 << 20)),
        ("the file is empty", "nothing", &|copy| copy.lines = vec![]),
        ("begins with the line `opened`", "order", &|copy| copy.lines.swap(0, 1)),
        ("executed protocol \"0123\"", "another build", &|copy| {
            copy.lines[0] = copy.lines[0].replace(lockstep_spec::FINGERPRINT, "0123");
        }),
        ("lines are left out here", "evidence", &|copy| copy.lines.insert(1, "{\"skipped\":5}".to_owned())),
    ];
    for (why, what, edit) in cases {
        let error = judged(edit);
        assert!(error.contains(why) && error.contains(FOLLOWER), "{what}: {error}");
    }
}

#[test]
fn traces_must_be_of_a_whole_group() {
    let recorded = recorded();
    let files = traces_in(&recorded.scratch);
    let named = |name: &str| files.iter().find(|file| file.ends_with(name)).unwrap().clone();
    let missing = unjudged(validate(&[named("e1-decode-0.ndjson")])).unwrap().to_string();
    assert!(missing.contains("the trace of rank 1 of decode e1 is missing"), "{missing}");
    let twice = unjudged(validate(&[named(FOLLOWER), named(FOLLOWER)])).unwrap().to_string();
    assert!(twice.contains("rank 1 of decode e1 is there twice"), "{twice}");

    let others: Vec<_> = files.iter().filter(|file| !file.ends_with(FOLLOWER)).cloned().collect();
    let verdicts = validate(&others);
    let judged = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Valid(_))).count();
    assert_eq!((verdicts.len(), judged), (2, 1), "{verdicts:?}");

    let mut cut = Copy::of(&recorded, FOLLOWER);
    cut.lines.truncate(cut.lines.len() / 2);
    let divergence = divergence(cut.judge()).unwrap();
    let happened = &divergence.happened;
    assert!(
        happened.contains("(rank 1) after line ") && happened.contains("ends before that"),
        "{divergence}"
    );
}

#[test]
fn traces_are_judged_on_the_command_line() {
    let recorded = recorded();
    let check = |arguments: &[&str]| {
        output(&mut recorded.scratch.command(env!("CARGO_BIN_EXE_tested-lockstep-check"), arguments))
    };
    let traces = recorded.scratch.path("traces");
    let traces = traces.to_str().unwrap();
    let (code, told, errors) = check(&["validate", traces]);
    assert_eq!((code, told.matches("one behaviour of the model (2 ranks").count()), (0, 2), "{told}{errors}");
    let (code, told, _) = check(&["validate", "--json", traces]);
    let first: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert_eq!((code, &first["valid"]["group"]), (0, &Value::from("decode")));
    assert_eq!(first["valid"]["endings"], serde_json::json!(["left", "left"]));
    let follower = recorded.scratch.path("traces").join(FOLLOWER);
    let text = fs::read_to_string(&follower).unwrap();
    fs::write(&follower, text.replacen("{\"took\":\"Turn\"}\n", "", 1)).unwrap();
    let (code, told, _) = check(&["validate", traces]);
    assert_eq!(code, 21, "{told}");
    assert!(told.contains("decode e1: not a behaviour of the model") && told.contains(FOLLOWER), "{told}");
    fs::write(&follower, text).unwrap();
    let (code, _, errors) = check(&["validate", recorded.scratch.path("tmp").to_str().unwrap()]);
    assert_eq!(code, 2, "{errors}");
}

/// The last lines of every rank that could write them are kept, whatever ended it.
#[test]
fn evidence_of_a_loss_is_kept() {
    let server = Deployment::start("");
    let stream = server.long_stream();
    kill(server.rank_pids()[1], Signal::KILL);
    stream.for_each(drop);
    server.wait_for_epoch(2);
    let errors = server.errors();
    let told = errors.lines().find_map(|line| line.strip_prefix("lockstep: the ranks' last lines are in "));
    let bundle = Path::new(told.unwrap_or_else(|| panic!("no evidence: {errors}")));
    let lines = |name: &str| fs::read_to_string(bundle.join(name)).unwrap();
    assert!(!bundle.join("decode-1.ndjson").exists(), "a killed rank cannot speak");
    let last = lines("decode-0.ndjson");
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert!(last["closed"]["failed"].as_str().unwrap().contains("rank 1"), "{last}");
    for idle in ["prefill-0.ndjson", "prefill-1.ndjson"] {
        assert!(lines(idle).lines().last().unwrap().contains("closed"), "{idle}");
    }
}
