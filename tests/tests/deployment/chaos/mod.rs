//! Rounds of random faults on one standing deployment. After each, every request that was accepted has ended with the right tokens or a
//! clear error, nothing is held, rounds go on, and the next request is right.
//!
//! `LOCKSTEP_CHAOS_ROUNDS` and `LOCKSTEP_CHAOS_SEED` make it longer, and another one.
//! Reading order: `faults` (what may happen), this file (how, and what must hold), `relay` (transfers that are spoilt).

mod faults;
mod relay;

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_tests::golden::{Golden, goldens};
use lockstep_tests::http::{Answer, Events, post};
use lockstep_tests::process::{PATIENCE, kill, lives, wait_for};
use rustix::process::Signal;
use serde_json::json;

use self::faults::{Dice, Fault, Spoil};
use self::relay::Relay;
use crate::common::{Deployment, ended, long_request, pieces, request, story};

const ROUNDS: u64 = 30;
/// Of those in which pages go where no relay can spoil them.
const ROUNDS_IN_MEMORY: u64 = 10;
const SEED: u64 = 940;
const PAGES: u32 = 64;

/// Few slots and pages, so that faults meet requests in every phase; a queue that a storm does not fill.
const ARGUMENTS: &str = "--slots 4 --pages 64 --page-size 4 --host-pages 16 --swap-pages 16 --max-queue 240 --restarts 1000000 --drain-seconds 0";

/// Requests of each round: each reference answer so many times.
const TIMES: usize = 2;

/// Requests of a storm, and connections that are half open.
const STORM: usize = 200;
const HALF_OPEN: usize = 16;

/// A request that takes nearly all pages by itself.
const PROMPT: &str = "The wisdom of";
const LONGEST: u32 = 200;

/// More than the queue takes.
const FLOOD: usize = 300;

/// No round takes longer, its requests included.
const ROUND_DEADLINE: Duration = Duration::from_secs(30);

/// How long a rank is stopped that goes on: less than is found a loss.
const HICCUP: Duration = Duration::from_millis(700);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

struct Chaos {
    server: Deployment,
    goldens: Vec<Golden>,
    expected: Vec<Vec<String>>,
    /// Ranks of the epoch that served last.
    pids: Vec<u32>,
    /// Ranks that were killed, or stopped for good.
    lost: Vec<u32>,
    relays: Vec<Relay>,
    counts: BTreeMap<&'static str, u64>,
}

/// What one round leaves to be looked after: streams of which reference answer, how slowly they are read, connections that are open.
#[derive(Default)]
struct Round {
    streams: Vec<(usize, Events)>,
    flood: Vec<(usize, TcpStream)>,
    half_open: Vec<TcpStream>,
    reading_pause: Duration,
    transfers_may_fail: bool,
}

impl Chaos {
    fn new(flags: &str) -> Self {
        let (server, goldens) = (Deployment::start(&format!("{ARGUMENTS} {flags}")), goldens());
        let (expected, pids) = (goldens.iter().map(pieces).collect(), server.rank_pids());
        let (lost, relays, counts) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { server, goldens, expected, pids, lost, relays, counts }
    }

    fn count(&mut self, what: &'static str, by: u64) {
        *self.counts.entry(what).or_default() += by;
    }

    fn round(&mut self, faults: &[Fault], pause: Duration) {
        let begun = Instant::now();
        let mut round = Round { streams: self.streams(), ..Round::default() };
        thread::sleep(pause);
        for fault in faults {
            self.inject(*fault, &mut round);
        }
        self.check_streams(&mut round);
        self.check_flood(&mut round);
        drop(round);
        self.settle();
        assert!(begun.elapsed() < ROUND_DEADLINE, "it took {:?}", begun.elapsed());
    }

    fn streams(&self) -> Vec<(usize, Events)> {
        let places = (0..self.goldens.len()).cycle().take(self.goldens.len() * TIMES);
        places.map(|place| (place, self.server.stream(&request(&self.goldens[place], true)))).collect()
    }

