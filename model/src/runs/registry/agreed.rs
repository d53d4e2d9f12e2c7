//! Runs of the agreed level: any number of ranks.

use super::{LOOPS, name};
use crate::agreed_level::model::AgreedModel;
use crate::agreed_level::mutants::{
    AdmitsAhead, AppliesStale, DrainedByFabric, DrainedWhileRevoking, FewestTokensVictim, FromCopy,
    FromCopyFewestTokensVictim, FromCopyGrowsLast, FromCopyRetractsAlone, LaunchesUnfenced, LosesPages,
    NeverReleases, PassesMisfits, ReleasesInFlight, RestoresWithoutFirstLaunchAndRetractsAlone,
    ResumesAheadOfGrowth, RetractsAlone,
};
use crate::agreed_level::orders::{
    AbortsBeforeRetiring, AdmitsFirst, GrowsBeforeReleasing, PollsBeforeAborting, ReleasesBeforePolling,
    ResumesBeforeGrowing,
};
use crate::agreed_prefill::model::AgreedPrefillModel;
use crate::decode::setting::{Breakage, DecodeSetting, RequestKind};
use crate::explore::Erased;
use crate::prefill::mutants::{DrainedIgnoresWrites, PassesMisfits as PrefillPassesMisfits, StartsUnlisted};
use crate::prefill::setting::{PrefillSetting, Prompt};
use crate::runs::run::{Mode, Run, Tier};
use crate::runs::runner::Progress;
use lockstep_spec::decode::rules::{Rules, Shipped};
use lockstep_spec::invariant::{
    admission_fair, ends, kv_before_run, no_write_after_free, pages_sound, vote_fresh,
};
use lockstep_spec::prefill::rules::{Rules as PrefillRules, Shipped as PrefillShipped};

/// A long request and a short one: the sizes at which the orders of work matter.
const LONG_SHORT: [RequestKind; 2] =
    [RequestKind { prompt: 1, most: 4, stop_at: None }, RequestKind { prompt: 1, most: 2, stop_at: None }];

fn setting(slots: u32, pages: u32, overlap: bool) -> DecodeSetting {
    let mut setting = DecodeSetting::new(1, slots, pages, overlap);
    setting.kinds = LONG_SHORT.to_vec();
    setting
}

fn with_faults(slots: u32, pages: u32, overlap: bool) -> DecodeSetting {
    DecodeSetting { aborts: true, breakage: &[Breakage::Transfer], ..setting(slots, pages, overlap) }
}

fn with_deadlines(slots: u32, pages: u32, overlap: bool) -> DecodeSetting {
    DecodeSetting { breakage: &[Breakage::Deadline], ..with_faults(slots, pages, overlap) }
}

/// Everything that may break, pauses, and a group that leaves.
fn directed(slots: u32, pages: u32, overlap: bool) -> DecodeSetting {
    let all = DecodeSetting { breakage: Breakage::ALL, ..with_faults(slots, pages, overlap) };
    let mut setting = DecodeSetting { pause: true, shutdown: true, ..all };
    setting.kinds.truncate(1);
    setting
}

fn with_words(slots: u32, pages: u32, overlap: bool) -> DecodeSetting {
    DecodeSetting { words: 2, ..with_faults(slots, pages, overlap) }
}

fn with_hosts(mut setting: DecodeSetting, host_pages: u32) -> DecodeSetting {
    setting.host(host_pages);
    setting
}

/// Room for three, of which the youngest gives its pages up for each of the others.
fn long(overlap: bool) -> DecodeSetting {
    let mut setting = setting(3, 6, overlap);
    setting.kinds[0].most = 5;
    setting.kinds.truncate(1);
    setting
}

fn params(setting: &DecodeSetting) -> String {
    let configuration = &setting.configuration;
    let loops = if configuration.flights > 1 { "overlap" } else { "normal" };
    let (late, fails) = (setting.breaks(Breakage::Deadline), setting.breaks(Breakage::Transfer));
    let faults = match (setting.aborts, late, fails) {
        (false, _, _) => "",
        (true, true, true) => "; any request may be aborted or late, or fail in each way",
        (true, true, false) => "; any request may be aborted or late",
        (true, false, _) => "; any request may be aborted or fail",
    };
    let directed = if setting.pause { "; the group may be paused, and any rank ask it to leave" } else { "" };
    let words = if setting.words > 1 { "; two words may travel in one brief" } else { "" };
    let hosts = match configuration.host_pages {
        0 => String::new(),
        pages => format!("; retraction to {pages} pages on each host, or to none"),
    };
    let (slots, pages) = (configuration.slots, configuration.pages);
    format!("ranks × slots any × {slots}, pages {pages}, {loops}{faults}{directed}{words}{hosts}")
}

