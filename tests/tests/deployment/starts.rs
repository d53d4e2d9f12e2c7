//! Starts that must fail with a clear word, orderly ends, and the demonstration. Nothing is ever left.

use std::fs;

use lockstep_tests::golden::goldens;
use lockstep_tests::http::text_of;
use lockstep_tests::places::model_directory;
use lockstep_tests::server::{Scratch, output};

use crate::common::{Deployment, command, pieces, request, texts};

fn refused(scratch: &Scratch, arguments: &str) -> (i32, String) {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let (code, _, errors) = output(&mut command(scratch, &arguments));
    assert_eq!(scratch.left_behind(), 0, "{arguments:?}");
    (code, errors)
}

#[test]
fn starts_with_wrong_flags_are_refused() {
    let scratch = Scratch::default();
    for (arguments, word) in [
        ("serve --tp 0", "invalid value '0' for '--tp <TP>'"),
        ("serve --port 70000", "invalid value '70000' for '--port <PORT>'"),
        ("serve --what", "unexpected argument '--what'"),
        ("serve --pages 1 --page-size 8", "too few for one request"),
        ("serve --model /nowhere", "no model in /nowhere"),
        ("demo --model /nowhere", "no model in /nowhere"),
    ] {
        let (code, errors) = refused(&scratch, arguments);
        assert_eq!(code, 2, "{arguments}: {errors}");
        assert!(errors.contains(word), "{arguments}: {errors}");
    }
}

#[test]
fn starts_of_ranks_that_can_not_work_say_why() {
    let scratch = Scratch::default();
    let (code, errors) = refused(&scratch, "serve --port 0 --tp 5");
    assert_eq!(code, 1, "{errors}");
    assert!(
        errors.contains("the ranks did not get ready")
            && errors.contains("cannot share num_key_value_heads = 4"),
        "{errors}"
    );

    let model = scratch.path("weightless");
    fs::create_dir(&model).unwrap();
    for name in ["config.json", "tokenizer.json"] {
        fs::copy(model_directory().join(name), model.join(name)).unwrap();
    }
    let (code, errors) = refused(&scratch, &format!("serve --port 0 --model {}", model.display()));
    assert_eq!(code, 1, "{errors}");
    assert!(
        errors.contains("the ranks did not get ready") && errors.contains("model.safetensors"),
        "{errors}"
    );
}

#[test]
fn starts_on_a_taken_port_are_refused_and_the_first_goes_on() {
    let server = Deployment::start("--tp 1");
    let port = server.address.rsplit(':').next().unwrap();
    let (code, errors) = refused(&Scratch::default(), &format!("serve --port {port}"));
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains(&format!("port {port} on 127.0.0.1 is taken")), "{errors}");
    assert_eq!(server.health().0, 200);
}

#[test]
fn starts_end_in_an_orderly_way_while_a_stream_runs() {
    let server = Deployment::start("--drain-seconds 0");
    let pids = server.rank_pids();
    assert_eq!(pids.len(), 4);
    let stream = server.long_stream();
    server.end(&pids);
    let error = stream.error();
    assert!(error.contains("the server is stopping"), "{error}");
}

#[test]
fn starts_end_after_running_streams_have_ended() {
    let server = Deployment::start("");
    let (pids, golden) = (server.rank_pids(), goldens().swap_remove(3));
    let mut stream = server.stream(&request(&golden, true));
    let begun = text_of(&stream.next().unwrap());
    server.end(&pids);
    assert_eq!(begun + &texts(stream).concat(), pieces(&golden).concat());
}

#[test]
fn starts_of_the_demo_show_four_streams_and_leave_nothing() {
    let scratch = Scratch::default();
    let (code, told, errors) = output(&mut command(&scratch, &["demo"]));
    assert_eq!(code, 0, "{told}\n{errors}");
    for word in [
        "proved of a decode group, overlap mode, 2 ranks",
        "proved of a prefill group, overlap mode, 2 ranks",
        "[1] In the beginning",
        "[1] (complete: 48 tokens)",
        "[2] (complete: 48 tokens)",
        "[3] (the client closes its connection after 12 tokens)",
        "[4] (complete: 48 tokens)",
        "every slot and page is free again",
        "decode group: ",
        "prefill group: ",
        "nothing is left running: 4 rank processes ended",
    ] {
        assert!(told.contains(word), "{word:?} is not in\n{told}");
    }
    assert_eq!(scratch.left_behind(), 0);
}
