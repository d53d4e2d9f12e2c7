//! Runs of both groups at once, coupled as the runtime couples them.

use super::name;
use crate::explore::Erased;
use crate::runs::run::{Run, Tier};
use crate::runs::runner::Progress;
use crate::two_groups::hazards::{self, Hazard};
use crate::two_groups::model::TwoGroups;
use crate::two_groups::setting::{Replacements, Setting, Size, Trouble};
use crate::two_groups::witnesses::witnesses;
use lockstep_spec::decode::rules::{Rules as DecodeRules, Shipped};
use lockstep_spec::prefill::rules::{Rules as PrefillRules, Shipped as ShippedPrefill};
use std::sync::Arc;

/// What a run is about, beside its size.
struct Concern {
    name: &'static str,
    told: &'static str,
    change: fn(&mut Setting),
}

const PLAIN: Concern = Concern { name: "plain", told: "endless requests", change: |_| {} };
const RETRACTION: Concern = Concern {
    name: "retraction",
    told: "endless requests that outgrow decode's pages: retraction and resume",
    change: |setting| setting.kinds[0].most = 3,
};
const ABORTS: Concern = Concern {
    name: "aborts",
    told: "any request may be given up, and the next one asked for once that was heard",
    change: |setting| (setting.trouble.aborts, setting.lag) = (true, 0),
};
const FAILURES: Concern = Concern {
    name: "failures",
    told: "any request may be given up, any write may fail or be posted again",
    change: |setting| {
        setting.trouble = FAILING;
        setting.lag = 0;
    },
};
const FAILURES_LAG: Concern = Concern {
    name: "failures-lag",
    told: "any request may be given up, any write may fail or be posted again; the next one may be asked for before that was heard",
    change: |setting| setting.trouble = FAILING,
};
const LOSSES: Concern = Concern {
    name: "losses",
    told: "any request may be given up, any write may fail or be posted again, any revocation or failure may be lost, and any rank's clock may pass a deadline",
    change: |setting| {
        setting.trouble = Trouble { losses: true, deadlines: true, ..FAILING };
        setting.lag = 0;
    },
};
const BREAKS: Concern = Concern {
    name: "breaks",
    told: "any request may be given up, any write may fail or be posted again, and any link may break",
    change: |setting| {
        setting.trouble = Trouble { breaks: true, ..FAILING };
        setting.lag = 0;
    },
};

const ONE_FAILS: Concern = Concern {
    name: "one-fails",
    told: "the requests of one decode slot may be given up, and their writes may fail or be posted again",
    change: |setting| {
        setting.trouble = FAILING;
        (setting.fallible_slots, setting.lag) = (1, 0);
    },
};

const CHUNKS: Concern = Concern {
    name: "chunks",
    told: "prompts of two chunks; any request may be given up, any write may fail or be posted again",
    change: |setting| {
        (FAILURES.change)(setting);
        setting.kinds[0].prompt = 2;
        Arc::make_mut(&mut setting.prefill).chunk_tokens = 1;
    },
};

const RETRACTION_ONE_FAILS: Concern = Concern {
    name: "retraction-one-fails",
    told: "retraction and resume; the requests of one decode slot may be given up, and their writes may fail or be posted again",
    change: |setting| {
        (RETRACTION.change)(setting);
        (ONE_FAILS.change)(setting);
    },
};

const DECODE_REPLACED: Concern = Concern {
    name: "decode-replaced",
    told: "the decode group dies at any time, and another takes its place under the living prefill group",
    change: |setting| setting.replacements.decode = 1,
};
const DECODE_REPLACED_TWICE: Concern = Concern {
    name: "decode-replaced-twice",
    told: "twice the decode group dies at any time, and another takes its place under the living prefill group; any request may be given up",
    change: |setting| {
        setting.replacements.decode = 2;
        (setting.trouble.aborts, setting.lag) = (true, 0);
    },
};
const PREFILL_REPLACED: Concern = Concern {
    name: "prefill-replaced",
    told: "the prefill group dies at any time, its front end with it, and others take their places under the living decode group",
    change: |setting| {
        setting.replacements.prefill = 1;
        setting.trouble.deadlines = true;
    },
};
const PREFILL_REPLACED_TWICE: Concern = Concern {
    name: "prefill-replaced-twice",
    told: "twice the prefill group dies at any time, its front end with it, and others take their places under the living decode group",
    change: |setting| {
        (PREFILL_REPLACED.change)(setting);
        setting.replacements.prefill = 2;
    },
};
const BOTH_REPLACED: Concern = Concern {
    name: "both-replaced",
    told: "each group dies at any time, and another takes its place under the other one",
    change: |setting| {
        setting.replacements = Replacements { decode: 1, prefill: 1, lines: 0 };
        setting.trouble.deadlines = true;
    },
};
const LINE_BREAKS: Concern = Concern {
    name: "line-breaks",
    told: "the line between the front ends breaks at any time, and the decode group may be replaced before or after",
    change: |setting| {
        setting.replacements = Replacements { decode: 1, prefill: 0, lines: 1 };
        setting.trouble.deadlines = true;
    },
};

