//! KV over TCP between ranks that find each other through a bootstrap server: the reference answers, a rank that dies, and a server that is
//! late, talks nonsense or is gone while all else goes on.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use lockstep_tests::golden::goldens;
use lockstep_tests::http::completion;
use lockstep_tests::process::{PATIENCE, kill, lives, wait_within};
use rustix::process::Signal;

use crate::common::{Deployment, pieces, request, story, texts};
use crate::relay::{Mood, Relay};

/// How long a request is watched that can not go on.
const WATCHED: Duration = Duration::from_millis(1500);

#[test]
fn bootstrap_over_tcp_gives_the_reference_answers_and_recovers_from_a_death() {
    let server = Deployment::start("--fabric tcp");
    assert!(server.ready.contains("KV over tcp by way of 127.0.0.1:"), "{}", server.ready);
    for golden in &goldens()[..2] {
        assert_eq!(server.post(&request(golden, false)).text(), pieces(golden).concat());
    }
    let undisturbed = texts(server.stream(&story("The wisdom of", 200)));
    let pids = server.rank_pids();
    let stream = server.stream(&story("The wisdom of", 200));
    kill(pids[3], Signal::KILL);
    assert_eq!(texts(stream), undisturbed);
    server.wait_for_epoch(2);
    assert!(pids.iter().all(|&pid| !lives(pid)), "{}", server.errors());
    server.wait_until_drained(256);
    let pids = server.rank_pids();
    server.end(&pids);
}

/// Each trouble meets a fresh epoch, in which no rank knows where its peer is.
#[test]
fn bootstrap_server_in_trouble_delays_requests_and_no_round() {
    let relay = Relay::start(Mood::Gone);
    let server = relay.deployment("");
    let golden = &goldens()[0];
    for (place, mood) in [Mood::Gone, Mood::Nonsense, Mood::Late].into_iter().enumerate() {
        relay.turn(mood.clone());
        if place > 0 {
            kill(server.rank_pids()[0], Signal::KILL);
            server.wait_for_epoch(1 + place as u64);
        }
        let answered = Mutex::new(None);
        thread::scope(|scope| {
            scope.spawn(|| *answered.lock().unwrap() = Some(server.post(&request(golden, false)).text()));
            let before = server.round();
            thread::sleep(WATCHED);
            if mood != Mood::Late {
                assert_eq!(*answered.lock().unwrap(), None, "{mood:?}");
                let rounds = server.round() - before;
                assert!(rounds > 100, "{rounds} rounds while the server is in trouble ({mood:?})");
                assert_eq!(server.health().0, 200, "{mood:?}");
                relay.turn(Mood::Passing);
            }
        });
        assert_eq!(answered.into_inner().unwrap(), Some(pieces(golden).concat()), "{mood:?}");
    }
    let words = server.errors();
    assert!(
        words.contains("prefill rank 0: not registered yet, and tries again: the bootstrap server"),
        "{words}"
    );
    server.wait_until_drained(256);
}

/// A request whose ranks find no peer ends with a reason, and the groups are ready for the next.
#[test]
fn bootstrap_server_that_stays_away_fails_requests_with_a_reason() {
    let relay = Relay::start(Mood::Gone);
    let server = relay.deployment("--tp 1 --handshake-tries 2");
    let before = server.round();
    let refused = server.post(&completion("In the beginning", 4, false));
    assert!(refused.status >= 500, "{}", refused.body);
    assert!(refused.body.contains("the prefill side could not be reached"), "{}", refused.body);
    assert!(server.round() > before + 300, "{} rounds", server.round() - before);
    let words = server.errors();
    assert!(words.contains("has no prefill rank: the prefill rank's address is not known"), "{words}");
    assert!(words.contains("can not be reached"), "{words}");
    relay.turn(Mood::Passing);
    wait_within(PATIENCE, "a request that goes on", || {
        server.post(&completion("In the beginning", 4, false)).status == 200
    });
    server.wait_until_drained(256);
}
