//! Clients that go before their answer is complete: what they held is given back, and others are not touched.

use std::thread;

use lockstep_tests::golden::goldens;
use lockstep_tests::http::post;

use crate::common::{Deployment, LONG, long_request, pieces, request};

#[test]
fn leaving_midway_frees_slot_and_pages() {
    let server = Deployment::start("");
    server.wait_until_drained(256);
    let before = server.round();
    drop(server.long_stream());
    server.wait_until_drained(256);
    let rounds = server.round() - before;
    assert!(
        rounds < u64::from(LONG),
        "a token takes a round: in {rounds} the answer may have been made to its end"
    );
    let golden = &goldens()[2];
    assert_eq!(server.post(&request(golden, false)).text(), pieces(golden).concat());
}

#[test]
fn leaving_in_a_storm_touches_nobody_else() {
    let server = Deployment::start("");
    server.wait_until_drained(256);
    let before = server.round();
    let golden = goldens().swap_remove(1);
    thread::scope(|scope| {
        let stays = scope.spawn(|| server.post(&request(&golden, false)).text());
        let leaving: Vec<_> = (0..50).map(|_| server.stream(&long_request())).collect();
        let unread: Vec<_> =
            (0..10).map(|_| server.send(&post("application/json", &long_request().to_string()))).collect();
        drop((leaving, unread));
        assert_eq!(stays.join().unwrap(), pieces(&golden).concat());
    });
    server.wait_until_drained(256);
    let rounds = server.round() - before;
    assert!(rounds < 60 * u64::from(LONG) / 8, "in {rounds} rounds all may have been served to their ends");
    assert_eq!(server.post(&request(&golden, false)).text(), pieces(&golden).concat());
    assert_eq!(server.health().0, 200);
}
