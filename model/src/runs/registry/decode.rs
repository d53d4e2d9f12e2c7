//! Runs of the decode group: N real machines in their world.

use super::{LOOPS, name, ranks, tier_in};
use crate::agreed_level::mutants::{
    IgnoresPromised, LaunchesPastItsLimit, LaunchesUnfenced, LosesPages, NeverLate, PlansOne,
    ReleasesUnderCopies, RestoresWithoutFirstLaunch, RestoresWithoutFirstLaunchAndRetractsAlone,
    RunsBeforeRestored, StartsAgainUnshaken, StartsWithoutFirstLaunch, StoresWithoutFlights,
    TakesCorruptRows, TakesForeignRows, VotesBehindItsLaunch,
};
use crate::agreed_level::orders::RetiresBeforeRecording;
use crate::decode::Surroundings;
use crate::decode::field::Field;
use crate::decode::mutants::{self as refuted, Refuted};
use crate::decode::setting::{Breakage, DecodeSetting, RequestKind};
use crate::decode::witnesses::witnesses;
use crate::explore::Erased;
use crate::model::WorldModel;
use crate::runs::run::{Mode, Role, Run, Tier};
use crate::runs::runner::Progress;
use crate::world::{Completion, Interleaving};
use lockstep_spec::decode::rules::{Rules, Shipped};
use lockstep_spec::invariant::{
    Property, admission_fair, kv_before_run, no_fault, no_stuck, no_write_after_free, pages_sound,
    token_exact, vote_fresh,
};

/// Outputs of one token behind a stop, and of none.
const SHORT: [RequestKind; 2] = [
    RequestKind { prompt: 1, most: 3, stop_at: Some(1) },
    RequestKind { prompt: 1, most: 2, stop_at: Some(0) },
];

/// Its stop is its last token in any case.
const STOPS_AT_ITS_LAST: RequestKind = RequestKind { prompt: 2, most: 2, stop_at: Some(1) };

/// More than any pool here holds.
const NEVER_FITS: RequestKind = RequestKind { prompt: 1, most: 99, stop_at: None };

/// What a run is about, beside its size.
struct Concern {
    name: &'static str,
    told: &'static str,
    change: fn(&mut DecodeSetting),
}

const PLAIN: Concern =
    Concern { name: "plain", told: "endless requests of two kinds; retraction and resume", change: |_| {} };