    fn inject(&mut self, fault: Fault, round: &mut Round) {
        match fault {
            Fault::AbortStorm => {
                let body = post("application/json", &story(PROMPT, LONGEST).to_string());
                let storm: Vec<_> = (0..STORM).map(|_| self.server.send(&body)).collect();
                drop(storm);
            }
            Fault::AllClientsLeave => round.streams.clear(),
            Fault::FullQueue => round.flood = self.flood(),
            Fault::HalfOpen => round.half_open.extend(self.half_open()),
            Fault::Hiccup(rank) => {
                let pid = self.pid(rank);
                if !self.lost.contains(&pid) {
                    signal(pid, Signal::STOP);
                    thread::sleep(HICCUP);
                    signal(pid, Signal::CONT);
                }
            }
            Fault::Kill(rank) => self.lose(rank, Signal::KILL),
            Fault::KillGroup(rank) => {
                self.lose(rank, Signal::KILL);
                self.lose(rank ^ 1, Signal::KILL);
            }
            Fault::SlowReaders => round.reading_pause = Duration::from_millis(5),
            Fault::Spoil(rank, spoil) => {
                self.lose(rank, Signal::KILL);
                round.transfers_may_fail = true;
                self.interpose(spoil);
            }
            Fault::Stop(rank) => self.lose(rank, Signal::STOP),
        }
    }

    fn pid(&self, rank: usize) -> u32 {
        pids(&self.server).get(rank).copied().unwrap_or(self.pids[rank])
    }

    fn lose(&mut self, rank: usize, how: Signal) {
        let pid = self.pid(rank);
        signal(pid, how);
        self.lost.push(pid);
    }

    /// Sends more short requests than are taken.
    fn flood(&self) -> Vec<(usize, TcpStream)> {
        let send = |number: usize| {
            let place = number % self.goldens.len();
            let prompt = &self.goldens[place].prompt_ids;
            let body = json!({"prompt": prompt, "max_tokens": 1, "ignore_eos": true});
            (place, self.server.send(&post("application/json", &body.to_string())))
        };
        (0..FLOOD).map(send).collect()
    }

    fn half_open(&self) -> Vec<TcpStream> {
        let whole = post("application/json", &story(PROMPT, LONGEST).to_string());
        let head = whole.find("\r\n\r\n").unwrap();
        let cuts = [0, 20, head, head + 8];
        (0..HALF_OPEN).map(|number| self.server.send(&whole[..cuts[number % cuts.len()]])).collect()
    }

    /// Takes the place of the fabric's sockets in the epoch that follows. A decode rank that has connected by then is not met.
    fn interpose(&mut self, spoil: Spoil) {
        let begun = Instant::now();
        let mut next = pids(&self.server);
        while next.len() < self.pids.len() || next.iter().any(|pid| self.pids.contains(pid)) {
            if begun.elapsed() > PATIENCE {
                return;
            }
            next = pids(&self.server);
        }
        let (decode, prefill) = next.split_at(next.len() / 2);
        decode.iter().for_each(|&pid| signal(pid, Signal::STOP));
        let sockets = prefill.iter().enumerate().filter_map(|(rank, &pid)| fabric_socket(pid, rank));
        let relays: Vec<Relay> = sockets.filter_map(|path| Relay::interpose(&path, spoil).ok()).collect();
        decode.iter().for_each(|&pid| signal(pid, Signal::CONT));
        self.count("relays", relays.len() as u64);
        self.relays = relays;
    }

    fn check_streams(&mut self, round: &mut Round) {
        for (place, stream) in round.streams.drain(..) {
            let pause = round.reading_pause;
            match ended(stream, || thread::sleep(pause)) {
                Ok(texts) => assert_eq!(texts, self.expected[place], "{:?}", self.goldens[place].prompt),
                Err(error) => self.check_error(&error, round.transfers_may_fail),
            }
            self.count("streams", 1);
        }
    }

    fn check_error(&mut self, error: &str, transfers_may_fail: bool) {
        let clear =
            ["KV cache", "could not be reached", "gave it up"].iter().any(|word| error.contains(word));
        assert!(transfers_may_fail && clear, "not an error to expect: {error}");
        self.count("failed transfers told", 1);
    }

    fn check_flood(&mut self, round: &mut Round) {
        for (place, stream) in round.flood.drain(..) {
            let answer = Answer::read(stream);
            match answer.status {
                200 => assert_eq!(answer.text(), self.expected[place][0]),
                429 => assert!(answer.headers.contains("retry-after: 1"), "{}", answer.headers),
                _ => self.check_error(&answer.body, round.transfers_may_fail),
            }
            self.count(if answer.status == 429 { "refused" } else { "flood" }, 1);
        }
    }

