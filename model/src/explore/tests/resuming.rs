//! Searches that are given up and go on: nothing may tell them from a search in one piece.

use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use stateright::Property;

use super::models::{Jugs, Table, WHEELS, Wheels, table};
use crate::explore::{
    Explorable, Exploration, ExploreError, Keeper, Observer, Pulse, Settings, Snapshot, StateMarks,
    StepMarks, Unknown, explore, explore_live, stall,
};

/// Keeps the last snapshot, and goes on from one.
#[derive(Debug, Default)]
struct Memory {
    from: Mutex<Option<Vec<u8>>>,
    kept: Mutex<Option<Vec<u8>>>,
}

impl Keeper for Memory {
    fn resume(&self) -> io::Result<Option<Box<dyn Read>>> {
        Ok(self.from.lock().unwrap().take().map(|bytes| Box::new(Cursor::new(bytes)) as Box<dyn Read>))
    }

    fn is_due(&self) -> bool {
        false
    }

    fn keep(&self, snapshot: &Snapshot<'_>) {
        let mut bytes = Vec::new();
        snapshot.write(&mut bytes).unwrap();
        *self.kept.lock().unwrap() = Some(bytes);
    }
}

/// Ends a search at its so-many-th look.
#[derive(Debug)]
struct Impatient(AtomicU64);

impl Observer for Impatient {
    fn observe(&self, _pulse: &Pulse<'_>) -> ControlFlow<Unknown> {
        let left = self.0.fetch_sub(1, Ordering::Relaxed);
        if left == 1 { ControlFlow::Break(Unknown::Stopped) } else { ControlFlow::Continue(()) }
    }
}

/// How a model is explored, whatever it is.
type Explore<M> = fn(&M, &Settings<'_>) -> Result<Exploration, ExploreError>;

/// All that an exploration says but its time.
fn said(exploration: &Exploration) -> String {
    let Exploration { end, counts, missing, reached, levels, between_rounds, frontier, notes, .. } =
        exploration;
    let trail = exploration.trail_to_fault();
    format!(
        "{end:?} {counts:?} {missing:?} {reached:?} {levels:?} {between_rounds} {frontier} {notes:?} {trail:?}"
    )
}

/// The snapshot with which the search ends at its so-many-th look; `None` if it is over before.
fn given_up<M: Explorable>(
    model: &M,
    explore: Explore<M>,
    (look, threads): (u64, usize),
    from: Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let (impatient, memory) =
        (Impatient(AtomicU64::new(look)), Memory { from: Mutex::new(from), ..Memory::default() });
    let settings =
        Settings { threads, observer: Some(&impatient), keeper: Some(&memory), ..Settings::default() };
    explore(model, &settings).unwrap();
    memory.kept.into_inner().unwrap()
}

fn resumed<M: Explorable>(
    model: &M,
    explore: Explore<M>,
    bytes: Vec<u8>,
    threads: usize,
) -> Result<Exploration, ExploreError> {
    let memory = Memory { from: Mutex::new(Some(bytes)), ..Memory::default() };
    explore(model, &Settings { threads, keeper: Some(&memory), ..Settings::default() })
}

/// Gives a search up at each of its looks, on one thread or two, and takes it up on two or one; the explorations and the number of looks.
fn in_two_pieces<M: Explorable>(model: &M, explore: Explore<M>) -> (Exploration, Vec<Exploration>) {
    let whole = explore(model, &Settings::default()).unwrap();
    let mut pieces = Vec::new();
    for look in 1.. {
        let threads = usize::try_from(look % 2).unwrap() + 1;
        let Some(bytes) = given_up(model, explore, (look, threads), None) else { break };
        let exploration = resumed(model, explore, bytes, 3 - threads).unwrap();
        assert!(exploration.resumed.is_some());
        assert_eq!(said(&exploration), said(&whole), "given up at look {look}");
        pieces.push(exploration);
    }
    (whole, pieces)
}

const WHOLE: Wheels = Wheels { teeth: 5, forbidden: [u8::MAX; WHEELS] };
const FAULTY: Wheels = Wheels { teeth: 8, forbidden: [5, 4, 3, 2, 1, 0] };

#[test]
fn resuming_exhausts_as_in_one_piece() {
    let (whole, pieces) = in_two_pieces(&WHOLE, explore);
    assert_eq!((whole.counts.unique, pieces.len()), (5u64.pow(6), whole.levels.len()));
}

#[test]
fn resuming_goes_on_within_a_level() {
    let wide = Wheels { teeth: 8, ..WHOLE };
    let whole = explore(&wide, &Settings::default()).unwrap();
    let levels_before = whole.levels.iter().position(|level| *level > 1 << 14).unwrap() as u64;
    let kept = given_up(&wide, explore, (levels_before + 2, 1), None).unwrap();
    let last = resumed(&wide, explore, kept, 2).unwrap();
    assert_eq!(said(&last), said(&whole));
}

#[test]
fn resuming_finds_the_same_shortest_way_to_a_fault() {
    let (whole, pieces) = in_two_pieces(&FAULTY, explore);
    assert_eq!(whole.trail_to_fault().unwrap().actions.len(), 15);
    assert_eq!(pieces.len(), 16);
    let (jugs, pieces) = in_two_pieces(&Jugs, explore);
    assert!(jugs.trail_to_fault().is_some() && pieces.len() == 7);
}

/// What was reached only before a search was given up stays reached.
#[test]
fn resuming_remembers_early_witnesses() {
    let model = Table {
        properties: || {
            vec![
                Property::sometimes("early", |_, node| *node == 1),
                Property::sometimes("never", |_, node| *node == 9),
            ]
        },
        ..table(&[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 5)])
    };
    let (whole, pieces) = in_two_pieces(&model, explore);
    assert!(whole.reached.iter().any(|reached| reached == "early"), "{:?}", whole.reached);
    assert_eq!((whole.missing, pieces.len()), (vec!["never".to_owned()], 6));
}

