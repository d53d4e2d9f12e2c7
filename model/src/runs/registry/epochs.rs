//! Runs across epochs: ranks crash, the group forms again, streams go on.

use super::{LOOPS, name, tier_in};
use crate::decode::setting::{Breakage, DecodeSetting, RequestKind};
use crate::epochs::front_end::{Conduct, Shipped as ShippedConduct};
use crate::epochs::model::EpochsModel;
use crate::epochs::mutants::{
    AnswersOldLegs, ClosesUnraised, DismissesBeforeRaising, EndsApart, ForgetsUnbegun, ReadsBeforeRaising,
    ResubmitsFromStart, TakesOldWords,
};
use crate::epochs::setting::EpochsSetting;
use crate::epochs::witnesses::witnesses;
use crate::explore::Erased;
use crate::runs::run::{Mode, Run, Tier};
use crate::runs::runner::Progress;
use lockstep_spec::decode::rules::Shipped;
use lockstep_spec::invariant::{Property, ends, epoch_fenced, no_stuck, token_exact};

/// Three tokens asked for.
const LONG: RequestKind = RequestKind { prompt: 1, most: 3, stop_at: None };
/// Three tokens asked for, and two sampled.
const STOPS: RequestKind = RequestKind { prompt: 1, most: 3, stop_at: Some(1) };
/// Two tokens asked for.
const SHORT: RequestKind = RequestKind { prompt: 1, most: 2, stop_at: None };

/// Two tokens asked for, and the second is a stop.
const LATE_STOP: RequestKind = RequestKind { prompt: 1, most: 2, stop_at: Some(1) };

/// What a run is about, beside its size.
struct Concern {
    name: &'static str,
    told: &'static str,
    kind: RequestKind,
    leaves: bool,
    dismissals: bool,
    stops: bool,
    breakage: &'static [Breakage],
}

const PLAIN: Concern = Concern {
    name: "plain",
    told: "requests of three tokens",
    kind: LONG,
    leaves: false,
    dismissals: false,
    stops: false,
    breakage: &[],
};
const BRIEF: Concern = Concern { name: "brief", told: "requests of two tokens", kind: SHORT, ..PLAIN };
const LEAVES: Concern = Concern {
    name: "leaves",
    told: "requests of two tokens, the second a stop; clients may leave at any time",
    kind: STOPS,
    leaves: true,
    ..PLAIN
};
const TRANSFERS: Concern = Concern {
    name: "transfers",
    told: "requests of two tokens; any rank's transfer may break at any time",
    kind: SHORT,
    breakage: &[Breakage::Transfer],
    ..PLAIN
};
const FIRST_TOKENS: Concern = Concern {
    name: "first-tokens",
    told: "requests of two tokens; any rank but the last may be given another first token than that one",
    kind: SHORT,
    breakage: &[Breakage::FirstToken],
    ..PLAIN
};
const LATE_STOPS: Concern = Concern {
    name: "late-stops",
    told: "requests of two tokens, the second a stop",
    kind: LATE_STOP,
    ..PLAIN
};
const DISMISSALS: Concern = Concern {
    name: "dismissals",
    told: "requests of two tokens; ranks of the prefill group may crash too, and this group is dismissed",
    dismissals: true,
    ..BRIEF
};
const STOP: Concern = Concern {
    name: "stop",
    told: "requests of two tokens; the server may stop at any time, and ranks of the prefill group crash too",
    stops: true,
    ..DISMISSALS
};
const STOP_LEAVES: Concern = Concern {
    name: "stop-leaves",
    told: "requests of two tokens, the second a stop; clients may leave and the server may stop at any time, and ranks of the prefill group crash too",
    stops: true,
    dismissals: true,
    ..LEAVES
};

/// Size of a run. With two slots there are pages for two requests of two tokens.
#[derive(Clone, Copy)]
struct Size {
    ranks: u32,
    slots: u32,
    open: usize,
    crashes: u32,
}

const fn one_slot(ranks: u32, open: usize, crashes: u32) -> Size {
    Size { ranks, slots: 1, open, crashes }
}

const fn two_slots(ranks: u32, crashes: u32) -> Size {
    Size { ranks, slots: 2, open: 2, crashes }
}