const FAIR: Concern = Concern {
    name: "fair",
    told: "endless requests of two kinds, each of which ends; retraction and resume",
    change: |setting| {
        setting.fair = true;
        setting.kinds = LONG.to_vec();
    },
};
const FAIR_HOSTED: Concern = Concern {
    name: "fair-hosted",
    told: "endless requests of two kinds, each of which ends; retraction to two pages on each host",
    change: |setting| {
        (HOSTED.change)(setting);
        setting.fair = true;
    },
};
const HOSTED: Concern = Concern {
    name: "hosted",
    told: "endless requests of two kinds; retraction to two pages on each host",
    change: |setting| {
        setting.host(HOST_PAGES);
        setting.kinds = LONG.to_vec();
    },
};
const SCARCE: Concern = Concern {
    name: "scarce-hosts",
    told: "endless requests of two kinds; retraction to a page on each host, or to none",
    change: |setting| {
        (HOSTED.change)(setting);
        setting.host(1);
    },
};
const HOSTED_ABORTS: Concern = Concern {
    name: "hosted-aborts",
    told: "any request may be aborted, the group paused, and any rank ask it to leave, at any time; retraction to a page on each host, or to none",
    change: |setting| {
        (SCARCE.change)(setting);
        setting.aborts = true;
        setting.pause = true;
        setting.shutdown = true;
        setting.kinds.truncate(1);
    },
};
const ABORTS: Concern = Concern {
    name: "aborts",
    told: "any request may be aborted at any time; retraction and resume",
    change: |setting| {
        setting.aborts = true;
        setting.kinds.truncate(1);
    },
};
const SHORT_OUTPUTS: Concern = Concern {
    name: "short-outputs",
    told: "endless requests of two kinds with a token or two",
    change: |setting| setting.kinds = SHORT.to_vec(),
};
const BRIEFLY: Concern = Concern {
    name: "brief",
    told: "endless requests of one kind with two tokens",
    change: |setting| setting.kinds = vec![SHORT[0]],
};
const SHORT_ABORTS: Concern = Concern {
    name: "short-aborts",
    told: "any request may be aborted at any time; requests of two kinds with a token or two",
    change: |setting| abort_and_break(setting, &[]),
};
const HANDSHAKES: Concern = Concern {
    name: "handshakes",
    told: "any rank's handshake may fail at any time; retraction and resume",
    change: |setting| setting.breakage = &[Breakage::Handshake],
};
const TRANSFERS: Concern = Concern {
    name: "transfers",
    told: "any rank's transfer may break at any time; retraction and resume",
    change: |setting| {
        setting.breakage = &[Breakage::Transfer];
        setting.kinds.truncate(1);
    },
};
const FIRST_TOKENS: Concern = Concern {
    name: "first-tokens",
    told: "any rank but the last may be given another first token than that one",
    change: |setting| {
        setting.breakage = &[Breakage::FirstToken];
        setting.kinds = SHORT.to_vec();
        setting.kinds.push(STOPS_AT_ITS_LAST);
    },
};
const DEADLINES: Concern = Concern {
    name: "deadlines",
    told: "any rank's clock may pass a deadline at any time",
    change: |setting| setting.breakage = &[Breakage::Deadline],
};
const ABORTS_TRANSFERS: Concern = Concern {
    name: "aborts-transfers",
    told: "any request may be aborted, and any rank's transfer may break, at any time",
    change: |setting| abort_and_break(setting, &[Breakage::Transfer]),
};
const ABORTS_HANDSHAKES: Concern = Concern {
    name: "aborts-handshakes",
    told: "any request may be aborted, and any rank's handshake may fail, at any time",
    change: |setting| abort_and_break(setting, &[Breakage::Handshake]),
};
const ABORTS_DEADLINES: Concern = Concern {
    name: "aborts-deadlines",
    told: "any request may be aborted, and any rank's clock may pass a deadline, at any time",
    change: |setting| abort_and_break(setting, &[Breakage::Deadline]),
};
const LATE: Concern = Concern {
    name: "aborts-late-answers",
    told: "any request may be aborted; answers and writes of an earlier attempt may come late",
    change: |setting| {
        abort_and_break(setting, &[]);
        setting.kinds.truncate(1);
        setting.late_facts = true;
    },
};
const PAUSE: Concern = Concern {
    name: "pause",
    told: "the group may be paused and told to go on, and any request aborted, at any time",
    change: |setting| {
        abort_and_break(setting, &[]);
        setting.pause = true;
    },
};
const WORDS: Concern = Concern {
    name: "words",
    told: "two words (requests, aborts, pauses) may travel in one brief, and be about what waits or has ended; retraction and resume",
    change: |setting| {
        setting.words = 2;
        setting.aborts = true;
        setting.pause = setting.configuration.slots == 1;
        setting.kinds.truncate(1);
    },
};
const FAULTS: Concern = Concern {
    name: "faults",
    told: "any request may be aborted, any rank's handshake or transfer break, its first token be another than the last rank's, or its clock \
           pass a deadline, at any time; answers and writes of an earlier attempt may come late",
    change: |setting| {
        (BREAKAGES.change)(setting);
        setting.late_facts = true;
    },
};
const EVERYTHING: Concern = Concern {
    name: "everything",
    told: "any request may be aborted, the group paused, any rank ask it to leave, its handshake or transfer break, its first token be another \
           than the last rank's, or its clock pass a deadline, at any time; answers and writes of an earlier attempt may come late",
    change: |setting| {
        (FAULTS.change)(setting);
        setting.pause = true;
        setting.shutdown = true;
    },
};
const BREAKAGES: Concern = Concern {
    name: "aborts-breakages",
    told: "any request may be aborted, any rank's handshake or transfer break, its first token be another than the last rank's, or its clock \
           pass a deadline, at any time",
    change: |setting| {
        abort_and_break(setting, Breakage::ALL);
        setting.kinds.truncate(1);
    },
};
const DOOR: Concern = Concern {
    name: "door",
    told: "requests wait for slots, some could never run, and any rank may ask the group to leave at any time",
    change: |setting| {
        setting.words = 2;
        setting.shutdown = true;
        setting.kinds = vec![SHORT[0], NEVER_FITS];
    },
};
const PAGED: Concern = Concern {
    name: "paged",
    told: "pages of two positions; endless requests of two kinds; retraction and resume",
    change: |setting| {
        setting.kinds = LONG.to_vec();
        setting.page_size(2);
    },
};
const SHUTDOWN: Concern = Concern {
    name: "shutdown",
    told: "any request may be aborted, and any rank may ask the group to leave, at any time",
    change: |setting| {
        abort_and_break(setting, &[]);
        setting.shutdown = true;
    },
};

