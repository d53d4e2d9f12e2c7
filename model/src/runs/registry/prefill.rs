//! Runs of the prefill group: N real machines in their world.

use super::{LOOPS, name, ranks};
use crate::explore::Erased;
use crate::model::WorldModel;
use crate::prefill::Surroundings;
use crate::prefill::mutants::{
    ClosesLast, DrainedIgnoresWrites, EvictsCopied, EvictsHeld, FreesKept, KeepsHalf, MatchesWhole,
    NeverLate, PassesMisfits, ReleasesInFlight, RunsWhileLoading, StartsUnlisted, WritesHalf,
};
use crate::prefill::setting::{PrefillSetting, Prompt};
use crate::prefill::witnesses::witnesses;
use crate::runs::run::{Expect, Mode, Purpose, Role, Run, Tier};
use crate::runs::runner::Progress;
use lockstep_spec::invariant::{kv_before_run, no_stuck, no_write_after_free, pages_sound};
use lockstep_spec::prefill::rules::{Rules, Shipped};

/// What a run is about, beside its size.
struct Concern {
    name: &'static str,
    told: &'static str,
    change: fn(&mut PrefillSetting),
}

const PLAIN: Concern =
    Concern { name: "plain", told: "endless legs of one and two pages, one page short", change: |_| {} };
const EVERYTHING: Concern = Concern {
    name: "everything",
    told: "legs may be given up or overtaken on any rank at any time, writes may fail, page lists may come late",
    change: |setting| {
        setting.revocations = true;
        setting.write_failures = true;
        setting.hasty = true;
        setting.late_facts = true;
    },
};
const WRITES: Concern = Concern {
    name: "writes",
    told: "a write of one decode slot's legs may fail on any rank at any time",
    change: |setting| {
        setting.write_failures = true;
        setting.fallible_slots = 1;
    },
};
const REVOCATIONS: Concern = Concern {
    name: "revocations",
    told: "legs of two pages; one decode slot's may be given up on any rank at any time",
    change: |setting| {
        setting.revocations = true;
        setting.fallible_slots = 1;
        setting.prompts = vec![Prompt::new(2)];
    },
};

const DEADLINES: Concern = Concern {
    name: "deadlines",
    told: "any rank's clock may pass the deadline of a list or a write at any time",
    change: |setting| setting.deadlines = true,
};
const CHUNKS: Concern = Concern {
    name: "chunks",
    told: "legs take two forwards; one decode slot's may be given up on any rank at any time",
    change: |setting| {
        setting.one_token_a_forward();
        setting.revocations = true;
        setting.fallible_slots = 1;
    },
};
const PAUSE: Concern = Concern {
    name: "pause",
    told: "the group may be paused and told to go on, and legs may be given up, at any time",
    change: |setting| {
        setting.pause = true;
        setting.revocations = true;
    },
};
const SHUTDOWN: Concern = Concern {
    name: "shutdown",
    told: "any rank may ask the group to leave, and legs may be given up, at any time",
    change: |setting| {
        setting.shutdown = true;
        setting.revocations = true;
    },
};

const KEPT: Concern = Concern {
    name: "kept",
    told: "pages of two prompts that begin alike, and of another, are kept, with no room for all",
    change: |setting| setting.keep(setting.configuration.slots + 2, 0, prompts()),
};
const HOSTED: Concern = Concern {
    name: "hosted",
    told: "pages of two prompts are kept on the devices, which lack room for both, and on the hosts; legs may be given up at any time",
    change: |setting| {
        setting.keep(
            setting.configuration.slots + 1,
            2,
            vec![Prompt::keyed(2, &[1]), Prompt::keyed(2, &[2])],
        );
        setting.revocations = true;
    },
};
const FORGOTTEN: Concern = Concern {
    name: "forgotten",
    told: "pages of two prompts are kept on the devices and on the hosts, which both lack room for both; legs may be given up at any time",
    change: |setting| {
        setting.keep(
            setting.configuration.slots + 1,
            1,
            vec![Prompt::keyed(2, &[1]), Prompt::keyed(2, &[2])],
        );
        setting.revocations = true;
    },
};

