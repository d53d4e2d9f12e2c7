//! Runs of the agreed level: any number of ranks.

use super::{MODES, name};
use crate::agreed_level::model::AgreedModel;
use crate::agreed_level::mutants::{
    AdmitsAhead, AppliesStale, DrainedByFabric, FewestTokensVictim, FromCopy, FromCopyFewestTokensVictim,
    FromCopyGrowsLast, FromCopyRetractsAlone, LaunchesUnfenced, LosesPages, NeverReleases, ReleasesInFlight,
};
use crate::decode::setting::{Breakage, DecodeSetting, RequestKind};
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

fn params(setting: &DecodeSetting) -> String {
    let configuration = &setting.configuration;
    let loops = if configuration.flights > 1 { "overlap" } else { "normal" };
    let faults = match (setting.aborts, setting.breakage) {
        (false, _) => "",
        (true, Breakage::Deadline) => "; any request may be aborted or late",
        (true, Breakage::Nothing | Breakage::Handshake | Breakage::Transfer) => {
            "; any request may be aborted or fail"
        }
    };
    format!("ranks × slots any × {}, pages {}, {loops}{faults}", configuration.slots, configuration.pages)
}

pub(super) fn proofs() -> Vec<Run> {
    let mut runs = Vec::new();
    for (_, overlap) in MODES {
        let loops = if overlap { "overlap" } else { "normal" };
        runs.push(holds::<Shipped>(
            &["agreed", "2-slots-faults", loops],
            with_faults(2, 4, overlap),
            Tier::Quick,
        ));
        let deadlines = with_deadlines(2, 4, overlap);
        runs.push(holds::<Shipped>(&["agreed", "2-slots-deadlines", loops], deadlines, Tier::Quick));
        runs.push(holds::<Shipped>(&["agreed", "3-slots", loops], setting(3, 4, overlap), Tier::Quick));
    }
    runs
}

/// The controls hold: they show that a rule costs only time here, or that it is another rule that the mutants beside them break.
pub(super) fn mutants() -> Vec<Run> {
    let small = || with_faults(2, 4, true);
    vec![
        broken::<AppliesStale>("applies-stale", vote_fresh::PROPERTY.id, small(), Tier::Quick),
        broken::<LaunchesUnfenced>("launches-unfenced", kv_before_run::PROPERTY.id, small(), Tier::Quick),
        broken::<DrainedByFabric>(
            "drained-by-fabric",
            no_write_after_free::PROPERTY.id,
            small(),
            Tier::Quick,
        ),
        broken::<ReleasesInFlight>(
            "releases-in-flight",
            no_write_after_free::PROPERTY.id,
            small(),
            Tier::Quick,
        ),
        broken::<LosesPages>("loses-pages", pages_sound::PROPERTY.id, small(), Tier::Quick),
        broken::<NeverReleases>("never-releases", ends::PROPERTY.id, setting(2, 4, true), Tier::Quick),
        broken::<AdmitsAhead>("admits-ahead", admission_fair::PROPERTY.id, setting(2, 4, true), Tier::Quick),
        holds::<FewestTokensVictim>(
            &["agreed", "control", "fewest-tokens-victim"],
            setting(3, 4, true),
            Tier::Pr,
        ),
        holds::<FromCopy>(&["agreed", "control", "from-copy"], setting(3, 4, true), Tier::Pr),
        broken::<FromCopyFewestTokensVictim>(
            "from-copy-fewest-tokens-victim",
            admission_fair::PROPERTY.id,
            setting(3, 4, true),
            Tier::Quick,
        ),
        broken::<FromCopyRetractsAlone>(
            "from-copy-retracts-alone",
            admission_fair::PROPERTY.id,
            setting(2, 4, true),
            Tier::Quick,
        ),
        broken::<FromCopyGrowsLast>(
            "from-copy-grows-last",
            admission_fair::PROPERTY.id,
            setting(3, 4, true),
            Tier::Pr,
        ),
    ]
}

fn holds<R: Rules>(parts: &[&str], setting: DecodeSetting, tier: Tier) -> Run {
    let params = params(&setting);
    Run::holds(name(parts), Progress(AgreedModel::<R>::new(setting))).params(params).tier(tier)
}

fn broken<R: Rules>(rule: &str, property: &'static str, setting: DecodeSetting, tier: Tier) -> Run {
    let params = params(&setting);
    let model = Progress(AgreedModel::<R>::new(setting));
    Run::mutant(name(&["agreed", "mutant", rule]), property, model).params(params).tier(tier)
}