const FAILING: Trouble = Trouble {
    aborts: true,
    write_failures: true,
    losses: false,
    breaks: false,
    reposts: true,
    deadlines: false,
};

/// Ranks, slots and pages of a group.
type Sizes = (u32, u32, u32);

/// What is explored at which sizes of decode and prefill, in which loops.
struct Proof {
    decode: Sizes,
    prefill: Sizes,
    concern: &'static Concern,
    overlaps: &'static [bool],
    tier: Tier,
}

const fn quick(decode: Sizes, prefill: Sizes, concern: &'static Concern, overlaps: &'static [bool]) -> Proof {
    Proof { decode, prefill, concern, overlaps, tier: Tier::Quick }
}

const fn pr(decode: Sizes, prefill: Sizes, concern: &'static Concern, overlaps: &'static [bool]) -> Proof {
    Proof { decode, prefill, concern, overlaps, tier: Tier::Pr }
}

const fn nightly(
    decode: Sizes,
    prefill: Sizes,
    concern: &'static Concern,
    overlaps: &'static [bool],
) -> Proof {
    Proof { decode, prefill, concern, overlaps, tier: Tier::Nightly }
}

/// One request of two tokens, and one leg of one chunk, never have two forwards in flight: there the normal loop says it all.
const NORMAL: &[bool] = &[false];
const OVERLAP: &[bool] = &[true];
const BOTH: &[bool] = &[false, true];

const PROOFS: [Proof; 31] = [
    quick((1, 1, 2), (1, 1, 1), &FAILURES, NORMAL),
    quick((1, 1, 2), (1, 1, 1), &FAILURES_LAG, NORMAL),
    quick((1, 1, 2), (1, 1, 1), &LOSSES, NORMAL),
    quick((1, 1, 2), (1, 1, 1), &BREAKS, NORMAL),
    quick((1, 1, 3), (1, 1, 2), &CHUNKS, BOTH),
    quick((1, 2, 2), (1, 1, 1), &PLAIN, BOTH),
    quick((1, 2, 4), (1, 1, 1), &PLAIN, BOTH),
    quick((1, 2, 4), (1, 1, 3), &RETRACTION, BOTH),
    quick((1, 2, 2), (1, 2, 2), &PLAIN, BOTH),
    quick((2, 1, 2), (1, 1, 1), &FAILURES, NORMAL),
    quick((1, 1, 2), (2, 1, 1), &FAILURES, NORMAL),
    pr((2, 1, 2), (2, 1, 1), &ABORTS, NORMAL),
    quick((1, 1, 2), (1, 1, 2), &DECODE_REPLACED, NORMAL),
    quick((1, 1, 2), (1, 1, 2), &PREFILL_REPLACED, NORMAL),
    quick((2, 1, 2), (1, 1, 2), &DECODE_REPLACED, NORMAL),
    quick((1, 1, 2), (1, 1, 2), &LINE_BREAKS, NORMAL),
    pr((1, 1, 2), (2, 1, 2), &DECODE_REPLACED, NORMAL),
    pr((2, 1, 2), (2, 1, 2), &DECODE_REPLACED, NORMAL),
    pr((1, 1, 2), (1, 1, 2), &BOTH_REPLACED, NORMAL),
    nightly((1, 1, 2), (1, 1, 2), &PREFILL_REPLACED_TWICE, NORMAL),
    nightly((2, 1, 2), (1, 1, 2), &PREFILL_REPLACED, NORMAL),
    nightly((1, 1, 2), (2, 1, 2), &PREFILL_REPLACED, NORMAL),
    nightly((2, 1, 2), (2, 1, 2), &PREFILL_REPLACED, NORMAL),
    nightly((1, 2, 4), (1, 1, 2), &DECODE_REPLACED, NORMAL),
    nightly((1, 1, 2), (1, 1, 2), &DECODE_REPLACED_TWICE, NORMAL),
    pr((1, 2, 2), (1, 1, 1), &ONE_FAILS, BOTH),
    pr((1, 2, 4), (1, 1, 1), &ONE_FAILS, BOTH),
    pr((1, 2, 4), (1, 2, 2), &PLAIN, OVERLAP),
    nightly((1, 2, 4), (1, 2, 2), &PLAIN, NORMAL),
    pr((1, 2, 4), (1, 1, 3), &RETRACTION_ONE_FAILS, BOTH),
    pr((2, 1, 2), (2, 1, 1), &FAILURES, NORMAL),
];

