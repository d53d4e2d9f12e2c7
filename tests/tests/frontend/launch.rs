//! Starts that must fail with a clear word and nothing left, and the demonstration.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;

use lockstep_tests::http::{Answer, send};

use crate::common::{Scratch, Server, completion, output, post, wait_for};

#[test]
fn launch_a_taken_port_is_told_before_anything_starts() {
    let server = Server::start(&[]);
    let (scratch, port) = (Scratch::new(), server.address.split(':').nth(1).unwrap());
    let model = scratch.model();
    let (code, _, errors) =
        output(&mut scratch.command(&["serve", "--port", port, "--model", model.to_str().unwrap()]));
    assert_eq!(code, 1);
    assert!(errors.contains(&format!("port {port} on 127.0.0.1 is taken")), "{errors}");
    assert_eq!(scratch.left_behind(), 0);
    assert!(!errors.contains("mock rank up"));
}

#[test]
fn launch_wrong_flags_and_models_are_told() {
    let scratch = Scratch::new();
    let model = scratch.model();
    let model = model.to_str().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["serve", "--model", "/nowhere"], "no model in /nowhere"),
        (&["serve", "--model", model, "--tp", "0"], "invalid value '0' for '--tp <TP>'"),
        (&["serve", "--model", model, "--slots", "0"], "invalid value '0' for '--slots <SLOTS>'"),
        (&["demo", "--model", model, "--pages", "1", "--page-size", "8"], "too few for one request"),
        (&["serve", "--port", "x"], "invalid value 'x' for '--port <PORT>'"),
        (&["start"], "unrecognized subcommand 'start'"),
    ];
    for (arguments, expected) in cases {
        let (code, _, errors) = output(&mut scratch.command(arguments));
        assert_eq!(code, 2, "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
    assert_eq!(scratch.left_behind(), 0);
}

#[test]
fn launch_ranks_that_can_not_start_end_the_program() {
    let scratch = Scratch::new();
    std::fs::write(scratch.model().join("refuse"), "").unwrap();
    let model = scratch.model();
    let (code, output, errors) =
        output(&mut scratch.command(&["serve", "--port", "0", "--model", model.to_str().unwrap()]));
    assert_eq!((code, output.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("the ranks did not get ready"), "{errors}");
    assert!(errors.contains("ends: the weights are not to be had"), "{errors}");
    assert_eq!(scratch.left_behind(), 0);
}

/// Whether the server answers. A connection alone shows nothing: a process that another test is just starting holds the port that was freed here
/// until it is another program.
fn is_alive(mut stream: TcpStream) -> bool {
    let mut status = [0; 12];
    let asked = stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    asked.and_then(|()| stream.read_exact(&mut status)).is_ok_and(|()| status.ends_with(b" 200"))
}

#[test]
fn launch_takes_no_requests_before_every_rank_is_ready() {
    let (scratch, free) = (Scratch::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (hold, address) = (scratch.model().join("hold"), free.local_addr().unwrap());
    std::fs::write(&hold, "").unwrap();
    drop(free);
    let starts = thread::spawn(move || Server::start_on(scratch, address.port()));
    wait_for("the port", || TcpStream::connect(address).is_ok_and(is_alive));
    let answer = |request: &str| Answer::read(send(&address.to_string(), request));
    let refused = answer(&post("application/json", &completion("ab", 2, false).to_string()));
    let [health, ready, live] = ["/health", "/readyz", "/livez"]
        .map(|path| answer(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")));
    // Before anything is checked, so that the server is not waited for in vain.
    std::fs::remove_file(hold).unwrap();
    let server = starts.join().unwrap();
    assert_eq!((refused.status, refused.error()["code"].as_str()), (503, Some("not_ready")));
    assert!(refused.headers.contains("retry-after: 1"), "{}", refused.headers);
    assert_eq!((health.status, health.json()["status"].as_str()), (503, Some("starting")));
    assert_eq!((ready.status, live.status, server.health().0), (503, 200, 200));
}

#[test]
fn launch_a_child_is_not_started_by_hand() {
    let scratch = Scratch::new();
    let line = "child --role decode --rank 0 --size 1 --peers 1 --epoch 1 --deployment 1 --front 1 --control-socket x --run-directory x --model x --device cpu \
                --transport shm --handshake-tries 1 --mode normal --slots 1 --pages 1 --page-size 16 --chunk-tokens 16 --fabric shm";
    let (code, _, errors) = output(&mut scratch.command(&line.split_whitespace().collect::<Vec<_>>()));
    assert_eq!(code, 1);
    assert!(errors.contains("its ranks are started by it, not by hand"), "{errors}");
}

#[test]
fn launch_a_stranger_on_the_control_socket_is_turned_away() {
    let server = Server::start(&[]);
    let pid = server.rank_pids()[0];
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    let socket = line.split('\0').find_map(|word| word.strip_prefix("--control-socket=")).unwrap().to_owned();
    let mut stranger = UnixStream::connect(socket).unwrap();
    stranger
        .write_all(
            format!("{{\"hello\":{{\"epoch\":1,\"role\":\"decode\",\"rank\":0,\"pid\":{pid}}}}}\n")
                .as_bytes(),
        )
        .unwrap();
    wait_for("the refusal", || server.errors().contains("a stranger on the control socket was turned away"));
    assert_eq!(server.post(&completion("ab", 2, false)).status, 200);
}

#[test]
fn launch_the_demo_shows_four_streams_and_leaves_nothing() {
    let scratch = Scratch::new();
    let model = scratch.model();
    let (code, told, errors) =
        output(&mut scratch.command(&["demo", "--model", model.to_str().unwrap(), "--tp", "2"]));
    assert_eq!(code, 0, "{told}\n{errors}");
    for expected in [
        "proved for decode in overlap mode at 2 ranks",
        "[1] In the beginning",
        "[1] (complete: 48 tokens)",
        "[3] (the client closes its connection after 12 tokens)",
        "every slot and page is free again",
        "decode group: ",
        "collectives a round; agreement cost 20 µs a round with work, 10.0 % of the time in forwards",
        "nothing is left running: 4 rank processes ended",
    ] {
        assert!(told.contains(expected), "{expected:?} is not in\n{told}");
    }
    assert_eq!(scratch.left_behind(), 0);
    let log = scratch.log();
    assert_eq!(log.matches("Abort").count(), 1, "{log}");
}

#[test]
fn launch_the_demo_fails_when_the_ranks_do() {
    let scratch = Scratch::new();
    std::fs::write(scratch.model().join("refuse"), "").unwrap();
    let model = scratch.model();
    let (code, told, errors) = output(&mut scratch.command(&["demo", "--model", model.to_str().unwrap()]));
    assert_eq!(code, 1, "{told}");
    assert!(errors.contains("the weights are not to be had"), "{errors}");
    assert_eq!(scratch.left_behind(), 0);
}