pub(super) fn proofs() -> Vec<Run> {
    let mut runs = Vec::new();
    for mode in LOOPS {
        let (loops, overlap) = (mode.name(), mode.overlaps());
        let three = if overlap { Tier::Quick } else { Tier::Pr };
        runs.push(holds::<Shipped>(
            &["agreed", "2-slots-faults", loops],
            with_faults(2, 4, overlap),
            Tier::Quick,
        ));
        let deadlines = with_deadlines(2, 4, overlap);
        runs.push(holds::<Shipped>(&["agreed", "2-slots-deadlines", loops], deadlines, Tier::Quick));
        let words = with_words(2, 4, overlap);
        runs.push(holds::<Shipped>(&["agreed", "2-slots-words", loops], words, Tier::Quick));
        let directed = directed(2, 4, overlap);
        runs.push(holds::<Shipped>(&["agreed", "2-slots-directed", loops], directed, Tier::Quick));
        let hosted = with_hosts(with_faults(2, 4, overlap), 1);
        runs.push(holds::<Shipped>(&["agreed", "2-slots-hosted", loops], hosted, Tier::Quick));
        let hosted = with_hosts(setting(3, 4, overlap), 2);
        runs.push(holds::<Shipped>(&["agreed", "3-slots-hosted", loops], hosted, three));
        let twice = with_hosts(long(overlap), 3);
        runs.push(holds::<Shipped>(&["agreed", "3-slots-hosted-long", loops], twice, three));
        let mixed = of_two_sizes(overlap);
        runs.push(holds::<Shipped>(&["agreed", "3-slots-two-sizes", loops], mixed, three));
        runs.push(holds::<Shipped>(&["agreed", "3-slots", loops], setting(3, 4, overlap), Tier::Quick));
    }
    runs.push(holds::<Shipped>(&["agreed", "4-slots", "normal"], setting(4, 5, false), Tier::Nightly));
    runs.extend(LOOPS.into_iter().flat_map(prefill_proofs));
    runs
}

const FAULTS: &str = "legs may be given up, and writes fail, at any time";

/// Of the prefill group.
fn prefill_proofs(mode: Mode) -> [Run; 7] {
    let setting = |slots| PrefillSetting::new(1, slots, mode.overlaps());
    let faults = PrefillSetting {
        revocations: true,
        write_failures: true,
        hasty: true,
        late_facts: true,
        ..setting(2)
    };
    let deadlines = PrefillSetting { deadlines: true, pause: true, ..faults.clone() };
    let mut chunks = PrefillSetting { revocations: true, ..setting(2) };
    chunks.one_token_a_forward();
    let mut hosted = PrefillSetting { revocations: true, ..setting(2) };
    hosted.keep(3, 2, vec![Prompt::keyed(2, &[1]), Prompt::keyed(2, &[2])]);
    let run = |about: &str, told: &str, model: AgreedPrefillModel<PrefillShipped>| {
        let params = prefill_params(&model, told);
        Run::holds(name(&["agreed", "prefill", about, mode.name()]), Progress(model)).params(params)
    };
    let (any_order, in_order) = (AgreedPrefillModel::new, AgreedPrefillModel::in_order);
    [
        run("2-slots-faults", FAULTS, any_order(faults.clone())),
        run("2-slots-faults-in-order", FAULTS, in_order(faults)),
        run(
            "2-slots-deadlines",
            "legs may be given up or late, writes fail, and the group be paused, at any time",
            any_order(deadlines),
        ),
        run("2-slots-chunks", "legs take two forwards, and may be given up at any time", in_order(chunks)),
        run(
            "2-slots-hosted",
            "pages of two prompts are kept on devices and hosts; legs may be given up at any time",
            in_order(hosted),
        ),
        run("3-slots-two-sizes", "legs of one page, and of all", in_order(of_a_page_and_of_all(mode)))
            .tier(if mode.overlaps() { Tier::Quick } else { Tier::Pr }),
        run("3-slots", "legs of one and two pages, one page short", in_order(setting(3))).tier(Tier::Nightly),
    ]
}