const TWO_PAGES: Concern = Concern {
    name: "two-pages",
    told: "two pages of each of two prompts are kept on the devices, and on hosts that lack room for one of them; legs may be given up at any time",
    change: |setting| {
        setting.keep(4, 3, of_two_pages());
        setting.revocations = true;
    },
};
const ONE_OF_TWO_PAGES: Concern = Concern {
    name: "one-of-two-pages",
    told: "two pages of each of two prompts are kept on the devices, and on hosts that have room for one page; legs may be given up at any time",
    change: |setting| {
        setting.keep(4, 1, of_two_pages());
        setting.revocations = true;
    },
};
const SHARED: Concern = Concern {
    name: "shared",
    told: "legs of a prompt that is kept, on the devices and on the hosts, and of one that fills all pages; one decode slot's may be given up at any time",
    change: |setting| {
        setting.keep(setting.configuration.slots + 1, 1, vec![Prompt::keyed(2, &[1]), Prompt::new(3)]);
        setting.revocations = true;
        setting.fallible_slots = 1;
    },
};
const HELD: Concern = Concern {
    name: "held",
    told: "legs of a prompt that is kept, and of one for which its page is given up unless a leg holds it; one decode slot's may be given up at any time",
    change: |setting| {
        setting.keep(setting.configuration.slots + 1, 0, vec![Prompt::keyed(2, &[1]), Prompt::new(2)]);
        setting.revocations = true;
        setting.fallible_slots = 1;
    },
};
/// Prompts that are kept whole, and computed in two chunks.
const WHOLE: Concern = Concern {
    name: "whole",
    told: "legs of a prompt that is kept whole, and computed in two chunks, may be given up at any time",
    change: |setting| {
        setting.keep(2, 0, vec![Prompt::keyed(2, &[1, 2])]);
        setting.chunks_of(1);
        setting.revocations = true;
    },
};

fn of_two_pages() -> Vec<Prompt> {
    vec![Prompt::keyed(3, &[1, 2]), Prompt::keyed(3, &[3, 4])]
}

fn prompts() -> Vec<Prompt> {
    vec![Prompt::keyed(3, &[1, 2]), Prompt::keyed(2, &[1]), Prompt::keyed(2, &[3])]
}

/// (ranks, slots, concern, tier)
const PROOFS: [(u32, u32, &Concern, Tier); 30] = [
    (1, 1, &WHOLE, Tier::Quick),
    (1, 1, &TWO_PAGES, Tier::Pr),
    (1, 1, &ONE_OF_TWO_PAGES, Tier::Quick),
    (1, 1, &KEPT, Tier::Quick),
    (2, 1, &KEPT, Tier::Quick),
    (1, 1, &HOSTED, Tier::Quick),
    (2, 1, &HOSTED, Tier::Quick),
    (3, 1, &KEPT, Tier::Quick),
    (3, 1, &FORGOTTEN, Tier::Nightly),
    (1, 2, &HELD, Tier::Quick),
    (1, 2, &SHARED, Tier::Pr),
    (1, 1, &FORGOTTEN, Tier::Quick),
    (2, 1, &FORGOTTEN, Tier::Quick),
    (2, 2, &HELD, Tier::Nightly),
    (2, 2, &SHARED, Tier::Nightly),
    (1, 2, &PLAIN, Tier::Quick),
    (1, 1, &EVERYTHING, Tier::Quick),
    (2, 1, &EVERYTHING, Tier::Quick),
    (2, 1, &DEADLINES, Tier::Quick),
    (2, 1, &SHUTDOWN, Tier::Quick),
    (2, 1, &PAUSE, Tier::Quick),
    (1, 2, &CHUNKS, Tier::Quick),
    (2, 1, &CHUNKS, Tier::Quick),
    (2, 2, &CHUNKS, Tier::Pr),
    (2, 2, &PLAIN, Tier::Quick),
    (2, 2, &WRITES, Tier::Quick),
    (2, 2, &REVOCATIONS, Tier::Quick),
    (3, 1, &EVERYTHING, Tier::Quick),
    (3, 1, &DEADLINES, Tier::Quick),
    (4, 1, &EVERYTHING, Tier::Nightly),
];

/// Where votes that launches go with are reduced in the devices' queue.
const IN_STREAM: [(u32, u32, &Concern, Tier); 12] = [
    (1, 1, &EVERYTHING, Tier::Quick),
    (1, 2, &CHUNKS, Tier::Quick),
    (2, 1, &EVERYTHING, Tier::Quick),
    (2, 1, &CHUNKS, Tier::Quick),
    (2, 1, &SHUTDOWN, Tier::Quick),
    (2, 1, &PAUSE, Tier::Quick),
    (2, 1, &HOSTED, Tier::Quick),
    (2, 2, &PLAIN, Tier::Quick),
    (2, 2, &CHUNKS, Tier::Pr),
    (2, 1, &DEADLINES, Tier::Quick),
    (3, 1, &DEADLINES, Tier::Quick),
    (3, 1, &EVERYTHING, Tier::Quick),
];

