//! Speed of exploration: this explorer and Stateright's on one model of a million states of 104 bytes.
//!
//! `cargo run --example speed`

use std::time::{Duration, Instant};

use lockstep_model::explore::{Explorable, Lane, Settings, explore};
use lockstep_model::runs::{Progress, Runner};
use lockstep_model::toys::{Barrier, Rule};
use stateright::{Checker, Model, Property};

const TEETH: u8 = 10;
const WHEELS: usize = 6;

/// Wheels that turn one at a time, to their stops, and leave a trace of small numbers, as a protocol's state does.
///
/// Without stops Stateright's depth-first search would keep a path of a million steps for each open state.
#[derive(Clone)]
struct Wheels;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Position {
    wheels: [u8; WHEELS],
    rounds: u16,
    traces: [u32; 24],
}

impl Model for Wheels {
    type State = Position;
    type Action = usize;

    fn init_states(&self) -> Vec<Position> {
        vec![Position { wheels: [0; WHEELS], rounds: 7, traces: [3; 24] }]
    }

    fn actions(&self, state: &Position, actions: &mut Vec<usize>) {
        actions.extend((0..WHEELS).filter(|wheel| state.wheels[*wheel] + 1 < TEETH));
    }

    fn next_state(&self, state: &Position, wheel: usize) -> Option<Position> {
        let mut next = state.clone();
        next.wheels[wheel] += 1;
        next.traces[wheel * 4] = u32::from(next.wheels[wheel]) * 3;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("wheels have teeth", |_, state: &Position| {
            state.wheels.iter().all(|at| *at < TEETH)
        })]
    }
}

impl Explorable for Wheels {
    fn may_stop(&self, _state: &Position) -> bool {
        true
    }

    fn lanes(&self, _state: &Position) -> Vec<Lane> {
        Vec::new()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("state: {} bytes", size_of::<Position>());
    for threads in [1, 2] {
        let settings = Settings { threads, ..Settings::default() };
        let exploration = explore(&Wheels, &settings)?;
        show("lockstep", threads, exploration.counts.unique, exploration.elapsed);
        let start = Instant::now();
        let checker = Wheels.checker().threads(threads).spawn_bfs().join();
        show("stateright breadth-first", threads, checker.unique_state_count() as u64, start.elapsed());
        drop(checker);
        let start = Instant::now();
        let checker = Wheels.checker().threads(threads).spawn_dfs().join();
        show("stateright depth-first", threads, checker.unique_state_count() as u64, start.elapsed());
    }
    let group = Barrier { ranks: 7, rule: Rule::Agreed, arrivals_fair: true };
    let start = Instant::now();
    let outcome = Progress(group).run(&Settings::default())?;
    show("with graph and liveness", 0, outcome.counts.unique, start.elapsed());
    println!("{} transitions, of which exploring took {:.2?}", outcome.counts.transitions, outcome.elapsed);
    Ok(())
}

fn show(explorer: &str, threads: usize, unique: u64, elapsed: Duration) {
    let rate = u128::from(unique) * 1_000_000 / elapsed.as_micros().max(1);
    println!("{explorer:>25}  {threads} threads  {unique} states  {elapsed:>8.2?}  {rate} states/s");
}
