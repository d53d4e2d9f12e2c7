//! Runs of the decode group: N real machines in their world.

use super::{MODES, name, ranks};
use crate::agreed_level::mutants::{LaunchesUnfenced, LosesPages, RetiresBeforeRecording};
use crate::decode::Surroundings;
use crate::decode::mutants::{self as refuted, Refuted};
use crate::decode::setting::{Breakage, DecodeSetting, RequestKind};
use crate::decode::witnesses::witnesses;
use crate::model::WorldModel;
use crate::runs::run::{Mode, Role, Run, Tier};
use crate::runs::runner::Progress;
use lockstep_spec::decode::rules::{Rules, Shipped};
use lockstep_spec::invariant::{Property, kv_before_run, no_fault, pages_sound};

/// Outputs of one token behind a stop, and of none.
const SHORT: [RequestKind; 2] = [
    RequestKind { prompt: 1, most: 3, stop_at: Some(1) },
    RequestKind { prompt: 1, most: 2, stop_at: Some(0) },
];

/// What a run is about, beside its size.
struct Concern {
    name: &'static str,
    told: &'static str,
    change: fn(&mut DecodeSetting),
}

const PLAIN: Concern =
    Concern { name: "plain", told: "endless requests of two kinds; retraction and resume", change: |_| {} };
const ABORTS: Concern = Concern {
    name: "aborts",
    told: "any request may be aborted at any time; retraction and resume",
    change: |setting| {
        setting.aborts = true;
        setting.kinds.truncate(1);
    },
};
const HANDSHAKES: Concern = Concern {
    name: "handshakes",
    told: "any rank's handshake may fail at any time; retraction and resume",
    change: |setting| setting.breakage = Breakage::Handshake,
};
const TRANSFERS: Concern = Concern {
    name: "transfers",
    told: "any rank's transfer may break at any time; retraction and resume",
    change: |setting| {
        setting.breakage = Breakage::Transfer;
        setting.kinds.truncate(1);
    },
};
const DEADLINES: Concern = Concern {
    name: "deadlines",
    told: "any rank's clock may pass a deadline at any time",
    change: |setting| setting.breakage = Breakage::Deadline,
};
const ABORTS_TRANSFERS: Concern = Concern {
    name: "aborts-transfers",
    told: "any request may be aborted, and any rank's transfer may break, at any time",
    change: |setting| abort_and_break(setting, Breakage::Transfer),
};
const ABORTS_HANDSHAKES: Concern = Concern {
    name: "aborts-handshakes",
    told: "any request may be aborted, and any rank's handshake may fail, at any time",
    change: |setting| abort_and_break(setting, Breakage::Handshake),
};
const ABORTS_DEADLINES: Concern = Concern {
    name: "aborts-deadlines",
    told: "any request may be aborted, and any rank's clock may pass a deadline, at any time",
    change: |setting| abort_and_break(setting, Breakage::Deadline),
};
const LATE: Concern = Concern {
    name: "aborts-late-answers",
    told: "any request may be aborted; answers and writes of an earlier attempt may come late",
    change: |setting| {
        abort_and_break(setting, Breakage::Nothing);
        setting.late_facts = true;
    },
};
const PAUSE: Concern = Concern {
    name: "pause",
    told: "the group may be paused and told to go on, and any request aborted, at any time",
    change: |setting| {
        abort_and_break(setting, Breakage::Nothing);
        setting.pause = true;
    },
};
const SHUTDOWN: Concern = Concern {
    name: "shutdown",
    told: "any request may be aborted, and any rank may ask the group to leave, at any time",
    change: |setting| {
        abort_and_break(setting, Breakage::Nothing);
        setting.shutdown = true;
    },
};

fn abort_and_break(setting: &mut DecodeSetting, breakage: Breakage) {
    setting.aborts = true;
    setting.breakage = breakage;
    setting.kinds = SHORT.to_vec();
}

/// (ranks, slots, pages, concern, tier)
const PROOFS: [(u32, u32, u32, &Concern, Tier); 19] = [
    (1, 2, 4, &PLAIN, Tier::Quick),
    (1, 2, 3, &ABORTS_TRANSFERS, Tier::Quick),
    (1, 2, 3, &ABORTS_DEADLINES, Tier::Quick),
    (2, 1, 3, &LATE, Tier::Quick),
    (2, 1, 3, &SHUTDOWN, Tier::Quick),
    (2, 1, 3, &PAUSE, Tier::Quick),
    (2, 2, 3, &PAUSE, Tier::Pr),
    (2, 2, 4, &PLAIN, Tier::Quick),
    (2, 2, 4, &ABORTS, Tier::Quick),
    (2, 2, 4, &HANDSHAKES, Tier::Quick),
    (2, 2, 4, &TRANSFERS, Tier::Pr),
    (2, 2, 3, &ABORTS_TRANSFERS, Tier::Quick),
    (2, 2, 3, &ABORTS_HANDSHAKES, Tier::Quick),
    (2, 2, 3, &DEADLINES, Tier::Quick),
    (2, 2, 3, &ABORTS_DEADLINES, Tier::Pr),
    (3, 1, 3, &ABORTS_TRANSFERS, Tier::Quick),
    (3, 1, 3, &ABORTS_HANDSHAKES, Tier::Quick),
    (3, 1, 3, &ABORTS_DEADLINES, Tier::Quick),
    (3, 1, 3, &LATE, Tier::Pr),
];

pub(super) fn proofs() -> Vec<Run> {
    PROOFS.iter().flat_map(|proof| MODES.map(|(mode, overlap)| proved(proof, mode, overlap))).collect()
}

fn proved(
    (size, slots, pages, concern, tier): &(u32, u32, u32, &Concern, Tier),
    mode: Mode,
    overlap: bool,
) -> Run {
    let mut setting = DecodeSetting::new(*size, *slots, *pages, overlap);
    (concern.change)(&mut setting);
    let witnesses = witnesses::<Shipped>(&setting);
    let model = WorldModel::<Surroundings<Shipped>>::new(setting).witnessing(witnesses);
    let loops = if overlap { "overlap" } else { "normal" };
    let parts = ["decode", &format!("{size}x{slots}"), &format!("{pages}p"), concern.name, loops];
    let run = Run::holds(name(&parts), Progress(model)).tier(*tier);
    let run = run.params(format!("ranks × slots {size} × {slots}, pages {pages}, {loops}; {}", concern.told));
    // A class stands on what every commit checks again.
    if *tier == Tier::Quick { run.proves(Role::Decode, mode, ranks(*size)) } else { run }
}

pub(super) fn mutants() -> Vec<Run> {
    vec![
        mutant("applies-stale", refuted::applies_stale()),
        mutant("takes-late-facts", refuted::takes_late_facts()),
        mutant("drained-by-fabric", refuted::drained_by_fabric()),
        mutant("releases-in-flight", refuted::releases_in_flight()),
        mutant("launches-unfenced", broken::<LaunchesUnfenced>(kv_before_run::PROPERTY)),
        mutant("loses-pages", broken::<LosesPages>(pages_sound::PROPERTY)),
        mutant("retires-before-recording", broken::<RetiresBeforeRecording>(no_fault::PROPERTY)),
    ]
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
    Run::mutant(name(&["decode", "mutant", rule]), property.id, Progress(model)).params(params)
}
