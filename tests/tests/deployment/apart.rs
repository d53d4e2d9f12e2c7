//! `lockstep prefill` and `lockstep decode`: two programs, of which each is lost and started anew by itself. Whatever dies, and whichever
//! requests run, wait, or come meanwhile: their text is what it would have been, and the other side's processes are the same as before.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use lockstep_tests::golden::{Golden, goldens};
use lockstep_tests::http::{Answer, send, text_of};
use lockstep_tests::process::{kill, lives, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{Deployment, pieces, request, reserved_port, story, texts};

/// Tokens of the stream under which something dies, and of those how many come before.
const TOKENS: u32 = 300;
const BEGUN: usize = 20;
/// Asks the bootstrap server for its group.
const GROUP: &str = "GET /route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1 HTTP/1.1\r\n\
     host: x\r\nconnection: close\r\n\r\n";
/// How long a caller may take to attach, with slack; and how often one that drips says a byte.
const ATTACHING: Duration = Duration::from_secs(9);
const DRIP: Duration = Duration::from_millis(100);

/// Both sides, and the address of the bootstrap server, which outlives prefill.
struct Pair {
    decode: Deployment,
    prefill: Deployment,
    server: SocketAddr,
    flags: String,
    _port: OwnedFd,
}

fn prefill(server: SocketAddr, flags: &str) -> Deployment {
    Deployment::of_side("prefill", &format!("--bootstrap-port {} {flags}", server.port()))
}

fn decode(server: SocketAddr, flags: &str) -> Deployment {
    Deployment::of_side("decode", &format!("--prefill {server} {flags}"))
}

impl Pair {
    fn start(flags: &str) -> Self {
        let (port, server) = reserved_port();
        let prefill = prefill(server, flags);
        let decode = decode(server, flags);
        Self { decode, prefill, server, flags: flags.to_owned(), _port: port }
    }

    /// A stream, with `disturb` in its midst and a reference answer that is asked for behind it: both are what they are undisturbed.
    fn check_under(&self, undisturbed: &[String], disturb: impl FnOnce()) {
        let mut stream = self.decode.stream(&story("The wisdom of", TOKENS));
        let mut told: Vec<String> = stream.by_ref().take(BEGUN).map(|event| text_of(&event)).collect();
        disturb();
        self.check_golden(&goldens()[0]);
        told.extend(texts(stream));
        assert_eq!(told, undisturbed);
    }

    fn check_golden(&self, golden: &Golden) {
        let answer = self.decode.post(&request(golden, false));
        assert_eq!(answer.status, 200, "{} {} {}", answer.body, self.decode.errors(), self.prefill.errors());
        assert_eq!(answer.text(), pieces(golden).concat(), "{:?}", golden.prompt);
    }

    fn undisturbed(&self) -> Vec<String> {
        texts(self.decode.stream(&story("The wisdom of", TOKENS)))
    }

    /// Waits until neither side holds anything.
    fn wait_until_drained(&self) {
        self.decode.wait_until_drained(256);
        self.prefill.wait_until_drained(256);
    }

    fn end(self) {
        let (decoding, prefilling) = (self.decode.rank_pids(), self.prefill.rank_pids());
        self.decode.end(&decoding);
        self.prefill.end(&prefilling);
    }
}

fn epoch(side: &Deployment) -> Value {
    side.health().1["epoch"].clone()
}

#[test]
fn apart_answers_are_the_references_and_requests_are_paired_by_room() {
    let (pair, goldens) = (Pair::start(""), goldens());
    thread::scope(|scope| {
        for golden in &goldens {
            scope.spawn(|| pair.check_golden(golden));
        }
    });
    let golden = &goldens[0];
    let paired = |room: u64, port: u16| {
        let mut body = request(golden, false);
        body["bootstrap_host"] = json!("127.0.0.1");
        body["bootstrap_port"] = json!(port);
        body["bootstrap_room"] = json!(room);
        body
    };
    let port = pair.server.port();
    thread::scope(|scope| {
        let half = scope.spawn(|| pair.prefill.post(&paired(7, port)));
        assert_eq!(pair.decode.post(&paired(7, port)).text(), pieces(golden).concat());
        let half = half.join().unwrap();
        assert_eq!((half.status, half.text()), (200, String::new()));
    });
    let refused = pair.decode.post(&paired(8, port ^ 1));
    assert_eq!((refused.status, refused.error()["param"].as_str()), (400, Some("bootstrap_port")));
    let unpaired = pair.prefill.post(&request(golden, false));
    assert_eq!((unpaired.status, unpaired.error()["param"].as_str()), (400, Some("bootstrap_room")));
    pair.wait_until_drained();
    pair.end();
}

#[test]
fn apart_a_rank_of_either_side_dies_alone() {
    let pair = Pair::start("");
    let undisturbed = pair.undisturbed();
    let (decoding, prefilling) = (pair.decode.rank_pids(), pair.prefill.rank_pids());
    pair.check_under(&undisturbed, || kill(decoding[1], Signal::KILL));
    assert_eq!((epoch(&pair.decode), epoch(&pair.prefill)), (json!(2), json!(1)));
    assert_eq!(pair.prefill.rank_pids(), prefilling, "the living group stays");
    assert!(decoding.iter().all(|&pid| !lives(pid)));

    let decoding = pair.decode.rank_pids();
    pair.check_under(&undisturbed, || kill(prefilling[1], Signal::KILL));
    assert_eq!((epoch(&pair.decode), epoch(&pair.prefill)), (json!(2), json!(2)));
    assert_eq!(pair.decode.rank_pids(), decoding, "the living group stays");
    assert!(prefilling.iter().all(|&pid| !lives(pid)));

    // The leaders, whose words are the group's.
    let prefilling = pair.prefill.rank_pids();
    pair.check_under(&undisturbed, || kill(decoding[0], Signal::KILL));
    assert_eq!(pair.prefill.rank_pids(), prefilling);
    let decoding = pair.decode.rank_pids();
    pair.check_under(&undisturbed, || kill(prefilling[0], Signal::KILL));
    assert_eq!(pair.decode.rank_pids(), decoding);
    pair.wait_until_drained();
    pair.end();
}

#[test]
fn apart_the_whole_prefill_side_dies_and_returns() {
    let mut pair = Pair::start("--tp 1");
    let undisturbed = pair.undisturbed();
    let (decoding, prefilling) = (pair.decode.rank_pids(), pair.prefill.rank_pids());
    let mut stream = pair.decode.stream(&story("The wisdom of", TOKENS));
    let mut told: Vec<String> = stream.by_ref().take(BEGUN).map(|event| text_of(&event)).collect();
    kill(pair.prefill.pid(), Signal::KILL);
    wait_for("prefill is gone", || prefilling.iter().all(|&pid| !lives(pid)));
    wait_for("its absence is known", || pair.decode.health().1["prefill"] == "away");
    let golden = &goldens()[1];
    let waits = pair.decode.stream(&request(golden, true));
    told.extend(texts(stream));
    assert_eq!(told, undisturbed, "what runs needs no prefill");
    assert_eq!(pair.decode.health().1["queue"], 1, "what comes is accepted, and waits");
    pair.prefill = prefill(pair.server, &pair.flags);
    assert_eq!(texts(waits), pieces(golden), "{}", pair.decode.errors());
    assert_eq!(pair.decode.rank_pids(), decoding, "the living group stays");
    pair.check_golden(&goldens()[0]);
    pair.wait_until_drained();
    pair.end();
}

#[test]
fn apart_the_whole_decode_side_dies_and_another_takes_its_place() {
    let mut pair = Pair::start("--tp 1");
    let prefilling = pair.prefill.rank_pids();
    let mut stream = pair.decode.stream(&story("The wisdom of", TOKENS));
    stream.next().unwrap();
    kill(pair.decode.pid(), Signal::KILL);
    pair.decode = decode(pair.server, &pair.flags);
    assert_eq!(epoch(&pair.decode), 2, "what it has forgotten, prefill has not");
    pair.check_golden(&goldens()[0]);
    assert_eq!(pair.prefill.rank_pids(), prefilling, "the living group stays");
    pair.wait_until_drained();
    pair.end();
}

#[test]
fn apart_a_caller_that_drips_its_first_word_is_sent_away() {
    let (_port, server) = reserved_port();
    let prefill = prefill(server, "--tp 1");
    let ask = || Answer::read(send(&server.to_string(), GROUP));
    wait_for("the rank is registered", || ask().status == 200);
    let group = ask().json();
    let line = SocketAddr::new(server.ip(), group["line_port"].as_u64().unwrap().try_into().unwrap());
    let mut caller = TcpStream::connect(line).unwrap();
    caller.set_read_timeout(Some(DRIP)).unwrap();
    let start = Instant::now();
    let sent_away = |caller: &mut TcpStream| match caller.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    while caller.write_all(b" ").is_ok() && !sent_away(&mut caller) {
        assert!(start.elapsed() < ATTACHING, "it holds a place of those who attach");
    }
    let ranks = prefill.rank_pids();
    prefill.end(&ranks);
}
