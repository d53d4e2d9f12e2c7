//! Deployments whose ranks compute on CUDA devices, with stand-ins for the driver and for NCCL: **none of this runs on a GPU**. The
//! kernels' own sources compute; everything else is what serves on one.

use std::path::Path;
use std::sync::OnceLock;

use lockstep_tests::golden::goldens;
use lockstep_tests::http::text_of;
use lockstep_tests::process::kill;
use lockstep_tests::server::{Scratch, output};
use lockstep_tests::standin::Standin;
use rustix::process::Signal;

use crate::common::{Deployment, command, leaders, pieces, request, texts, traces_in};

fn cache() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

pub(crate) fn whole() -> &'static Standin {
    static WHOLE: OnceLock<Standin> = OnceLock::new();
    WHOLE.get_or_init(|| Standin::whole(cache()))
}

fn without_nccl() -> &'static Standin {
    static WITHOUT: OnceLock<Standin> = OnceLock::new();
    WITHOUT.get_or_init(|| Standin::without_nccl(cache()))
}

/// Checks that a deployment on this many devices streams `count` reference answers at once, and returns what its ranks said. They are few:
/// a token takes some 50 ms, since a machine of few cores executes the kernels of all ranks.
fn check(standin: &Standin, devices: u32, arguments: &str, count: usize) -> String {
    let server = Deployment::start_where(arguments, |command| standin.lend(command, devices));
    let goldens = goldens();
    let streams: Vec<_> =
        goldens.iter().take(count).map(|golden| (golden, server.stream(&request(golden, true)))).collect();
    for (golden, stream) in streams {
        assert_eq!(texts(stream), pieces(golden));
    }
    server.wait_until_drained(256);
    server.errors()
}

#[test]
fn cuda_answers_are_the_references_in_groups_that_sum_in_nccl() {
    let said = check(whole(), 2, "--tp 2 --device cuda --collectives nccl --graphs on", 2);
    assert!(said.contains("CUDA devices 0, 1 compute"), "{said}");
    assert!(!said.contains("between the hosts"), "{said}");
    assert!(said.contains("decode rank 1: captured forwards of [1, 2"), "{said}");
    assert!(!said.contains("prefill rank 0: captured"), "{said}");
}

#[test]
fn cuda_answer_is_the_reference_in_groups_of_four_without_overlap() {
    let said = check(whole(), 4, "--tp 4 --device auto --no-overlap --collectives nccl --graphs off", 1);
    assert!(!said.contains("captured"), "{said}");
    assert!(said.contains("CUDA devices 0, 1, 2, 3 compute"), "{said}");
}

/// Votes are reduced by NCCL between two forwards; the vote of a round without a launch still goes between the hosts.
#[test]
fn cuda_answers_are_the_references_where_votes_go_in_the_stream() {
    let arguments = "--tp 2 --device cuda --collectives nccl --graphs on --votes-in-stream";
    let said = check(whole(), 2, arguments, 2);
    assert!(!said.contains("between the hosts"), "{said}");
}

/// Its peer waits in a collective that it does not enter, or finds its connection gone; the stream goes on all the same.
#[test]
fn cuda_stream_goes_on_when_a_rank_dies_among_nccls_collectives() {
    let arguments = "--tp 2 --device cuda --collectives nccl";
    let server = Deployment::start_where(arguments, |command| whole().lend(command, 2));
    let golden = &goldens()[0];
    let mut stream = server.stream(&request(golden, true));
    let mut told: Vec<String> = stream.by_ref().take(9).map(|event| text_of(&event)).collect();
    kill(server.rank_pids()[1], Signal::KILL);
    told.extend(texts(stream));
    assert_eq!(told, pieces(golden));
    server.wait_for_epoch(2);
    server.wait_until_drained(256);
}

/// KV is rounded, requests give their pages up, and what was copied to the hosts comes back: in groups of four, whose forwards are replayed.
#[test]
fn cuda_answers_are_the_references_with_kv_in_bf16_and_copies_on_the_hosts() {
    let pressed = "--slots 2 --pages 7 --page-size 16 --swap-pages 8 --kv-type bf16";
    let arguments =
        format!("--tp 4 --device cuda --collectives nccl --graphs on --votes-in-stream {pressed}");
    let server = Deployment::start_where(&arguments, |command| whole().lend(command, 4));
    let goldens = goldens();
    let streams: Vec<_> =
        goldens.iter().take(2).map(|golden| (golden, server.stream(&request(golden, true)))).collect();
    for (golden, stream) in streams {
        assert_eq!(texts(stream), pieces(golden));
    }
    assert!(leaders::<u64>(&server, "decode", "restored_total") > 0, "no request came back");
    server.wait_until_drained(7);
}

