//! Runs of the agreed level: any number of ranks.

use super::{LOOPS, name};
use crate::agreed_level::model::AgreedModel;
use crate::agreed_level::mutants::{
    AdmitsAhead, AdmitsFirst, AppliesStale, DrainedByFabric, DrainedWhileRevoking, FewestTokensVictim,
    FromCopy, FromCopyFewestTokensVictim, FromCopyGrowsLast, FromCopyRetractsAlone, LaunchesUnfenced,
    LosesPages, NeverReleases, PassesMisfits, ReleasesInFlight, ResumesAheadOfGrowth,
};
use crate::decode::setting::{Breakage, DecodeSetting, RequestKind};
use crate::explore::Erased;
use crate::runs::run::{Run, Tier};
use crate::runs::runner::Progress;
use lockstep_spec::decode::rules::{Rules, Shipped};
use lockstep_spec::invariant::{
    admission_fair, ends, kv_before_run, no_write_after_free, pages_sound, vote_fresh,
};

/// A long request and a short one: the sizes at which the orders of work matter.
const LONG_SHORT: [RequestKind; 2] =
    [RequestKind { prompt: 1, most: 4, stop_at: None }, RequestKind { prompt: 1, most: 2, stop_at: None }];

fn setting(slots: u32, pages: u32, overlap: bool) -> DecodeSetting {
    let mut setting = DecodeSetting::new(1, slots, pages, overlap);
    setting.kinds = LONG_SHORT.to_vec();
    setting
}

fn with_faults(slots: u32, pages: u32, overlap: bool) -> DecodeSetting {
    DecodeSetting { aborts: true, breakage: Breakage::Transfer, ..setting(slots, pages, overlap) }
}

fn with_deadlines(slots: u32, pages: u32, overlap: bool) -> DecodeSetting {
    DecodeSetting { breakage: Breakage::Deadline, ..with_faults(slots, pages, overlap) }
}

fn with_words(slots: u32, pages: u32, overlap: bool) -> DecodeSetting {
    DecodeSetting { words: 2, ..with_faults(slots, pages, overlap) }
}

fn params(setting: &DecodeSetting) -> String {
    let configuration = &setting.configuration;
    let loops = if configuration.flights > 1 { "overlap" } else { "normal" };
    let faults = match (setting.aborts, setting.breakage) {
        (false, _) => "",
        (true, Breakage::Deadline) => "; any request may be aborted or late",
        (true, Breakage::Nothing | Breakage::Handshake | Breakage::Transfer | Breakage::FirstToken) => {
            "; any request may be aborted or fail"
        }
    };
    let words = if setting.words > 1 { "; two words may travel in one brief" } else { "" };
    let (slots, pages) = (configuration.slots, configuration.pages);
    format!("ranks × slots any × {slots}, pages {pages}, {loops}{faults}{words}")
}

pub(super) fn proofs() -> Vec<Run> {
    let mut runs = Vec::new();
    for mode in LOOPS {
        let (loops, overlap) = (mode.name(), mode.overlaps());
        runs.push(holds::<Shipped>(
            &["agreed", "2-slots-faults", loops],
            with_faults(2, 4, overlap),
            Tier::Quick,
        ));
        let deadlines = with_deadlines(2, 4, overlap);
        runs.push(holds::<Shipped>(&["agreed", "2-slots-deadlines", loops], deadlines, Tier::Quick));
        let words = with_words(2, 4, overlap);
        runs.push(holds::<Shipped>(&["agreed", "2-slots-words", loops], words, Tier::Quick));
        let mixed = of_two_sizes(overlap);
        runs.push(holds::<Shipped>(&["agreed", "3-slots-two-sizes", loops], mixed, Tier::Pr));
        runs.push(holds::<Shipped>(&["agreed", "3-slots", loops], setting(3, 4, overlap), Tier::Quick));
    }
    runs.push(holds::<Shipped>(&["agreed", "4-slots", "normal"], setting(4, 5, false), Tier::Nightly));
    runs
}

/// The controls hold: they show that a rule costs only time here, or that it is another rule that the mutants beside them break.
pub(super) fn mutants() -> Vec<Run> {
    let small = || with_faults(2, 4, true);
    let (free, fair) = (no_write_after_free::PROPERTY.id, admission_fair::PROPERTY.id);
    vec![
        broken::<AppliesStale>("applies-stale", vote_fresh::PROPERTY.id, small())
            .breaks("decode: applies_stale"),
        broken::<LaunchesUnfenced>("launches-unfenced", kv_before_run::PROPERTY.id, small())
            .breaks("decode: may_launch"),
        broken::<DrainedByFabric>("drained-by-fabric", free, small()).breaks("decode: drained"),
        broken::<DrainedWhileRevoking>("drained-while-revoking", free, small()).breaks("decode: drained"),
        broken::<ReleasesInFlight>("releases-in-flight", free, small()).breaks("decode: releasable"),
        broken::<LosesPages>("loses-pages", pages_sound::PROPERTY.id, small())
            .breaks("decode: returns_pages"),
        broken::<NeverReleases>("never-releases", ends::PROPERTY.id, setting(2, 4, true))
            .breaks("decode: releasable"),
        broken::<AdmitsAhead>("admits-ahead", fair, setting(2, 4, true)).breaks("decode: may_admit"),
        broken::<AdmitsFirst>("admits-first", fair, setting(2, 4, true)).breaks("decode: order"),
        broken::<PassesMisfits>("passes-misfits", fair, of_two_sizes(true))
            .breaks("decode: first_misfit_stops"),
        control::<ResumesAheadOfGrowth>("resumes-ahead-of-growth", setting(2, 4, true), Tier::Quick),
        control::<FewestTokensVictim>("fewest-tokens-victim", setting(3, 4, true), Tier::Pr),
        control::<FromCopy>("from-copy", setting(3, 4, true), Tier::Pr),
        broken::<FromCopyFewestTokensVictim>("from-copy-fewest-tokens-victim", fair, setting(3, 4, true))
            .breaks("decode: victim")
            .shows("fewest-tokens-victim"),
        broken::<FromCopyRetractsAlone>("from-copy-retracts-alone", fair, setting(2, 4, true))
            .breaks("decode: retracts_alone"),
        broken::<FromCopyGrowsLast>("from-copy-grows-last", fair, setting(3, 4, false))
            .breaks("decode: order")
            .tier(Tier::Pr),
    ]
}

/// Requests of two sizes: one may fit where an older one does not.
fn of_two_sizes(overlap: bool) -> DecodeSetting {
    let mut setting = setting(3, 5, overlap);
    setting.kinds[1].prompt = 2;
    setting
}

fn holds<R: Rules>(parts: &[&str], setting: DecodeSetting, tier: Tier) -> Run {
    let params = params(&setting);
    Run::holds(name(parts), Progress(AgreedModel::<R>::new(setting))).params(params).tier(tier)
}

fn control<R: Rules>(rule: &str, setting: DecodeSetting, tier: Tier) -> Run {
    let params = params(&setting);
    let model = Progress(Erased::new(AgreedModel::<R>::new(setting)));
    Run::control(name(&["agreed", "control", rule]), model).params(params).tier(tier)
}

fn broken<R: Rules>(rule: &str, property: &'static str, setting: DecodeSetting) -> Run {
    let params = params(&setting);
    let model = Progress(Erased::new(AgreedModel::<R>::new(setting)));
    Run::mutant(name(&["agreed", "mutant", rule]), property, model).params(params)
}