const PROOFS: [(Size, &Concern, Tier); 15] = [
    (one_slot(1, 1, 2), &PLAIN, Tier::Quick),
    (one_slot(1, 1, 2), &LEAVES, Tier::Quick),
    (one_slot(1, 1, 1), &TRANSFERS, Tier::Quick),
    (one_slot(1, 2, 1), &BRIEF, Tier::Quick),
    (one_slot(1, 2, 1), &TRANSFERS, Tier::Nightly),
    (one_slot(2, 1, 1), &FIRST_TOKENS, Tier::Quick),
    (one_slot(1, 1, 1), &LATE_STOPS, Tier::Quick),
    (one_slot(2, 1, 1), &PLAIN, Tier::Quick),
    (one_slot(2, 1, 2), &PLAIN, Tier::Pr),
    (one_slot(2, 1, 1), &LEAVES, Tier::Pr),
    (one_slot(3, 1, 1), &BRIEF, Tier::Pr),
    (one_slot(1, 1, 2), &DISMISSALS, Tier::Quick),
    (one_slot(2, 1, 1), &DISMISSALS, Tier::Quick),
    (one_slot(2, 1, 1), &STOP, Tier::Pr),
    (one_slot(1, 1, 1), &STOP_LEAVES, Tier::Quick),
];

/// Requests of two tokens never have two forwards in flight: there the normal loop says it all.
const IN_THE_NORMAL_LOOP: [(Size, &Concern, Tier); 1] = [(two_slots(1, 1), &BRIEF, Tier::Nightly)];

fn setting(size: Size, concern: &Concern, overlap: bool) -> EpochsSetting {
    let Size { ranks, slots, open, crashes } = size;
    let pages = if slots == 1 { 3 } else { 4 };
    let group = DecodeSetting {
        kinds: vec![concern.kind],
        breakage: concern.breakage,
        ..DecodeSetting::new(ranks, slots, pages, overlap)
    };
    let Concern { leaves, dismissals, stops, .. } = *concern;
    EpochsSetting { leaves, dismissals, stops, ..EpochsSetting::new(&group, open, crashes) }
}

pub(super) fn proofs() -> Vec<Run> {
    let in_both_loops = PROOFS.iter().flat_map(|proof| LOOPS.map(|mode| proved(proof, mode)));
    in_both_loops.chain(IN_THE_NORMAL_LOOP.iter().map(|proof| proved(proof, Mode::Normal))).collect()
}

fn proved((size, concern, tier): &(Size, &Concern, Tier), mode: Mode) -> Run {
    let setting = setting(*size, concern, mode.overlaps());
    let model = EpochsModel::<Shipped, ShippedConduct>::new(setting.clone());
    let model = model.witnessing(witnesses(&setting));
    let loops = mode.name();
    let Size { ranks, slots, open, crashes } = size;
    let sizes = [format!("{ranks}x{slots}"), format!("{open}q"), format!("{crashes}k")];
    let parts = ["epochs", &sizes[0], &sizes[1], &sizes[2], concern.name, loops];
    let told = concern.told;
    let params = format!(
        "ranks × slots {ranks} × {slots}, open requests {open}, crashes {crashes}, {loops}; ranks crash between any two steps; {told}"
    );
    Run::holds(name(&parts), Progress(model)).tier(tier_in(mode, *tier)).params(params)
}

pub(super) fn hazards() -> Vec<Run> {
    let setting = EpochsSetting { noticed: false, ..setting(one_slot(2, 1, 1), &PLAIN, false) };
    let model = EpochsModel::<Shipped, ShippedConduct>::new(setting);
    let told = "a rank dies between two collectives, and no deadline passes; ranks × slots 2 × 1";
    vec![
        Run::hazard("epochs-crash-unnoticed", no_stuck::PROPERTY.id, Progress(Erased::new(model)))
            .params(told),
    ]
}

pub(super) fn mutants() -> Vec<Run> {
    vec![
        mutant::<TakesOldWords>("takes-old-words", &PLAIN, epoch_fenced::PROPERTY),
        mutant::<ReadsBeforeRaising>("reads-before-raising", &PLAIN, epoch_fenced::PROPERTY),
        mutant::<EndsApart>("ends-apart", &LEAVES, token_exact::PROPERTY),
        mutant::<ResubmitsFromStart>("resubmits-from-start", &PLAIN, token_exact::PROPERTY),
        mutant::<ForgetsUnbegun>("forgets-unbegun", &PLAIN, ends::PROPERTY),
        mutant::<AnswersOldLegs>("answers-old-legs", &PLAIN, epoch_fenced::PROPERTY),
        mutant::<DismissesBeforeRaising>("dismisses-before-raising", &DISMISSALS, token_exact::PROPERTY),
        mutant::<ClosesUnraised>("closes-unraised", &STOP, epoch_fenced::PROPERTY),
    ]
}

fn mutant<C: Conduct>(rule: &str, concern: &Concern, property: Property) -> Run {
    let model = EpochsModel::<Shipped, C>::new(setting(one_slot(1, 1, 1), concern, false));
    let params = "ranks × slots 1 × 1, one open request, one crash, normal";
    Run::mutant(name(&["epochs", "mutant", rule]), property.id, Progress(Erased::new(model))).params(params)
}