/// Checks that every rank's group has agreed on this; a trace begins with what was agreed.
fn check_agreed(server: &Deployment, what: &str) {
    for trace in traces_in(&server.scratch) {
        let text = std::fs::read_to_string(&trace).unwrap();
        let header = text.lines().next().unwrap();
        assert!(header.contains(what), "{}: {header}", trace.display());
    }
}

/// What one rank cannot do, no rank does; where it is demanded, all end.
#[test]
fn cuda_group_falls_back_where_one_rank_cannot_capture_or_join() {
    let refusing = |arguments: &str, what: &'static str| {
        Deployment::start_where(arguments, |command| whole().lend(command, 2).env(what, "1"))
    };
    let server = refusing("--tp 2 --device cuda --collectives nccl", "STANDIN_REFUSES_GRAPHS");
    assert_eq!(texts(server.stream(&request(&goldens()[0], true))), pieces(&goldens()[0]));
    let said = server.errors();
    assert!(said.contains("decode rank 0: captured forwards of [1, 2"), "{said}");
    let refused = |line: &str| line.contains("decode rank 1: ") && line.contains("no forward is replayed");
    assert!(said.lines().any(refused), "{said}");
    check_agreed(&server, "\"forwards\":\"Eager\"");

    let server = refusing("--tp 2 --device cuda", "STANDIN_REFUSES_NCCL");
    assert_eq!(texts(server.stream(&request(&goldens()[0], true))), pieces(&goldens()[0]));
    assert!(server.errors().contains("between the hosts"), "{}", server.errors());
    check_agreed(&server, "\"collectives\":\"Host\"");

    for (flags, what) in
        [("--graphs on", "STANDIN_REFUSES_GRAPHS"), ("--collectives nccl", "STANDIN_REFUSES_NCCL")]
    {
        let scratch = Scratch::default();
        let arguments = ["serve", "--port", "0", "--tp", "2", "--device", "cuda", "--restarts", "0"];
        let arguments: Vec<&str> = arguments.into_iter().chain(flags.split(' ')).collect();
        let mut command = command(&scratch, &arguments);
        let (code, _, errors) = output(whole().lend(&mut command, 2).env(what, "1"));
        assert_eq!(code, 1, "{errors}");
        assert!(errors.contains(&format!("{flags} demands")), "{errors}");
    }
}

#[test]
fn cuda_answers_are_the_references_where_nccl_is_missing() {
    let said = check(without_nccl(), 2, "--tp 2 --device cuda", 2);
    assert!(said.contains("libnccl") && said.contains("sums meet between the hosts"), "{said}");
    assert!(said.contains("are in no graph; no forward is replayed"), "{said}");
}

#[test]
fn cuda_group_ends_where_nccl_or_graphs_are_demanded_and_nccl_is_missing() {
    for (flag, wish) in [("--collectives", "nccl"), ("--graphs", "on")] {
        let scratch = Scratch::default();
        let arguments = ["serve", "--port", "0", "--tp", "2", "--device", "cuda", flag, wish];
        let (code, _, errors) = output(without_nccl().lend(&mut command(&scratch, &arguments), 2));
        assert_eq!(code, 1, "{errors}");
        assert!(errors.contains(&format!("{flag} {wish} demands")), "{errors}");
        assert_eq!(scratch.left_behind(), 0);
    }
}

#[test]
fn cuda_is_refused_where_it_is_missing_and_not_taken_by_itself() {
    let scratch = Scratch::default();
    let (code, _, errors) = output(&mut command(&scratch, &["serve", "--port", "0", "--device", "cuda"]));
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("libcuda.so.1") && errors.contains("--device cpu"), "{errors}");
    // Nor is one with a driver that is too old for the kernels.
    let mut old = command(&scratch, &["serve", "--port", "0", "--device", "cuda"]);
    let (code, _, errors) = output(whole().lend(&mut old, 1).env("STANDIN_DRIVER", "12080"));
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("runs CUDA 12.8, and the kernels need 13.0"), "{errors}");
    // One device is not enough for two ranks of a group, and none is taken unasked.
    for (arguments, why) in
        [("--tp 2 --device auto", "1 CUDA devices for 2 ranks"), ("--tp 1", "--device cpu")]
    {
        let server = Deployment::start_where(arguments, |command| whole().lend(command, 1));
        let said = server.errors();
        assert!(said.contains(&format!("the CPU computes ({why}")), "{said}");
    }
}