/// Legs that fit beside others, and legs that do not.
fn of_a_page_and_of_all(mode: Mode) -> PrefillSetting {
    let mut setting = PrefillSetting::new(1, 3, mode.overlaps());
    setting.keep(3, 0, vec![Prompt::new(1), Prompt::new(3)]);
    setting
}

fn prefill_params<R: PrefillRules>(
    AgreedPrefillModel { setting, any_order, .. }: &AgreedPrefillModel<R>,
    told: &str,
) -> String {
    let configuration = &setting.configuration;
    let loops = if configuration.flights > 1 { "overlap" } else { "normal" };
    let order = if *any_order { "in any order" } else { "in the order of acceptance" };
    let (slots, pages) = (configuration.slots, configuration.pages);
    format!("prefill; ranks × slots any × {slots}, pages {pages}, {loops}, legs {order}; {told}")
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
        broken::<ResumesBeforeGrowing>(
            "hosted-resumes-before-growing",
            ends::PROPERTY.id,
            with_hosts(setting(2, 4, true), 2),
        )
        .breaks("decode: order"),
        moved::<AbortsBeforeRetiring>("aborts-before-retiring", FAULTS_OVERLAP, small()),
        moved::<PollsBeforeAborting>("polls-before-aborting", FAULTS_OVERLAP, small()),
        moved::<ReleasesBeforePolling>(
            "releases-before-polling",
            "agreed-2-slots-deadlines-overlap",
            with_deadlines(2, 4, true),
        ),
        moved::<GrowsBeforeReleasing>("grows-before-releasing", FAULTS_OVERLAP, small()),
        retracts_alone(small()),
        broken::<PassesMisfits>("passes-misfits", fair, of_two_sizes(true))
            .breaks("decode: first_misfit_stops"),
        broken::<FewestTokensVictim>("hosted-fewest-tokens-victim", fair, with_hosts(setting(3, 4, true), 2))
            .breaks("decode: victim")
            .tier(Tier::Pr),
        broken::<RestoresWithoutFirstLaunchAndRetractsAlone>(
            "hosted-retracts-alone",
            fair,
            with_hosts(setting(2, 4, true), 2),
        )
        .breaks("decode: retracts_alone"),
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
            .tier(Tier::Nightly),
        prefill_broken::<PrefillPassesMisfits>(
            "prefill-passes-misfits",
            fair,
            of_a_page_and_of_all(Mode::Normal),
        )
        .breaks("prefill: first_misfit_stops"),
        prefill_broken::<StartsUnlisted>(
            "prefill-starts-unlisted",
            kv_before_run::PROPERTY.id,
            of_a_page_and_of_all(Mode::Normal),
        )
        .breaks("prefill: waits_for_lists"),
        prefill_broken::<DrainedIgnoresWrites>("prefill-drained-ignores-writes", free, {
            PrefillSetting { revocations: true, ..PrefillSetting::new(1, 2, true) }
        })
        .breaks("prefill: drained"),
    ]
}

fn prefill_broken<R: PrefillRules>(rule: &str, property: &'static str, setting: PrefillSetting) -> Run {
    let model = AgreedPrefillModel::<R>::in_order(setting);
    let told = if model.setting.revocations { "legs may be given up at any time" } else { "endless legs" };
    let params = prefill_params(&model, told);
    Run::mutant(name(&["agreed", "mutant", rule]), property, Progress(Erased::new(model))).params(params)
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

/// The run of the shipped rules with which most orders of work are compared.
const FAULTS_OVERLAP: &str = "agreed-2-slots-faults-overlap";

/// An order of work that does no harm, and goes other ways than the shipped one.
fn moved<R: Rules>(rule: &str, shipped: &'static str, setting: DecodeSetting) -> Run {
    let params = params(&setting);
    let model = Progress(Erased::new(AgreedModel::<R>::new(setting)));
    Run::sloth(name(&["agreed", "mutant", rule]), shipped, model).params(params).breaks("decode: order")
}

/// Where each transfer brings a token, a request that is its own victim loses time alone.
fn retracts_alone(setting: DecodeSetting) -> Run {
    let params = params(&setting);
    let model = Progress(Erased::new(AgreedModel::<RetractsAlone>::new(setting)));
    Run::idler("agreed-mutant-retracts-alone", "decode: outcome GrowthWaitsAlone", model)
        .params(params)
        .breaks("decode: retracts_alone")
}
