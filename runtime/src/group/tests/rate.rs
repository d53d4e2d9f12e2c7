//! How many votes a second each transport carries: a measurement, run by hand with `--ignored --nocapture`.

use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::processes::{GROUP_SIZE, Rank, TRANSPORT, command};
use crate::group::{Collectives, Line, Member, Tag, Transport};

const PATIENCE: Duration = Duration::from_secs(10);
const REPEATS: usize = 3;

/// Votes of so many words for a while; says how many a second, and the median and the 99th percentile of one vote in microseconds.
pub(super) fn vote<L: Line>(member: &mut Member<L>, words: usize) {
    // A number of rounds and not a time, so that all do as many.
    let (warm, rounds) = (100, if words > 1000 { 300 } else { 10_000 });
    let mut values = vec![7; words];
    let mut enter = |round| {
        let tag = Tag { epoch: 1, round, site: 0, kind: 0, shape: words as u64 };
        let entered = Instant::now();
        member.all_reduce_min(tag, &mut values, PATIENCE).unwrap();
        entered.elapsed()
    };
    for round in 0..warm {
        enter(round);
    }
    let started = Instant::now();
    let mut votes: Vec<Duration> = (warm..warm + rounds).map(enter).collect();
    let rate = votes.len() as f64 / started.elapsed().as_secs_f64();
    votes.sort_unstable();
    let micros = |percent: usize| votes[percent * (votes.len() - 1) / 100].as_micros();
    println!("rate {rate:.0} {} {}", micros(50), micros(99));
}

fn measure(transport: Transport, size: usize, words: usize) -> [f64; 3] {
    let dir = tempfile::tempdir().unwrap();
    let part = format!("rate{words}");
    let start = |rank| {
        let mut command = command(&[], dir.path(), rank, &part);
        Rank::start(command.env(TRANSPORT, transport.name()).env(GROUP_SIZE, size.to_string()))
    };
    let mut ranks: Vec<_> = (0..size).map(start).collect();
    let told: Vec<String> = ranks.iter_mut().map(|rank| rank.await_line("rate ")).collect();
    let numbers: Vec<f64> = told[0].split(' ').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
#[ignore = "a measurement"]
fn rate_of_votes_by_transport() {
    let cores = std::thread::available_parallelism().unwrap();
    for (size, words) in [(2, 64), (4, 64), (2, 16 * 1024), (4, 16 * 1024)] {
        println!("{size} ranks on {cores} cores, votes of {words} words");
        // In turn, so that a noisy moment of the machine meets all alike.
        let run = |_| Transport::value_variants().iter().map(|one| measure(*one, size, words)).collect();
        let runs: Vec<Vec<[f64; 3]>> = (0..REPEATS).map(run).collect();
        let middle = |place: usize, number: usize| {
            let mut numbers: Vec<f64> = runs.iter().map(|run| run[place][number]).collect();
            numbers.sort_by(f64::total_cmp);
            numbers[REPEATS / 2]
        };
        let unix = Transport::value_variants().iter().position(|one| *one == Transport::Unix).unwrap();
        for (place, transport) in Transport::value_variants().iter().enumerate() {
            let [rate, median, last] = [0, 1, 2].map(|number| middle(place, number));
            let ratio = rate / middle(unix, 0);
            println!(
                "  {transport:>4}: {rate:>7.0} votes/s, {ratio:.2} x unix, median {median} us, p99 {last} us"
            );
        }
    }
}