pub(super) fn proofs() -> Vec<Run> {
    let loops = |proof: &'static Proof| proof.overlaps.iter().map(|overlap| proved(proof, *overlap));
    PROOFS.iter().flat_map(loops).collect()
}

fn proved(Proof { decode, prefill, concern, tier, .. }: &Proof, overlap: bool) -> Run {
    let size = |(ranks, slots, pages): Sizes| Size { ranks, slots, pages };
    let mut setting = Setting::new(size(*decode), size(*prefill), overlap);
    (concern.change)(&mut setting);
    let text = params(&setting);
    let witnesses = witnesses::<Shipped, ShippedPrefill>(&setting);
    let model = TwoGroups::<Shipped, ShippedPrefill>::new(setting).witnessing(witnesses);
    let shape = |(ranks, slots, pages): Sizes| format!("{ranks}x{slots}x{pages}");
    let loops = if overlap { "overlap" } else { "normal" };
    let parts = ["two-groups", &shape(*decode), &shape(*prefill), concern.name, loops];
    Run::holds(name(&parts), Progress(model)).params(format!("{text}; {}", concern.told)).tier(*tier)
}

fn params(setting: &Setting) -> String {
    let (decode, prefill) = (&setting.decode, &setting.prefill);
    let loops = if decode.flights > 1 { "overlap" } else { "normal" };
    format!(
        "ranks × slots, pages: decode {} × {}, {}; prefill {} × {}, {}; {loops}",
        decode.ranks, decode.slots, decode.pages, prefill.ranks, prefill.slots, prefill.pages
    )
}

pub(super) fn hazards() -> Vec<Run> {
    vec![
        hazard(&hazards::capacity_inversion()),
        hazard(&hazards::inflight_yield()),
        hazard(&hazards::disconnect_fence()),
        hazard(&hazards::ack_fence()),
        hazard(&hazards::edge_triggered_abort()),
        hazard(&hazards::room_only_match()),
        hazard(&hazards::page_reuse_in_flight()),
    ]
}

pub(super) fn mutants() -> Vec<Run> {
    vec![
        mutant(&hazards::launches_unfenced()),
        mutant(&hazards::drained_ignores_writes()),
        mutant(&hazards::keeps_tokens_alone()),
        mutant(&hazards::reuses_epoch()),
        mutant(&hazards::lets_two_epochs_in()),
        mutant(&hazards::counts_absence()),
        mutant(&hazards::asks_once()),
        mutant(&hazards::retries_once()),
    ]
}

fn hazard<D: DecodeRules, P: PrefillRules>(hazard: &Hazard<D, P>) -> Run {
    let sources = if hazard.sources.is_empty() { "a repair that comes to mind" } else { hazard.sources };
    Run::hazard(name(&["two-groups", hazard.name]), hazard.property.id, Progress(Erased::new(hazard.model())))
        .params(format!("{}; {} ({sources} [model])", params(&hazard.setting), hazard.rule))
}

fn mutant<D: DecodeRules, P: PrefillRules>(hazard: &Hazard<D, P>) -> Run {
    Run::mutant(
        name(&["two-groups", "mutant", hazard.name]),
        hazard.property.id,
        Progress(Erased::new(hazard.model())),
    )
    .params(format!("{}; {}", params(&hazard.setting), hazard.rule))
}
