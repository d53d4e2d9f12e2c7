//! The deployed rank loop led along ways that the checker explored: every edge between states at which two ranks with one slot are between
//! rounds, by a shortest way each, and every way from phase to phase of two ranks with two slots; and ways across epochs and of both groups.

use std::collections::BTreeSet;
use std::io::Write;

use lockstep_model::coverage::{Points, decode, prefill};
use lockstep_model::decode::setting::DecodeSetting;
use lockstep_model::epochs::front_end::Shipped as ShippedConduct;
use lockstep_model::epochs::model::EpochsModel;
use lockstep_model::epochs::setting::EpochsSetting;
use lockstep_model::explain::{PathError, path};
use lockstep_model::explore::{Explorable, drawn};
use lockstep_model::runs::{Purpose, Run, Tier, registry};
use lockstep_model::traces::whose;
use lockstep_runtime::rank::{Departure, rehearse};
use lockstep_spec::decode::rules::Shipped;

/// The proofs of one group at a size.
fn proofs<'a>(runs: &'a [Run], group: &str, size: &str) -> Vec<&'a Run> {
    let prefix = format!("{group}-{size}-");
    let wanted = |run: &&Run| run.purpose == Purpose::Proof && run.name.starts_with(&prefix);
    runs.iter().filter(wanted).collect()
}

/// Leads each rank along a way; the number of their rounds.
fn lead(run: &Run, way: &[u32]) -> u64 {
    lead_along(run.name, &run.model.traces(way), way)
}

fn lead_along(name: &str, traces: &[String], way: &[u32]) -> u64 {
    assert!(!traces.is_empty(), "{name}");
    let rounds = traces.iter().map(|trace| {
        rehearse(trace).unwrap_or_else(|departure| panic!("{name}, {}: {departure}\n{way:?}", whose(trace)))
    });
    rounds.sum()
}

/// Says what was covered, also where the test runner keeps what tests print.
fn tell(line: &str) {
    let mut errors = std::io::stderr();
    let _unread = writeln!(errors, "rehearsal: {line}");
}

/// Runs of all faults at once have too many edges for a test; their classes have runs of their own.
const TOGETHER: [&str; 2] = ["decode-2x1-3p-faults-", "decode-2x1-3p-everything-"];

fn every_edge_of(group: &str) {
    let runs = registry().runs;
    let mut proofs = proofs(&runs, group, "2x1");
    proofs.retain(|run| !TOGETHER.iter().any(|together| run.name.starts_with(together)));
    assert!(proofs.len() >= 8, "the runs of two ranks with one slot are gone");
    proofs.into_iter().for_each(|run| tour(run, if copies(run) { 16 } else { 1 }));
}

/// Whether pages are copied to the hosts: each copy may complete on each rank at any time, and the loop does no more than tell its machine.
fn copies(run: &Run) -> bool {
    ["hosted", "scarce-hosts", "forgotten"].iter().any(|concern| run.name.contains(concern))
}

/// Leads ranks along the edges between states of a run at which all are between rounds: all edges, or those on every so-manieth way.
fn tour(run: &Run, every: usize) {
    let tours = run.model.tours();
    let rounds: u64 = tours.ways.iter().step_by(every).map(|way| lead(run, way)).sum();
    let (states, edges, ways) = (tours.states, tours.edges, tours.ways.len());
    let of = if every == 1 { String::new() } else { format!(", one in {every} of them taken") };
    tell(&format!("{}: {edges} edges of {states} states in {ways} ways{of}, {rounds} rounds", run.name));
    assert!(rounds > 0);
}

fn tour_all(names: &[(&str, usize)]) {
    let runs = registry().runs;
    for (name, every) in names {
        let run = runs.iter().find(|run| run.name == *name);
        tour(run.unwrap_or_else(|| panic!("no run is called {name}")), *every);
    }
}

/// Arcs of requests whose copies are on the hosts that no run at 2 × 2 reaches: with aborts beside copies, or pauses, these have too many states.
const COPIED: [&str; 4] = [
    "decode: Stored → free",
    "decode: Restoring → Ready",
    "decode: Restoring → Draining",
    "decode: Restoring → free",
];

/// An arc that takes three slots: of requests that come back, one is at once the victim of those before it.
const OF_THREE: &str = "decode: Restoring → Retracting";

fn every_arc_of(points: &Points, size: &str, which: impl Fn(&str) -> bool) {
    let runs = registry().runs;
    let mut proofs = proofs(&runs, points.role, size);
    proofs.retain(|run| run.tier != Tier::Nightly);
    // Those whose arcs few others have, first.
    proofs.sort_by_key(|run| !copies(run));
    let arcs =
        points.names().into_iter().filter(|point| point.contains(" → ") && !point.contains("not drawn"));
    let mut wanted: BTreeSet<String> = arcs.filter(|arc| which(arc)).collect();
    let all = wanted.len();
    for run in proofs {
        let ways = run.model.ways_to_points(&mut wanted);
        let rounds: u64 = ways.iter().map(|(_, way)| lead(run, way)).sum();
        tell(&format!("{}: {} arcs, {rounds} rounds", run.name, ways.len()));
        if wanted.is_empty() {
            return assert!(all > 0);
        }
    }
    panic!("not reached: {wanted:?}");
}

