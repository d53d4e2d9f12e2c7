//! Rounds of random faults on one standing deployment. After each, every request has ended with the right tokens, nothing is held, and
//! the next request is right.
//!
//! `LOCKSTEP_CHAOS_ROUNDS` and `LOCKSTEP_CHAOS_SEED` make it longer, and another one.

use std::thread;
use std::time::Duration;

use lockstep_tests::golden::{Golden, goldens};
use lockstep_tests::http::Events;
use lockstep_tests::process::{kill, lives};
use rustix::process::Signal;

use crate::common::{Deployment, pieces, request, texts};

const ROUNDS: u64 = 8;
const SEED: u64 = 13;

/// Requests of each round: each reference answer so many times.
const TIMES: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill(usize),
    Hang(usize),
    AllClientsLeave,
}

/// A small generator of numbers (splitmix64): the same seed makes the same faults.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// A rank that hangs costs its peers' deadline, so it is the rare one.
    fn fault(&mut self, ranks: usize) -> Fault {
        let rank = usize::try_from(self.throw(ranks as u64)).unwrap();
        match self.throw(16) {
            0 => Fault::Hang(rank),
            1..=3 => Fault::AllClientsLeave,
            _ => Fault::Kill(rank),
        }
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

struct Chaos {
    server: Deployment,
    goldens: Vec<Golden>,
    expected: Vec<Vec<String>>,
    epoch: u64,
    pids: Vec<u32>,
}

impl Chaos {
    fn new(arguments: &str) -> Self {
        let (server, goldens) = (Deployment::start(arguments), goldens());
        let (expected, pids) = (goldens.iter().map(pieces).collect(), server.rank_pids());
        Self { server, goldens, expected, epoch: 1, pids }
    }

    fn streams(&self) -> Vec<(usize, Events)> {
        let places = (0..self.goldens.len()).cycle().take(self.goldens.len() * TIMES);
        places.map(|place| (place, self.server.stream(&request(&self.goldens[place], true)))).collect()
    }

    fn round(&mut self, fault: Fault, pause: Duration) {
        let streams = self.streams();
        thread::sleep(pause);
        match fault {
            Fault::Kill(rank) => self.lose(rank, Signal::KILL),
            Fault::Hang(rank) => self.lose(rank, Signal::STOP),
            Fault::AllClientsLeave => return drop(streams),
        }
        for (place, stream) in streams {
            assert_eq!(texts(stream), self.expected[place], "{:?}", self.goldens[place].prompt);
        }
    }

    fn lose(&mut self, rank: usize, signal: Signal) {
        self.epoch += 1;
        kill(self.server.rank_pids()[rank], signal);
    }

    /// Checks what must hold after every round.
    fn settle(&mut self) {
        self.server.wait_for_epoch(self.epoch);
        self.server.wait_until_drained(64);
        assert_eq!(self.server.post(&request(&self.goldens[0], false)).text(), self.expected[0].concat());
        let pids = self.server.rank_pids();
        let left = self.pids.iter().filter(|pid| !pids.contains(pid) && lives(**pid)).count();
        assert_eq!(left, 0, "ranks of an old epoch live");
        self.pids = pids;
    }
}

#[test]
fn chaos_leaves_every_answer_right() {
    let (rounds, seed) = (number("LOCKSTEP_CHAOS_ROUNDS", ROUNDS), number("LOCKSTEP_CHAOS_SEED", SEED));
    // Few slots and pages, so that faults meet requests in every phase.
    let mut chaos = Chaos::new("--slots 4 --pages 64 --page-size 4 --restarts 1000000");
    let mut dice = Dice(seed);
    for round in 0..rounds {
        let fault = dice.fault(chaos.pids.len());
        let pause = Duration::from_millis(dice.throw(120));
        println!("round {round} of seed {seed}: {fault:?} after {pause:?}");
        chaos.round(fault, pause);
        chaos.settle();
    }
    let pids = chaos.pids;
    chaos.server.end(&pids);
}
