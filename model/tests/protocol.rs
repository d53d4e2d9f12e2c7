//! The library for designers: what it finds in ranks that enter scripted collectives, and that its examples come out as they say.

use std::process::ExitCode;

use lockstep_model::explore::{Settings, StepEvent};
use lockstep_model::protocol::{Checked, holds, main, prelude::*};
use lockstep_model::runs::{Progress, Runner, Verdict};

/// A collective of all ranks on one of two communicators; a rank goes on while `Later` is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Site {
    One,
    Other,
    Later,
}

impl SiteName for Site {
    fn communicator(self) -> Communicator {
        match self {
            Self::One | Self::Other => Communicator::Control,
            Self::Later => Communicator::Device,
        }
    }
}

impl Meeting for Site {
    fn collective(self) -> Collective {
        match self {
            Self::One | Self::Later => Collective::of(Operation::Sum),
            Self::Other => Collective::of(Operation::Sum).on("other"),
        }
    }
}

/// What a rank does in one turn: it enters a collective with a shape, in a round.
type Entry = (Site, usize, u64);

/// Takes the rank out of its collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Aborted;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rank {
    script: Vec<Entry>,
    turns: usize,
    ends: End,
}

/// What a rank does when its script is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Fault,
    Leave,
    Repeat,
    Stay,
}

impl RankProgram for Rank {
    type Site = Site;
    type Fact = Aborted;
    type Entry = Posted<Site>;
    type Local = Aborted;

    fn step(&mut self, event: Event<Aborted, Site>, effects: &mut Vec<Effect<Posted<Site>, Aborted>>) {
        match (event, self.script.get(self.turns)) {
            (Event::Fact(Aborted), _) => effects.push(Effect::Local(Aborted)),
            (Event::Turn, Some((site, shape, round))) => {
                effects.push(Effect::Enter(site.bring(vec![1; *shape]).in_round(*round)));
                self.turns += 1;
                if self.ends == End::Repeat {
                    self.turns %= self.script.len();
                }
            }
            (Event::Turn, None) if self.ends == End::Leave => effects.push(Effect::Leave),
            (Event::Turn, None) if self.ends == End::Fault => {
                effects.push(Effect::Fault(Fault::Invariant("script")));
            }
            (Event::Turn, None) | (Event::Completed { .. }, _) => {}
        }
    }
}

no_counters!(Rank);

#[derive(Clone, Debug)]
struct Scripts {
    scripts: Vec<Vec<Entry>>,
    ends: End,
    aborts: bool,
    order: Interleaving,
}

impl Scripts {
    fn new(ends: End, scripts: &[&[Entry]]) -> Self {
        let scripts = scripts.iter().map(|script| script.to_vec()).collect();
        Self { scripts, ends, aborts: false, order: Interleaving::Full }
    }
}

impl Protocol for Scripts {
    type Rank = Rank;
    type Around = ();

    fn ranks(&self) -> Vec<Rank> {
        let rank = |script: &Vec<Entry>| Rank { script: script.clone(), turns: 0, ends: self.ends };
        self.scripts.iter().map(rank).collect()
    }

    fn facts(&self, state: &StateOf<Self>, rank: usize) -> Vec<Aborted> {
        (self.aborts && state.waits(rank)).then_some(Aborted).into_iter().collect()
    }

    fn abandons(&self, Aborted: &Aborted) -> bool {
        true
    }

    fn interleaving(&self) -> Interleaving {
        self.order
    }
}

/// The steps of the counterexample, each as the lane and the few words of what happened there.
fn told(protocol: Scripts) -> Vec<Vec<(usize, String)>> {
    let outcome = Progress(Checked::new(protocol)).run(&Settings::default()).expect("it can be explored");
    let words = |event: &StepEvent| Some((event.lane?, event.what.short()?));
    let scenes = outcome.story.expect("it is violated").scenes;
    scenes.iter().map(|scene| scene.events.iter().filter_map(words).collect()).collect()
}

fn at(lane: usize, words: &str) -> (usize, String) {
    (lane, words.to_owned())
}

#[test]
fn protocol_drawings_join_what_completes() {
    let told = told(Scripts::new(End::Fault, &[&[ONE], &[ONE]]));
    let [entered, one, other] = ["enters One[1]", "One[1] completes", "One[1] completes"];
    assert_eq!(told[1], [at(0, entered)]);
    assert_eq!(told[2], [at(1, entered), at(0, one), at(1, other)]);
    assert_eq!(told[3], [at(0, "One completes on rank 0")]);
    assert_eq!(told[4], [], "it ends itself, and enters nothing");
}

/// A set of ranks has no room for more: they would be members of nothing, and their entries would match nobody's.
#[test]
fn protocol_refuses_more_ranks_than_a_set_has_room_for() {
    let exit = |ranks: usize| {
        let scripts: Vec<&[Entry]> = vec![&[]; ranks];
        main([holds("many", Scripts::new(End::Stay, &scripts))])
    };
    assert_eq!(format!("{:?}", exit(65)), format!("{:?}", ExitCode::from(2)));
}

#[test]
fn protocol_drawings_break_what_does_not_meet() {
    let told = told(Scripts::new(End::Stay, &[&[LATER, ONE], &[(Site::Later, 2, 0), ONE]]));
    let broken = |site: &str| format!("waits in {site}, another rank in another");
    let last = told.last().expect("there are steps");
    assert!(
        last.contains(&at(0, &broken("Later[1]"))) && last.contains(&at(1, &broken("Later[2]"))),
        "{last:?}"
    );
    let skip = self::told(Scripts::new(End::Leave, &[&[ONE, OTHER], &[ONE]]));
    let last = skip.last().expect("there are steps");
    assert_eq!(last.iter().filter(|(_, words)| words.contains("another rank")).count(), 1, "{last:?}");
}

