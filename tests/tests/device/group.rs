//! Groups of real processes on the stand-ins: collectives, and what becomes of a rank whose peer does not enter one.

use std::process::Child;

use lockstep_tests::golden::goldens;
use lockstep_tests::places::model_directory;
use lockstep_tests::server::{Scratch, output};
use lockstep_tests::standin::Standin;
use serde_json::{Value, json};

use crate::common::{cache, device_rank, standin};

/// How a rank ended: exit code, answer, errors.
type End = (i32, String, String);

/// Plays a scenario with a rank on each of these devices, in a group of `size`.
fn play_on(devices: &[usize], size: usize, scenario: &str) -> Vec<End> {
    run_on(devices, size, ["group", scenario])
}

/// Runs what is called so, with this last word.
fn run_on(devices: &[usize], size: usize, [what, last]: [&str; 2]) -> Vec<End> {
    let scratch = Scratch::default();
    let id = scratch.path("id");
    let start = |(rank, device): (usize, &usize)| -> Child {
        let [device, rank, size] = [*device, rank, size].map(|number| number.to_string());
        let words = [what, &device, &rank, &size, id.to_str().unwrap(), last];
        let mut command = scratch.command(env!("CARGO_BIN_EXE_device-rank"), &words);
        standin().lend(&mut command, 4).spawn().unwrap()
    };
    let children: Vec<Child> = devices.iter().enumerate().map(start).collect();
    children.into_iter().map(end).collect()
}

/// Plays a scenario with a whole group, each rank on a device of its own.
fn play(scenario: &str, size: usize) -> Vec<End> {
    play_on(&(0..size).collect::<Vec<_>>(), size, scenario)
}