    /// Checks what must hold after every round.
    fn settle(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        wait_for("all is well again", || {
            let (status, health) = self.server.health();
            let ranks = self.server.ranks();
            let of_the_epoch = ranks.iter().all(|rank| rank["epoch"] == health["epoch"]);
            let replaced = lost.iter().all(|&pid| ranks.iter().all(|rank| rank["pid"] != pid));
            status == 200 && health["status"] == "ok" && of_the_epoch && replaced
        });
        self.server.wait_until_drained(PAGES);
        let next = self.server.post(&request(&self.goldens[0], false));
        match next.status {
            200 => assert_eq!(next.text(), self.expected[0].concat()),
            // The relay may be waiting for something to spoil still; once, and once more for the second rank.
            _ => self.check_error(&next.body, !self.relays.is_empty()),
        }
        self.count("spoilt", self.relays.iter().map(Relay::spoilt).sum());
        self.relays.clear();
        let pids = self.server.rank_pids();
        let left = self.pids.iter().filter(|pid| !pids.contains(pid) && lives(**pid)).count();
        assert_eq!(left, 0, "ranks of an old epoch live");
        self.pids = pids;
    }
}

/// The process ids of all ranks that are started.
fn pids(server: &Deployment) -> Vec<u32> {
    server.ranks().iter().filter_map(|rank| u32::try_from(rank["pid"].as_u64()?).ok()).collect()
}

/// Sends a signal to a process that may be gone.
fn signal(pid: u32, signal: Signal) {
    if lives(pid) {
        kill(pid, signal);
    }
}

/// Where a prefill rank listens for its decode rank, once it does.
fn fabric_socket(pid: u32, rank: usize) -> Option<PathBuf> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let directory = line.split('\0').find_map(|word| word.strip_prefix("--run-directory="))?;
    let path = Path::new(directory).join(format!("kv.{rank}.sock"));
    let begun = Instant::now();
    while !path.exists() && begun.elapsed() < PATIENCE / 10 {
        thread::sleep(Duration::from_millis(2));
    }
    path.exists().then_some(path)
}

/// So many rounds, with those of the faults that `include` takes.
fn chaos(flags: &str, rounds: u64, include: impl Fn(&Fault) -> bool) {
    let (rounds, seed) = (number("LOCKSTEP_CHAOS_ROUNDS", rounds), number("LOCKSTEP_CHAOS_SEED", SEED));
    let (mut chaos, mut dice) = (Chaos::new(flags), Dice(seed));
    for round in 0..rounds {
        let (mut faults, pause) = (dice.faults(chaos.pids.len()), dice.pause());
        faults.retain(&include);
        println!("round {round} of seed {seed}: {faults:?} after {pause:?}");
        chaos.round(&faults, pause);
    }
    println!("{rounds} rounds of seed {seed}: {:?}, {}", chaos.counts, chaos.server.health().1["restarts"]);
    let pids = chaos.pids;
    chaos.server.end(&pids);
}

#[test]
fn chaos_leaves_every_answer_right() {
    chaos("--fabric unix", ROUNDS, |_| true);
}

#[test]
fn chaos_leaves_every_answer_right_where_pages_are_in_shared_memory_and_votes_in_the_stream() {
    chaos("--fabric shm --votes-in-stream", ROUNDS_IN_MEMORY, |fault| !matches!(fault, Fault::Spoil(..)));
}

/// The shape of the outage that this project is about: groups of four, streams beyond their slots, all cancelled at once.
#[test]
fn chaos_of_two_hundred_cancelled_streams_leaves_groups_of_four_whole() {
    let server = Deployment::start("--tp 4");
    server.wait_until_drained(256);
    let streams: Vec<Events> = (0..STORM).map(|_| server.stream(&long_request())).collect();
    wait_for("all slots are used", || server.ranks()[0]["slots_used"] == 8);
    drop(streams);
    server.wait_until_drained(256);
    let golden = &goldens()[2];
    assert_eq!(server.post(&request(golden, false)).text(), pieces(golden).concat());
    let (status, health) = server.health();
    assert_eq!((status, health["epoch"].as_u64(), health["queue"].as_u64()), (200, Some(1), Some(0)));
    let pids = server.rank_pids();
    assert_eq!(pids.len(), 8);
    server.end(&pids);
}