#[test]
fn rehearsal_takes_every_edge_of_decode() {
    every_edge_of("decode");
}

#[test]
fn rehearsal_takes_every_edge_of_prefill() {
    every_edge_of("prefill");
}

/// Ranks crash, or are dismissed, and are formed again.
#[test]
fn rehearsal_goes_ways_across_epochs() {
    tour_all(&[("epochs-1x1-1q-2k-plain-normal", 4), ("epochs-1x1-1q-2k-dismissals-normal", 8)]);
}

/// Of two ranks with two slots, one may crash while the other goes on, or be asked to leave before it.
#[test]
fn rehearsal_goes_drawn_ways_across_epochs() {
    let group = DecodeSetting::new(2, 2, 4, true);
    let setting = EpochsSetting { leaves: true, dismissals: true, ..EpochsSetting::new(&group, 2, 3) };
    let model = EpochsModel::<Shipped, ShippedConduct>::new(setting);
    let ways = (0..200).map(|seed| drawn(&model, seed, 400, |_| false));
    let rounds: u64 = ways.map(|way| lead_along("drawn", &model.traces(&way), &way)).sum();
    tell(&format!("two ranks with two slots across epochs: {rounds} rounds in 200 drawn ways"));
    assert!(rounds > 1_000);
}

/// Both groups, whose links fail and which are replaced apart. Each step is an edge.
#[test]
fn rehearsal_goes_ways_of_two_groups() {
    tour_all(&[
        ("two-groups-1x1x2-1x1x1-failures-normal", 1),
        ("two-groups-1x1x3-1x1x2-chunks-overlap", 1),
        ("two-groups-1x1x2-1x1x2-prefill-replaced-normal", 1),
        ("two-groups-2x1x2-1x1x2-decode-replaced-normal", 4),
    ]);
}

/// What a broken surrounding does to ranks that are the program's own can be gone by the loop as well, up to the violation.
#[test]
fn rehearsal_of_a_counterexample_with_the_programs_own_ranks() -> Result<(), PathError> {
    path("epochs-crash-unnoticed")?
        .step("rank 0 turns")
        .step("rank 1 crashes")
        .step("a request is accepted")
        .led_by(rehearse)?
        .violates("no-stuck")
}

#[test]
fn rehearsal_takes_every_arc_of_decode() {
    every_arc_of(&decode::POINTS, "2x2", |arc| !COPIED.contains(&arc) && arc != OF_THREE);
    every_arc_of(&decode::POINTS, "1x2", |arc| COPIED.contains(&arc));
}

#[test]
fn rehearsal_takes_every_arc_of_prefill() {
    every_arc_of(&prefill::POINTS, "2x2", |_| true);
}

#[test]
fn rehearsal_departs_from_a_trace_that_is_not_the_loops() {
    assert!(matches!(rehearse(""), Err(Departure::Unreadable { line: 1, .. })));
    let runs = registry().runs;
    let run = runs.iter().find(|run| run.name == "decode-2x1-3p-pause-normal").unwrap();
    let trace = &run.model.traces(&run.model.tours().ways[0])[0];
    let lines: Vec<&str> = trace.lines().collect();
    rehearse(&lines.join("\n")).unwrap();
    // A fact that comes twice changes nothing, by design.
    let kinds = [
        ("{\"took\":{\"Fact", vec![0]),
        ("{\"took\":{\"Completed", vec![0, 2]),
        ("{\"entered\"", vec![0, 2]),
        ("{\"did\":{\"Role", vec![0, 2]),
        ("{\"did\":{\"Launch", vec![0, 2]),
    ];
    for (kind, times) in kinds {
        let place = lines.iter().position(|line| line.starts_with(kind)).unwrap();
        for times in times {
            let mut changed = lines.clone();
            changed.splice(place..=place, vec![lines[place]; times]);
            let departed = rehearse(&changed.join("\n"));
            assert!(
                matches!(departed, Err(Departure::Differs { line, .. }) if line > 1),
                "{kind}: {departed:?}"
            );
        }
    }
}

#[test]
fn rehearsal_of_a_path_by_the_names_of_its_steps() -> Result<(), PathError> {
    path("decode-2x1-3p-pause-overlap")?
        .step("rank 0 sees PauseWanted(true)")
        .step("rank 0 turns")
        .step("rank 1 turns")
        .step("the collective completes")
        .led_by(rehearse)?
        .holds()
}

#[test]
fn rehearsal_of_other_ranks_than_the_programs_is_refused() {
    let others = [
        "conventional-local-admission-normal",
        "decode-mutant-applies-stale",
        "two-groups-mutant-launches-unfenced",
    ];
    for run in others {
        let led = path(run).unwrap().led_by(rehearse);
        assert!(matches!(led, Err(PathError::Foreign(_))), "{run}");
    }
}
