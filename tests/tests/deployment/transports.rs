//! The same deployment over each transport: the reference answers, a death and a hang that are noticed and named, and what comes back.

use lockstep_tests::golden::goldens;
use lockstep_tests::process::{kill, lives};
use rustix::process::Signal;

use crate::common::{Deployment, pieces, request, story, texts};

/// Streams over a group that loses a decode rank in the middle are the same as over one that loses nothing.
fn check_over(transport: &str) {
    let server = Deployment::start(&format!("--transport {transport}"));
    assert!(server.ready.contains(&format!("over {transport})")), "{}", server.ready);
    for golden in &goldens()[..2] {
        assert_eq!(server.post(&request(golden, false)).text(), pieces(golden).concat(), "{transport}");
    }
    let undisturbed = texts(server.stream(&story("The wisdom of", 200)));
    for (signal, epoch) in [(Signal::KILL, 2), (Signal::STOP, 3)] {
        let pids = server.rank_pids();
        let stream = server.stream(&story("The wisdom of", 200));
        kill(pids[1], signal);
        assert_eq!(texts(stream), undisturbed, "{transport}");
        server.wait_for_epoch(epoch);
        assert!(pids.iter().all(|&pid| !lives(pid)), "{}", server.errors());
        let words = server.errors();
        assert_eq!(words.matches("decode rank 0 ends: ").count() as u64, epoch - 1, "{words}");
        assert_eq!(words.matches("missing: rank 1").count() as u64, epoch - 1, "{words}");
    }
    server.wait_until_drained(256);
    let pids = server.rank_pids();
    server.end(&pids);
}

#[test]
fn transports_of_shared_memory() {
    check_over("shm");
}

#[test]
fn transports_of_tcp() {
    check_over("tcp");
}

#[test]
fn transports_of_unix_sockets() {
    check_over("unix");
}