/// The violated property, or none if the protocol holds.
#[track_caller]
fn violated(protocol: Scripts) -> Option<String> {
    match Progress(Checked::new(protocol)).run(&Settings::default()).expect("it can be explored").verdict {
        Verdict::Fault { property, .. } => Some(property),
        Verdict::Holds => None,
        verdict @ (Verdict::Unknown(_) | Verdict::Vacuous { .. }) => panic!("no verdict: {verdict:?}"),
    }
}

const ONE: Entry = (Site::One, 1, 0);
const OTHER: Entry = (Site::Other, 1, 0);
const LATER: Entry = (Site::Later, 1, 0);

#[test]
fn protocol_circular_wait_over_communicators_is_stuck() {
    for end in [End::Stay, End::Repeat, End::Leave] {
        let crossed = Scripts::new(end, &[&[ONE, OTHER], &[OTHER, ONE]]);
        assert_eq!(violated(crossed).as_deref(), Some("no-stuck"), "{end:?}");
        assert_eq!(violated(Scripts::new(end, &[&[ONE, OTHER], &[ONE, OTHER]])), None, "{end:?}");
    }
}

#[test]
fn protocol_waits_of_three_ranks_in_a_circle_are_stuck() {
    let crossed: [&[Entry]; 3] = [&[ONE, OTHER], &[OTHER, ONE], &[ONE, OTHER]];
    assert_eq!(violated(Scripts::new(End::Repeat, &crossed)).as_deref(), Some("no-stuck"));
}

#[test]
fn protocol_what_is_taken_later_crosses_nothing() {
    assert_eq!(violated(Scripts::new(End::Stay, &[&[LATER, ONE], &[ONE, LATER]])), None);
    let mismatch = Scripts::new(End::Stay, &[&[LATER, ONE], &[(Site::Later, 2, 0), ONE]]);
    assert_eq!(violated(mismatch).as_deref(), Some("matched"));
}

#[test]
fn protocol_difference_in_shape_is_a_mismatch() {
    let shapes = Scripts::new(End::Stay, &[&[ONE], &[(Site::One, 2, 0)]]);
    assert_eq!(violated(shapes).as_deref(), Some("matched"));
}

#[test]
fn protocol_skip_is_told_from_a_mismatch_by_rounds() {
    let skips: &[Entry] = &[(Site::One, 1, 1)];
    let rounds: &[Entry] = &[(Site::Other, 1, 0), (Site::One, 1, 1)];
    for scripts in [[rounds, skips], [skips, rounds]] {
        assert_eq!(violated(Scripts::new(End::Stay, &scripts)).as_deref(), Some("no-skip"));
    }
    assert_eq!(violated(Scripts::new(End::Stay, &[rounds, rounds])), None);
}

#[test]
fn protocol_rank_that_leaves_past_a_collective_skips() {
    let scripts: [&[Entry]; 2] = [&[ONE, OTHER], &[ONE]];
    for scripts in [scripts, [scripts[1], scripts[0]]] {
        assert_eq!(violated(Scripts::new(End::Leave, &scripts)).as_deref(), Some("no-skip"));
    }
    assert_eq!(violated(Scripts::new(End::Stay, &[&[ONE, OTHER], &[ONE]])).as_deref(), Some("no-stuck"));
}

#[test]
fn protocol_rank_that_finds_no_transition_is_at_fault() {
    assert_eq!(violated(Scripts::new(End::Fault, &[&[ONE], &[ONE]])).as_deref(), Some("no-fault"));
}

#[test]
fn protocol_abort_leaves_the_others_behind() {
    let aborting = Scripts { aborts: true, ..Scripts::new(End::Stay, &[&[ONE], &[ONE]]) };
    assert_eq!(violated(aborting.clone()), None, "each may abort");
    let lone = Scripts { aborts: true, ..Scripts::new(End::Leave, &[&[ONE, OTHER], &[ONE, OTHER]]) };
    assert_eq!(violated(lone).as_deref(), Some("no-skip"));
}

#[test]
fn protocol_fixed_order_agrees_with_all_interleavings() {
    let cases: [(&[&[Entry]], End); 4] = [
        (&[&[ONE, OTHER], &[ONE, OTHER], &[ONE, OTHER]], End::Repeat),
        (&[&[ONE, OTHER], &[ONE, OTHER], &[OTHER, ONE]], End::Repeat),
        (&[&[ONE, OTHER], &[ONE, OTHER], &[ONE]], End::Leave),
        (&[&[ONE, OTHER], &[ONE, (Site::Other, 2, 0)], &[ONE, OTHER]], End::Repeat),
    ];
    for (scripts, end) in cases {
        let full = Scripts::new(end, scripts);
        let fixed = Scripts { order: Interleaving::FixedOrder, ..full.clone() };
        assert_eq!(violated(fixed), violated(full), "{scripts:?}");
    }
}

#[test]
fn protocol_fixed_order_refuses_turns_that_enter_nothing() {
    let idle = Scripts { order: Interleaving::FixedOrder, ..Scripts::new(End::Stay, &[&[], &[ONE]]) };
    assert_eq!(violated(idle).as_deref(), Some("fixed-order"));
}