#[test]
fn resuming_judges_progress_on_the_whole_graph() {
    let model = Table {
        state: |node| StateMarks { goal: node == 4, ..StateMarks::default() },
        step: |_, _| StepMarks { benign: true, ..StepMarks::default() },
        ..table(&[(0, 1), (1, 0), (1, 2), (0, 4), (4, 0), (2, 3), (3, 2)])
    };
    let (whole, pieces) = in_two_pieces(&model, explore_live);
    assert!(stall(&model, &whole).is_some() && pieces.len() == 4);
    assert!(pieces.iter().all(|piece| stall(&model, piece) == stall(&model, &whole)));
}

#[test]
fn resuming_goes_on_as_often_as_it_must() {
    let whole = explore(&WHOLE, &Settings::default()).unwrap();
    let mut kept = None;
    for _ in 0..whole.levels.len() / 2 {
        kept = given_up(&WHOLE, explore, (3, 1), kept);
    }
    let last = resumed(&WHOLE, explore, kept.unwrap(), 2).unwrap();
    assert_eq!(said(&last), said(&whole));
}

#[test]
fn resuming_refuses_what_is_not_of_this_model() {
    let kept = given_up(&WHOLE, explore, (9, 1), None).unwrap();
    let wider = Wheels { teeth: 3, ..WHOLE };
    assert_eq!(resumed(&wider, explore, kept.clone(), 1).err(), Some(ExploreError::Nondeterministic));
    let cut = kept[..kept.len() - 1].to_vec();
    assert!(matches!(resumed(&WHOLE, explore, cut, 1).err(), Some(ExploreError::Kept { .. })));
    let with_graph = given_up(&progress(), explore_live, (2, 1), None).unwrap();
    let without = resumed(&progress(), explore, with_graph, 1);
    assert!(matches!(without.err(), Some(ExploreError::Kept { .. })));
}

fn progress() -> Table {
    table(&[(0, 1), (1, 2), (2, 0), (1, 0)])
}

#[test]
fn resuming_never_panics_on_wrong_bytes() {
    let model = progress();
    let kept = given_up(&model, explore_live, (2, 1), None).unwrap();
    let mut refused = 0;
    for place in 0..kept.len() {
        for bit in 0..8 {
            let mut wrong = kept.clone();
            wrong[place] ^= 1 << bit;
            match resumed(&model, explore_live, wrong, 1) {
                Ok(exploration) => drop(stall(&model, &exploration)),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > kept.len(), "{refused} of {}", kept.len() * 8);
}
