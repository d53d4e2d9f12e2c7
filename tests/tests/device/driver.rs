//! The driver's stand-in: kernels give what they give on the CPU, and what a device leaves undefined is noticed.

use lockstep_kernels::cpu::{Compiler, Sanitizers, Source};
use lockstep_tests::places::model_directory;
use lockstep_tests::sample::{INDICES, Outcome, compute};
use lockstep_tests::server::output;
use serde_json::{Value, json};

use crate::common::{cache, device_rank, run, standin};

fn on_the_cpu(indices: [u32; 3]) -> Outcome {
    let compiler = Compiler::new(cache(), Sanitizers::Off);
    compute(&mut compiler.compile(&Source::all().unwrap()).unwrap().start().unwrap(), indices).unwrap()
}

#[test]
fn device_computes_what_the_cpu_computes_from_the_same_sources() {
    let (code, answer, errors) = run(&["kernels", "0"]);
    assert_eq!(code, 0, "{errors}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let found: Outcome = serde_json::from_value(answer["outcome"].clone()).unwrap();
    assert_eq!(found, on_the_cpu(INDICES[0]));
    assert!(answer["largest_error"].as_f64().unwrap() < 1e-5 && answer["tokens_equal"] == true, "{answer}");
    assert!(found.tokens.iter().any(|&token| token != 0), "a choice that cannot be wrong: {found:?}");
}

#[test]
fn device_that_is_not_there_is_an_error_that_names_it() {
    let (code, _, errors) = output(standin().lend(&mut device_rank(&["kernels", "2"]), 2));
    assert_eq!(code, 1);
    assert!(errors.contains("could not open the device"), "{errors}");
    let (code, _, errors) = output(standin().lend(&mut device_rank(&["kernels", "1"]), 2));
    assert_eq!(code, 0, "{errors}");
    let (code, _, errors) = output(standin().lend(&mut device_rank(&["kernels", "0"]), 0));
    assert_eq!(code, 1);
    assert!(errors.contains("finds no device"), "{errors}");
}

#[test]
fn device_memory_that_was_never_written_is_poisoned() {
    assert_eq!(run(&["misuse", "fresh"]).1.trim(), "[a5, a5, a5]");
}

#[test]
fn device_accesses_outside_live_memory_end_in_an_error_that_names_kernel_and_place() {
    let (code, answer, errors) = run(&["misuse", "right"]);
    assert_eq!((code, answer.contains("[7, 7,")), (0, true), "{errors}");
    for (what, evidence) in [
        (
            "freed",
            "fails in vote_min: 1 bytes from byte 0 of freed memory of 640 bytes on are not device memory",
        ),
        ("beyond", "fails in vote_min: access to byte 1280 of an allocation of 640 bytes"),
        ("fringe", "fails in vote_min: something was written just outside an allocation of 312 bytes"),
    ] {
        let (code, _, errors) = run(&["misuse", what]);
        assert_eq!(code, 1, "{what} passed: {errors}");
        assert!(errors.contains(evidence), "{what}: {errors}");
        assert!(errors.contains("ILLEGAL_ADDRESS"), "{what}: {errors}");
    }
}

#[test]
fn device_loads_only_entries_that_the_ptx_has() {
    assert!(run(&["misuse", "entry"]).1.contains("CUDA_ERROR_NOT_FOUND"));
}

#[test]
fn device_streams_run_on_their_own_and_wait_for_events() {
    assert_eq!(run(&["misuse", "order"]).1.trim(), "[1] false [2] true");
}

#[test]
fn device_replays_the_engines_forwards_with_the_bits_of_those_that_are_launched() {
    let model = model_directory();
    let (code, answer, errors) = run(&["forwards", "0", model.to_str().unwrap()]);
    assert_eq!(code, 0, "{errors}");
    let found: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(found["captured"], json!([1, 2, 4]));
    assert_eq!(
        found["tokens_equal"],
        json!([true, true]),
        "the CPU's tokens, launched and replayed: {found}"
    );
    assert_eq!(found["bits_equal"], json!([true, true]), "replayed, and in another cache: {found}");
}

#[test]
fn device_replays_a_graph_with_the_same_bits_and_what_its_buffers_hold_then() {
    let (code, answer, errors) = run(&["graph", "0"]);
    assert_eq!(code, 0, "{errors}");
    let found: Value = serde_json::from_str(&answer).unwrap();
    let of = |name: &str| serde_json::from_value::<Outcome>(found[name].clone()).unwrap();
    assert!(of("captured").logits.iter().all(|&bits| bits == 0), "it ran while it was captured");
    assert_eq!(of("replayed"), on_the_cpu(INDICES[0]));
    assert_eq!(of("overwritten"), on_the_cpu(INDICES[1]));
    assert_eq!(of("buffers_dropped"), on_the_cpu(INDICES[1]), "a graph keeps its buffers");
    assert_eq!(of("after_refusals"), on_the_cpu(INDICES[1]));
    let refused: Vec<&str> =
        found["refused"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(
        refused,
        ["upload", "download", "overwrite a buffer", "set a fence", "capture a graph", "replay a graph"].map(
            |action| format!(
                "a graph that is being captured cannot {action}; do it before or after the capture"
            )
        )
    );
    assert!(
        found["raw"].as_str().unwrap().contains("CAPTURE_UNSUPPORTED"),
        "the driver's own refusal: {found}"
    );
    assert!(found["empty"].as_str().unwrap().contains("nothing was captured"), "{found}");
}