fn abort_and_break(setting: &mut DecodeSetting, breakage: &'static [Breakage]) {
    setting.aborts = true;
    setting.breakage = breakage;
    setting.kinds = SHORT.to_vec();
}

/// Room for whatever gives its pages up.
const HOST_PAGES: u32 = 2;

/// Outputs that go on after a forward that was in flight when their request gave its pages up.
const LONG: [RequestKind; 2] =
    [RequestKind { prompt: 1, most: 4, stop_at: None }, RequestKind { prompt: 1, most: 3, stop_at: Some(1) }];

/// Ranks, slots and pages, what it is about, and when it is performed.
type Proof = (u32, u32, u32, &'static Concern, Tier);

const PROOFS: [Proof; 34] = [
    (2, 1, 3, &FAULTS, Tier::Quick),
    (3, 1, 3, &BREAKAGES, Tier::Pr),
    (2, 1, 4, &FAIR, Tier::Quick),
    (1, 2, 4, &FAIR_HOSTED, Tier::Quick),
    (1, 2, 4, &HOSTED, Tier::Quick),
    (1, 2, 4, &SCARCE, Tier::Quick),
    (1, 2, 4, &PLAIN, Tier::Quick),
    (1, 2, 3, &PAGED, Tier::Quick),
    (2, 1, 3, &DOOR, Tier::Quick),
    (1, 2, 4, &DEADLINES, Tier::Quick),
    (1, 2, 3, &ABORTS_TRANSFERS, Tier::Quick),
    (1, 2, 3, &ABORTS_DEADLINES, Tier::Quick),
    (2, 1, 3, &LATE, Tier::Quick),
    (2, 1, 3, &SHUTDOWN, Tier::Quick),
    (2, 1, 3, &FIRST_TOKENS, Tier::Quick),
    (2, 1, 3, &PAUSE, Tier::Quick),
    (2, 2, 3, &PAUSE, Tier::Pr),
    (2, 1, 3, &WORDS, Tier::Quick),
    (1, 2, 4, &WORDS, Tier::Quick),
    (2, 2, 4, &PLAIN, Tier::Quick),
    (2, 2, 4, &ABORTS, Tier::Pr),
    (2, 2, 4, &HANDSHAKES, Tier::Pr),
    (2, 2, 4, &TRANSFERS, Tier::Pr),
    (2, 2, 3, &ABORTS_TRANSFERS, Tier::Pr),
    (2, 2, 3, &ABORTS_HANDSHAKES, Tier::Quick),
    (2, 2, 3, &DEADLINES, Tier::Pr),
    (2, 2, 3, &ABORTS_DEADLINES, Tier::Pr),
    (3, 1, 3, &ABORTS_TRANSFERS, Tier::Quick),
    (3, 1, 3, &ABORTS_HANDSHAKES, Tier::Quick),
    (3, 1, 3, &ABORTS_DEADLINES, Tier::Quick),
    (3, 1, 3, &LATE, Tier::Pr),
    (4, 1, 3, &ABORTS_HANDSHAKES, Tier::Pr),
    (4, 1, 3, &ABORTS_TRANSFERS, Tier::Nightly),
    (4, 1, 3, &ABORTS_DEADLINES, Tier::Nightly),
];

/// Three ranks with two slots, eight with one: too much for each pull request. The other loop would say the same again.
const OF_THE_NIGHT: [Proof; 2] = [(3, 2, 4, &PLAIN, Tier::Nightly), (8, 1, 3, &PLAIN, Tier::Nightly)];

/// In the loop that serves by default; the other would say the same again.
const OVERLAPPING: [Proof; 5] = [
    (2, 1, 3, &EVERYTHING, Tier::Nightly),
    (1, 2, 4, &HOSTED_ABORTS, Tier::Pr),
    (2, 2, 4, &SCARCE, Tier::Pr),
    (2, 2, 4, &FAIR, Tier::Pr),
    (2, 2, 3, &BREAKAGES, Tier::Nightly),
];

/// Ranks of which those that do not lead are interchangeable, in the normal loop; the other would say the same again.
const SYMMETRIC: [Proof; 4] = [
    (4, 2, 3, &SHORT_OUTPUTS, Tier::Pr),
    (4, 2, 3, &SHORT_ABORTS, Tier::Pr),
    (3, 2, 3, &ABORTS_HANDSHAKES, Tier::Nightly),
    (8, 1, 3, &ABORTS_HANDSHAKES, Tier::Nightly),
];

/// The same with transfers that land in one step.
const BUNDLED: [(Proof, Mode); 5] = [
    ((8, 2, 3, &SHORT_OUTPUTS, Tier::Nightly), Mode::Normal),
    ((8, 2, 3, &SHORT_OUTPUTS, Tier::Nightly), Mode::Overlap),
    ((4, 2, 4, &PLAIN, Tier::Pr), Mode::Overlap),
    ((4, 2, 4, &PLAIN, Tier::Nightly), Mode::Normal),
    ((8, 2, 4, &PLAIN, Tier::Nightly), Mode::Normal),
];

/// With all interleavings of the ranks, and outcomes that reach them one by one.
const UNREDUCED: [Proof; 2] = [(3, 1, 3, &BRIEFLY, Tier::Pr), (2, 2, 3, &BRIEFLY, Tier::Nightly)];

/// Where votes that launches go with are reduced in the devices' queue.
const IN_STREAM: [Proof; 17] = [
    (1, 2, 4, &SCARCE, Tier::Quick),
    (1, 2, 4, &PLAIN, Tier::Quick),
    (1, 2, 3, &ABORTS_TRANSFERS, Tier::Quick),
    (1, 2, 3, &ABORTS_DEADLINES, Tier::Quick),
    (2, 1, 3, &LATE, Tier::Quick),
    (2, 1, 3, &SHUTDOWN, Tier::Quick),
    (2, 1, 3, &FIRST_TOKENS, Tier::Quick),
    (2, 1, 3, &PAUSE, Tier::Quick),
    (2, 1, 3, &WORDS, Tier::Quick),
    (2, 1, 3, &ABORTS_TRANSFERS, Tier::Quick),
    (2, 1, 3, &ABORTS_DEADLINES, Tier::Quick),
    (2, 2, 4, &PLAIN, Tier::Quick),
    (2, 2, 3, &ABORTS_HANDSHAKES, Tier::Quick),
    (2, 2, 3, &ABORTS_TRANSFERS, Tier::Pr),
    (3, 1, 3, &ABORTS_HANDSHAKES, Tier::Quick),
    (3, 1, 3, &ABORTS_TRANSFERS, Tier::Quick),
    (3, 1, 3, &ABORTS_DEADLINES, Tier::Quick),
];

pub(super) fn proofs() -> Vec<Run> {
    let in_the_normal_loop = |proof| proved(proof, Mode::Normal);
    let in_both_loops = |proof| LOOPS.map(|mode| proved(proof, mode));
    let in_stream = IN_STREAM.iter().map(|proof| proved(proof, Mode::Stream));
    let overlapping = OVERLAPPING.iter().map(|proof| proved(proof, Mode::Overlap));
    let of_the_night = OF_THE_NIGHT.iter().map(in_the_normal_loop);
    let symmetric = SYMMETRIC.iter().map(symmetric);
    let bundled = BUNDLED.iter().map(bundled);
    let unreduced = UNREDUCED.iter().map(unreduced);
    PROOFS
        .iter()
        .flat_map(in_both_loops)
        .chain(overlapping)
        .chain(of_the_night)
        .chain(symmetric)
        .chain(bundled)
        .chain(unreduced)
        .chain(in_stream)
        .collect()
}

fn symmetric(proof: &Proof) -> Run {
    let setting = DecodeSetting { symmetric: true, ..setting_of(proof, Mode::Normal) };
    run_of(proof, setting, ("symmetric", "normal, ranks that do not lead interchangeable"))
}

fn bundled((proof, mode): &(Proof, Mode)) -> Run {
    let setting = DecodeSetting { symmetric: true, bundled: true, ..setting_of(proof, *mode) };
    let loops = mode.name();
    let told = format!("{loops}, ranks that do not lead interchangeable, transfers that land in one step");
    run_of(proof, setting, (name(&[loops, "bundled"]), &told))
}

fn unreduced(proof: &Proof) -> Run {
    let (interleaving, completion) = (Interleaving::Full, Completion::OneByOne);
    let setting = DecodeSetting { interleaving, completion, ..setting_of(proof, Mode::Normal) };
    run_of(proof, setting, ("unreduced", "normal, all interleavings, outcomes taken rank by rank"))
}

fn setting_of((size, slots, pages, concern, _): &Proof, mode: Mode) -> DecodeSetting {
    let mut setting = DecodeSetting::new(*size, *slots, *pages, mode.overlaps());
    setting.vote(mode.votes());
    (concern.change)(&mut setting);
    setting
}

/// The run of a proof in a setting; how the group goes round, by a name and for a person.
fn run_of(
    (size, slots, pages, concern, tier): &Proof,
    setting: DecodeSetting,
    (loops, told): (&str, &str),
) -> Run {
    let witnesses = witnesses::<Shipped>(&setting);
    let model = WorldModel::<Surroundings<Shipped>>::new(setting).witnessing(witnesses);
    let parts = ["decode", &format!("{size}x{slots}"), &format!("{pages}p"), concern.name, loops];
    let run = Run::holds(name(&parts), Progress(model)).tier(*tier);
    run.params(format!("ranks × slots {size} × {slots}, pages {pages}, {told}; {}", concern.told))
}

fn proved(proof: &Proof, mode: Mode) -> Run {
    let (size, .., tier) = proof;
    let run = run_of(proof, setting_of(proof, mode), (mode.name(), mode.name())).tier(tier_in(mode, *tier));
    // A class stands on what every commit checks again.
    if *tier == Tier::Quick { run.proves(Role::Decode, mode, ranks(*size)) } else { run }
}

pub(super) fn mutants() -> Vec<Run> {
    let mut mutants = noticed();
    mutants.extend(idle());
    mutants.extend(unheard());
    mutants
}

/// Those that violate a property.
fn noticed() -> Vec<Run> {
    let transfers = || DecodeSetting { breakage: &[Breakage::Transfer], ..DecodeSetting::new(2, 1, 3, true) };
    let kv_before_run = kv_before_run::PROPERTY;
    vec![
        mutant("applies-stale", refuted::applies_stale())
            .breaks("decode: applies_stale")
            .shows("stale-occupant-vote"),
        mutant("takes-late-facts", refuted::takes_late_facts()).breaks("decode: takes_late_facts"),
        mutant("drained-by-fabric", refuted::drained_by_fabric()).breaks("decode: drained"),
        mutant("releases-in-flight", refuted::releases_in_flight()).breaks("decode: releasable"),
        mutant("launches-unfenced", broken::<LaunchesUnfenced>(kv_before_run)).breaks("decode: may_launch"),
        mutant("loses-pages", broken::<LosesPages>(pages_sound::PROPERTY)).breaks("decode: returns_pages"),
        mutant("retires-before-recording", broken::<RetiresBeforeRecording>(no_fault::PROPERTY))
            .breaks("decode: order"),
        mutant::<TakesForeignRows>("takes-foreign-rows", (WorldModel::new(transfers()), kv_before_run))
            .breaks("decode: row_failure"),
        mutant::<TakesCorruptRows>("takes-corrupt-rows", (WorldModel::new(transfers()), kv_before_run))
            .breaks("decode: row_failure"),
        mutant::<RestoresWithoutFirstLaunchAndRetractsAlone>(
            "fair-retracts-alone",
            (WorldModel::new(fair()), admission_fair::PROPERTY),
        )
        .breaks("decode: retracts_alone"),
        mutant::<ReleasesUnderCopies>(
            "releases-under-copies",
            (WorldModel::new(hosted()), no_write_after_free::PROPERTY),
        )
        .breaks("decode: releasable"),
        mutant::<RunsBeforeRestored>("runs-before-restored", (WorldModel::new(hosted()), kv_before_run))
            .breaks("decode: restored"),
        mutant::<StoresWithoutFlights>("stores-without-flights", (WorldModel::new(hosted()), kv_before_run))
            .breaks("decode: positions_to_store"),
        mutant::<StartsAgainUnshaken>(
            "starts-again-unshaken",
            (WorldModel::new(retracting()), vote_fresh::PROPERTY),
        )
        .breaks("decode: may_start_again"),
    ]
}

/// Votes of which no rank hears a field.
fn unheard() -> Vec<Run> {
    let two = || DecodeSetting::new(2, 1, 3, true);
    let concerned = |concern: &Concern| {
        let mut setting = two();
        (concern.change)(&mut setting);
        setting
    };
    let run = |field: Field| {
        let (mut setting, violates) = match field {
            Field::Shutdown => (concerned(&SHUTDOWN), None),
            Field::Brief => (two(), Some(no_fault::PROPERTY)),
            Field::Retired => (two(), Some(no_stuck::PROPERTY)),
            Field::Copied => (hosted(), Some(no_stuck::PROPERTY)),
            Field::Poll => (two(), Some(vote_fresh::PROPERTY)),
            Field::FirstToken => (concerned(&FIRST_TOKENS), Some(token_exact::PROPERTY)),
            Field::Drained => (two(), Some(kv_before_run::PROPERTY)),
        };
        setting.unheard = Some(field);
        let rule = name(&["unheard", &field.rule().replace("vote: ", "").replace(' ', "-")]);
        match violates {
            Some(property) => mutant::<Shipped>(rule, (WorldModel::new(setting), property)),
            None => idler(rule, |run| Run::idler(run, "the group left", world::<Shipped>(setting))),
        }
        .breaks(field.rule())
    };
    Field::ALL.map(run).into()
}

/// Those that only keep the group from doing something, or make it take longer.
fn idle() -> Vec<Run> {
    let deadlines = DecodeSetting { breakage: &[Breakage::Deadline], ..DecodeSetting::new(2, 1, 3, true) };
    let lost = |run| Run::idler(run, "two requests in one plan", world::<PlansOne>(retracting()));
    vec![
        idler("plans-one", lost).breaks("decode: plan_order"),
        idler("never-late", |run| {
            Run::idler(run, "decode: failure DeadlinePassed", world::<NeverLate>(deadlines))
        })
        .breaks("decode: late"),
        idler("ignores-promised", |run| {
            let outcome = "decode: outcome GrowthWaitsForPromised";
            Run::idler(run, outcome, world::<IgnoresPromised>(retracting()))
        })
        .breaks("decode: counts_promised"),
        idler("launches-past-its-limit", |run| {
            Run::sloth(run, SHIPPED_RETRACTING, world::<LaunchesPastItsLimit>(retracting()))
        })
        .breaks("decode: wants_launch"),
        idler("votes-behind-its-launch", |run| {
            let mut setting = retracting();
            setting.vote(Mode::Stream.votes());
            Run::sloth(run, "decode-1x2-4p-plain-stream", world::<VotesBehindItsLaunch>(setting))
        })
        .breaks("decode: votes_first"),
        idler("restores-without-first-launch", |run| {
            Run::sloth(run, "decode-1x2-4p-hosted-overlap", world::<RestoresWithoutFirstLaunch>(hosted()))
        })
        .breaks("decode: positions_to_restore"),
        idler("starts-without-first-launch", |run| {
            Run::sloth(run, SHIPPED_RETRACTING, world::<StartsWithoutFirstLaunch>(retracting()))
        })
        .breaks("decode: positions_to_start"),
    ]
}

/// One rank, two slots, four pages: a request is retracted and resumes.
fn retracting() -> DecodeSetting {
    DecodeSetting::new(1, 2, 4, true)
}

/// The same with pages on the hosts.
fn hosted() -> DecodeSetting {
    let mut setting = retracting();
    (HOSTED.change)(&mut setting);
    setting
}

/// The same, and every request must end.
fn fair() -> DecodeSetting {
    let mut setting = retracting();
    (FAIR_HOSTED.change)(&mut setting);
    setting
}

/// The run of the shipped rules in [`retracting`].
const SHIPPED_RETRACTING: &str = "decode-1x2-4p-plain-overlap";

fn world<R: Rules>(setting: DecodeSetting) -> Progress<Erased> {
    let witnesses = witnesses::<R>(&setting);
    Progress(Erased::new(WorldModel::<Surroundings<R>>::new(setting).witnessing(witnesses)))
}

fn idler(rule: &str, run: impl FnOnce(&'static str) -> Run) -> Run {
    let run = run(name(&["decode", "mutant", rule]));
    let two = matches!(rule, "never-late" | "unheard-shutdown");
    let size = if two { "2 × 1, pages 3" } else { "1 × 2, pages 4" };
    run.params(format!("ranks × slots {size}, overlap"))
}

/// Two ranks, one slot, three pages, overlap and aborts: where these rules show.
fn broken<R: Rules>(property: Property) -> Refuted<R> {
    let setting = DecodeSetting { aborts: true, ..DecodeSetting::new(2, 1, 3, true) };
    (WorldModel::new(setting), property)
}

fn mutant<R: Rules>(rule: &str, (model, property): Refuted<R>) -> Run {
    let configuration = &model.setting.configuration;
    let loops = if configuration.flights > 1 { "overlap" } else { "normal" };
    let params = format!("ranks × slots {} × {}, {loops}", configuration.ranks, configuration.slots);
    Run::mutant(name(&["decode", "mutant", rule]), property.id, Progress(Erased::new(model))).params(params)
}