fn end(child: Child) -> End {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn answer((code, answer, errors): &End) -> Value {
    assert_eq!(*code, 0, "{errors}");
    serde_json::from_str(answer).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

#[test]
fn group_reduces_and_broadcasts_to_every_rank() {
    for size in [2u32, 4] {
        let ends = play("reduce", size as usize);
        let ranks: u32 = (0..size).sum();
        let sum = |index: u32| (size * (index % 7) + ranks) as f32;
        let total = |length: u32| (0..length).map(sum).sum::<f32>();
        let sums = [1u32, 1000, 40_000].map(|length| json!([sum(0), sum(length - 1), total(length)]));
        let narrow = [1.0f32, 2.5].map(|number| size as f32 * number + ranks as f32);
        let narrow: Vec<u8> =
            narrow.iter().flat_map(|sum| (sum.to_bits() >> 16).to_le_bytes()[..2].to_vec()).collect();
        for end in &ends {
            let expected = json!({
                "sums": sums,
                "narrow": narrow,
                "votes": [u64::MAX - u64::from(size - 1), 5, 0],
                "word": [40 + size - 1],
                "entered": 6,
            });
            assert_eq!(answer(end), expected, "{size} ranks");
        }
    }
}

#[test]
fn group_whose_rank_skips_a_collective_is_named_and_aborted_by_the_others() {
    for size in [2, 4] {
        let ends = play("skip", size);
        for (rank, end) in ends.iter().take(size - 1).enumerate() {
            let found = answer(end);
            let stuck = format!("rank {rank} of {size} waited 300ms in vain for collective 3 to 3");
            assert!(text(&found["stuck"]).starts_with(&stuck), "{found}");
            assert_eq!((&found["aborted_within_limit"], &found["free"]), (&json!(true), &json!(true)));
            assert!(
                text(&found["after"]).contains("was aborted after it had entered collective 3"),
                "{found}"
            );
        }
        assert_eq!(answer(&ends[size - 1]), json!({ "skipped": 3 }));
    }
}

#[test]
fn group_that_hangs_in_a_download_is_freed_by_another_thread() {
    let found = answer(&play("hang", 2)[0]);
    assert_eq!(found["barked"], json!({ "entered": 2, "error": null }));
    assert_eq!(found["freed"], json!(true), "the thread that hung is free");
    for late in ["check", "wait"] {
        assert!(text(&found[late]).contains("rank 0 of 2 was aborted"), "{found}");
    }
}

#[test]
fn group_whose_rank_enters_nothing_is_told_by_the_others_which_cannot_connect() {
    let found = answer(&play("first", 2)[0]);
    assert!(text(&found["error"]).starts_with("rank 0 of 2 could not all-reduce within 300ms"), "{found}");
    assert_eq!(found["freed"], json!(true));
}

#[test]
fn group_whose_rank_dies_ends_in_an_error_on_the_others() {
    let ends = play("die", 3);
    for end in &ends[..2] {
        assert!(text(&answer(end)["error"]).contains("in vain for collective 2 to 2"), "{end:?}");
    }
    assert_ne!(ends[2].0, 0, "the last rank died");
}

#[test]
fn group_whose_collectives_differ_ends_in_an_error_that_names_the_collective() {
    for end in play("mismatch", 2) {
        let found = answer(&end);
        assert!(
            text(&found["error"]).contains("ncclInvalidUsage: its collective 1 is not that of rank"),
            "{found}"
        );
    }
}

#[test]
fn group_that_does_not_gather_ends_in_an_error_within_its_deadline() {
    let (code, _, errors) = &play_on(&[0], 2, "alone")[0];
    assert_eq!(*code, 1);
    assert!(errors.contains("rank 0 of 2 could not join the group within 300ms"), "{errors}");
}

#[test]
fn group_refuses_two_ranks_on_one_device() {
    for (code, _, errors) in play_on(&[0, 0], 2, "reduce") {
        assert_eq!(code, 1);
        assert!(errors.contains("Duplicate GPU detected: ranks 0 and 1 are on device 0"), "{errors}");
    }
}

#[test]
fn group_without_nccl_is_an_error_that_says_what_was_looked_for() {
    let scratch = Scratch::default();
    let id = scratch.path("id");
    let words = ["group", "0", "0", "1", id.to_str().unwrap(), "reduce"];
    let (code, _, errors) = output(Standin::without_nccl(cache()).lend(&mut device_rank(&words), 1));
    assert_eq!(code, 1);
    assert!(errors.contains("neither libnccl.so nor libnccl.so.2"), "{errors}");
    let (code, _, errors) = output(Standin::with_nccl_misnamed(cache()).lend(&mut device_rank(&words), 1));
    assert_eq!(code, 1);
    assert!(errors.contains("standin-misnamed/libnccl.so.2, but not under the name libnccl.so"), "{errors}");
}

#[test]
fn group_replays_a_graph_with_a_collective() {
    for end in play("graph", 2) {
        let found = answer(&end);
        assert_eq!(found["found"], json!([[10, 99], [20, 99], [30, 99]]));
        assert_eq!(found["entered"], json!(4), "a captured collective is entered by each replay");
        assert!(text(&found["early"]).contains("cannot leave its group while 1 graphs"), "{found}");
        assert!(text(&found["void"]).contains("was aborted"), "{found}");
    }
}

#[test]
fn group_whose_rank_replays_a_graph_less_is_named_by_the_collectives_of_the_graph() {
    let found = answer(&play("graph-skip", 2)[0]);
    assert!(text(&found["stuck"]).contains("in vain for collective 5 to 8"), "{found}");
    assert!(text(&found["void"]).contains("was aborted after it had entered collective 8"), "{found}");
}

#[test]
fn group_fence_is_reached_after_the_collective_before_it_and_can_be_used_again() {
    let ends = play("fence", 2);
    assert_eq!(answer(&ends[0])["seen"], json!([true, false, true, false, true]));
    // It came when the other had looked: nothing that the other asked for waited for it.
    assert!(answer(&ends[1])["seen"].is_array());
}

/// Of the conventional design as it is explored, a rank that drops what it alone sees fail skips a forward that the others enter; one that
/// says it in the poll does not.
#[test]
fn group_of_conventional_ranks_hangs_where_one_drops_a_request_by_itself() {
    let model = model_directory();
    for size in [2, 4] {
        let devices: Vec<usize> = (0..size).collect();
        let ends = run_on(&devices, size, ["local-retry-exhaustion", model.to_str().unwrap()]);
        for (rank, end) in ends.iter().enumerate() {
            let found = answer(end);
            let skips = rank + 1 == size;
            let (site, forwards) = if skips { ("Requests", 1) } else { ("Forward", 2) };
            assert_eq!((&found["site"], &found["forwards"]), (&json!(site), &json!(forwards)), "{found}");
            assert_eq!((&found["aborted_within_limit"], &found["free"]), (&json!(true), &json!(true)));
            if !skips {
                assert!(text(&found["why"]).contains("in vain for collective"), "{found}");
            }
        }
        for end in run_on(&devices, size, ["base", model.to_str().unwrap()]) {
            assert_eq!(answer(&end), json!({ "forwards": 1, "laps": 4 }));
        }
    }
}

/// A forward that has not run chooses tokens for the next on the device: nothing of it comes by the host.
#[test]
fn group_launches_forwards_ahead_of_a_peer_that_has_launched_none() {
    for size in [1, 2, 4] {
        let devices: Vec<usize> = (0..size).collect();
        let model = model_directory();
        let ends = run_on(&devices, size, ["ahead", model.to_str().unwrap()]);
        for (rank, end) in ends.iter().enumerate() {
            let answer = answer(end);
            for found in answer["found"].as_array().unwrap() {
                let forwards: Vec<Vec<u32>> = serde_json::from_value(found["tokens"].clone()).unwrap();
                for (prompt, golden) in goldens().iter().enumerate() {
                    let tokens: Vec<u32> = forwards.iter().map(|tokens| tokens[prompt]).collect();
                    assert_eq!(tokens, golden.greedy_ids[..tokens.len()], "rank {rank} of {size}: {found}");
                }
                let overlap = found["overlap"] == true;
                if rank + 1 < size || !overlap {
                    let expected = if overlap { &answer["forwards"] } else { &json!(0) };
                    assert_eq!(&found["in_the_air"], expected, "rank {rank} of {size}: {found}");
                }
                let micros = |name: &str| found[name].as_f64().unwrap();
                assert!(micros("gap_micros") < micros("step_micros"), "rank {rank} of {size}: {found}");
            }
        }
    }
}