pub(super) fn proofs() -> Vec<Run> {
    let in_stream = IN_STREAM.iter().map(|proof| proved(proof, Mode::Stream));
    PROOFS.iter().flat_map(|proof| LOOPS.map(|mode| proved(proof, mode))).chain(in_stream).collect()
}

fn proved((size, slots, concern, tier): &(u32, u32, &Concern, Tier), mode: Mode) -> Run {
    let mut setting = PrefillSetting::new(*size, *slots, mode.overlaps());
    setting.vote(mode.votes());
    (concern.change)(&mut setting);
    let witnesses = witnesses::<Shipped>(&setting);
    let model = WorldModel::<Surroundings<Shipped>>::new(setting).witnessing(witnesses);
    let loops = mode.name();
    let run =
        Run::holds(name(&["prefill", &format!("{size}x{slots}"), concern.name, loops]), Progress(model));
    let run = run.params(format!("ranks × slots {size} × {slots}, {loops}; {}", concern.told)).tier(*tier);
    // A class stands on what every commit checks again.
    if *tier == Tier::Quick { run.proves(Role::Prefill, mode, ranks(*size)) } else { run }
}

pub(super) fn mutants() -> Vec<Run> {
    let (write, kv) = (no_write_after_free::PROPERTY.id, kv_before_run::PROPERTY.id);
    let failing = Concern { name: "", told: "", change: |setting| setting.write_failures = true };
    let unfair = WorldModel::<Surroundings<PassesMisfits>>::new(PrefillSetting::new(2, 2, false));
    vec![
        mutant::<DrainedIgnoresWrites>("drained-ignores-writes", Expect::Violates(write), &failing)
            .breaks("prefill: drained"),
        mutant::<StartsUnlisted>("starts-unlisted", Expect::Violates(kv), &failing)
            .breaks("prefill: waits_for_lists"),
        mutant::<ReleasesInFlight>("releases-in-flight", Expect::Violates(write), &CHUNKS)
            .breaks("prefill: releasable"),
        mutant::<WritesHalf>("writes-half", Expect::Violates(kv), &CHUNKS).breaks("prefill: may_write"),
        // The leg has left the table when its write is posted: nothing of it counts as computed.
        mutant::<ClosesLast>("closes-last", Expect::Violates(kv), &SHUTDOWN)
            .breaks("prefill: closes_before_retiring"),
        mutant::<MatchesWhole>("matches-whole", Expect::Violates(no_stuck::PROPERTY.id), &WHOLE)
            .breaks("prefill: matchable"),
        // The next chunk is written to a page that is kept.
        mutant::<KeepsHalf>("keeps-half", Expect::Violates(write), &WHOLE).breaks("prefill: keeps"),
        mutant_of::<EvictsHeld>("evicts-held", Expect::Violates(pages_sound::PROPERTY.id), (1, 2, &HELD))
            .breaks("prefill: evictable"),
        mutant::<EvictsCopied>("evicts-copied", Expect::Violates(write), &HOSTED)
            .breaks("prefill: evictable"),
        mutant::<RunsWhileLoading>("runs-while-loading", Expect::Violates(kv), &HOSTED)
            .breaks("prefill: waits_for_loads"),
        mutant::<FreesKept>("frees-kept", Expect::Violates(pages_sound::PROPERTY.id), &KEPT)
            .breaks("prefill: leaves_kept"),
        mutant::<NeverLate>("never-late", Expect::Loses("prefill: failure DeadlinePassed"), &DEADLINES)
            .breaks("prefill: late"),
        Run::control(name(&["prefill", "control", "passes-misfits"]), Progress(Erased::new(unfair))).params(
            "ranks × slots 2 × 2, normal; a leg that fits passes one that lacks pages: unfair, and not unsafe",
        ),
    ]
}

fn mutant<R: Rules>(rule: &str, expect: Expect, concern: &Concern) -> Run {
    mutant_of::<R>(rule, expect, (2, 1, concern))
}

fn mutant_of<R: Rules>(rule: &str, expect: Expect, (size, slots, concern): (u32, u32, &Concern)) -> Run {
    let mut setting = PrefillSetting::new(size, slots, false);
    (concern.change)(&mut setting);
    let model = Progress(Erased::new(WorldModel::<Surroundings<R>>::new(setting)));
    let run = Run::control(name(&["prefill", "mutant", rule]), model)
        .params(format!("ranks × slots {size} × {slots}, normal"));
    Run { expect, purpose: Purpose::Mutant, ..run }
}
