//! A failure that one rank of a group sees and the others do not, while the group computes: the case in which a rank that decides by itself
//! what it launches would skip a collective that the others enter (`device-rank local-retry-exhaustion` is such a rank).

use std::net::SocketAddr;
use std::process::Command;

use lockstep_tests::golden::goldens;
use lockstep_tests::http::{Answer, completion, send, text_of};
use lockstep_tests::process::wait_for;

use crate::common::{Deployment, leaders, pieces, request, story, texts};
use crate::cuda::whole;
use crate::relay::{Mood, Relay};

const FOLLOWER: &str = "/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank=1&target_pp_rank=0";

/// Where the prefill follower takes connections.
fn prefill_follower(bootstrap: SocketAddr) -> SocketAddr {
    let request = format!("GET {FOLLOWER} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let ask = || Answer::read(send(&bootstrap.to_string(), &request));
    wait_for("the prefill follower's address", || ask().status == 200);
    let found = ask().json();
    let port = found["rank_port"].as_u64().unwrap().try_into().unwrap();
    SocketAddr::new(found["rank_ip"].as_str().unwrap().parse().unwrap(), port)
}

/// Forwards of the decode group. Two reports later, all are counted.
fn forwards(server: &Deployment) -> u64 {
    for _ in 0..2 {
        let round = server.round();
        wait_for("a report", || server.round() > round);
    }
    leaders(server, "decode", "forwards_total")
}

/// The way between the two followers is cut while a stream of so many tokens runs: the leaders' is open, and the decode leader could take
/// the next request's pages.
fn check(arguments: &str, tokens: u32, prepare: impl FnOnce(&mut Command) -> &mut Command) {
    // No rank is to look the follower up before the way is ready.
    let bootstrap = Relay::start(Mood::Registering);
    let flags = format!("{} --tp 2 --handshake-tries 3 {arguments}", bootstrap.flags());
    let server = Deployment::start_where(&flags, prepare);
    let way = Relay::to(prefill_follower(bootstrap.server), Mood::Passing);
    bootstrap.turn(Mood::Astray { meant: way.server.port(), told: way.address.port() });
    wait_for("ways between all ranks", || {
        server.post(&completion("In the beginning", 4, false)).status == 200
    });
    let undisturbed = texts(server.stream(&story("The wisdom of", tokens)));
    let mut stream = server.stream(&story("The wisdom of", tokens));
    let mut told: Vec<String> = stream.by_ref().take(1).map(|event| text_of(&event)).collect();

    way.turn(Mood::Gone);
    let said = server.errors().len();
    let before = forwards(&server);
    let refused = server.post(&completion("In the beginning", 4, false));
    let beside = forwards(&server) - before;
    assert!(refused.body.contains("the prefill side could not be reached"), "{}", refused.body);
    assert!(beside > 0, "no forward while a rank failed");
    told.extend(texts(stream));
    assert_eq!(told, undisturbed, "the stream beside it");
    let words = server.errors().split_off(said);
    let sees = [0, 1].map(|rank| {
        words.lines().any(|line| {
            line.contains(&format!("decode rank {rank}: ")) && line.contains("has no prefill rank")
        })
    });
    assert_eq!(sees, [false, true], "{words}");

    way.turn(Mood::Passing);
    let golden = &goldens()[0];
    assert_eq!(server.post(&request(golden, false)).text(), pieces(golden).concat());
    assert_eq!(server.health().1["epoch"], 1, "{}", server.errors());
    server.wait_until_drained(256);
}

#[test]
fn onesided_failure_ends_a_request_on_every_rank_and_nothing_else() {
    check("", 600, |command| command);
}

/// Forwards and votes are in NCCL's hands: a rank that skipped one would leave the other's device waiting.
#[test]
fn onesided_failure_among_nccls_collectives_ends_a_request_on_every_rank_and_nothing_else() {
    for flags in ["--graphs on", "--graphs off --votes-in-stream"] {
        let arguments = format!("--device cuda --collectives nccl {flags}");
        check(&arguments, 40, |command| whole().lend(command, 2));
    }
}
