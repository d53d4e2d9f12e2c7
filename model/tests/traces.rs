//! What ranks write on ways through a model is judged like what ranks of the program write: as one behaviour of it.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::PathBuf;

use lockstep_model::decode::setting::DecodeSetting;
use lockstep_model::epochs::front_end::Shipped as ShippedConduct;
use lockstep_model::epochs::model::EpochsModel;
use lockstep_model::epochs::setting::EpochsSetting;
use lockstep_model::epochs::{Epochs, Step};
use lockstep_model::explore::{Explorable, Notes, drawn};
use lockstep_model::traces::{offered, whose};
use lockstep_model::two_groups;
use lockstep_model::two_groups::model::TwoGroups;
use lockstep_model::two_groups::pair::Pair;
use lockstep_model::two_groups::setting::{Replacements, Setting, Size, Trouble};
use lockstep_model::validate::{Report, Verdict, validate};
use lockstep_model::world::Action;
use lockstep_spec::decode::evidence::LegFact;
use lockstep_spec::decode::rules::Shipped;
use lockstep_spec::ids::Epoch;
use lockstep_spec::machine::Fact;
use lockstep_spec::prefill::rules::Shipped as ShippedPrefill;

/// What is said of each group and epoch on a way.
fn judged(model: &impl Explorable, way: &[u32]) -> Vec<Report> {
    let folder = tempfile::tempdir().unwrap();
    let write = |(index, trace): (usize, &String)| -> PathBuf {
        let path = folder.path().join(format!("{index} {}.ndjson", whose(trace)));
        fs::write(&path, trace).unwrap();
        path
    };
    let paths: Vec<PathBuf> = model.traces(way).iter().enumerate().map(write).collect();
    let report = |verdict| match verdict {
        Verdict::Valid(report) => report,
        Verdict::Diverges(divergence) => panic!("{divergence}\n{way:?}"),
        Verdict::Unjudged(error) => panic!("{error}\n{way:?}"),
    };
    validate(&paths).into_iter().map(report).collect()
}

/// What a rank's own hands tell it: in the program at once, in this world at some time.
fn publishes(step: &Step) -> bool {
    matches!(step, Step::Group(Action::Fact(_, Fact::Role((_, LegFact::Published)))))
}

/// Two ranks with two slots, whose group may be lost three times.
fn epochs() -> EpochsModel<Shipped, ShippedConduct> {
    let group = DecodeSetting::new(2, 2, 4, true);
    EpochsModel::new(EpochsSetting { leaves: true, dismissals: true, ..EpochsSetting::new(&group, 2, 3) })
}

/// Two decode ranks and one prefill rank: once anything may go wrong between them, once the decode group is replaced twice.
fn both_groups() -> [TwoGroups<Shipped, ShippedPrefill>; 2] {
    let size = |ranks, slots, pages| Size { ranks, slots, pages };
    let setting = Setting::new(size(2, 2, 4), size(1, 2, 3), true);
    let trouble = Trouble {
        aborts: true,
        write_failures: true,
        losses: true,
        breaks: true,
        reposts: true,
        deadlines: true,
    };
    let replacements = Replacements { decode: 2, prefill: 0, lines: 1 };
    let aborts = Trouble { aborts: true, ..Trouble::default() };
    let failing = Setting { trouble, ..setting.clone() };
    [failing, Setting { replacements, trouble: aborts, ..setting }].map(TwoGroups::new)
}

#[test]
fn traces_of_epochs_are_behaviours_of_the_model() {
    let model = epochs();
    let reports: Vec<Report> =
        (0..40).flat_map(|seed| judged(&model, &drawn(&model, seed, 600, publishes))).collect();
    let rounds: u64 = reports.iter().map(|report| report.rounds).sum();
    assert!(reports.len() > 100 && rounds > 1_000, "{} {rounds}", reports.len());
}

#[test]
fn traces_of_two_groups_are_behaviours_of_the_model() {
    for model in both_groups() {
        let reports: Vec<Report> =
            (0..30).flat_map(|seed| judged(&model, &drawn(&model, seed, 600, |_| false))).collect();
        let rounds: u64 = reports.iter().map(|report| report.rounds).sum();
        assert!(reports.len() >= 60 && rounds > 2_000, "{} {rounds}", reports.len());
    }
}

/// What a trace counts on, a state renames; and that is all in which they differ.
#[test]
fn traces_of_epochs_only_count_on() {
    let model = epochs();
    let setting = &model.setting;
    for seed in 0..20 {
        let mut renamed = Epochs::<Shipped, ShippedConduct>::genesis(setting);
        let mut counted = renamed.clone();
        for choice in drawn(&model, seed, 600, publishes) {
            let [step, same] =
                [&renamed, &counted].map(|state| offered(choice, |steps| state.steps(setting, steps)));
            renamed = renamed.after(setting, &step);
            counted.take_as_counted(setting, &same, &mut Notes::default());
            assert_eq!(renamed.world.violation, None);
            let mut again = counted.clone();
            if again.world.between_rounds() {
                again.world.rebase();
                assert!(again == renamed, "{step:?}\n{again:?}\n{renamed:?}");
            }
        }
    }
}

/// Legs of an epoch that is over are renamed together with those of the next one, whose numbers begin again: then names may differ, and what
/// may happen does not.
#[test]
fn traces_of_two_groups_only_count_on() {
    for model in both_groups() {
        let setting = &model.setting;
        for seed in 0..20 {
            let mut renamed = Pair::<Shipped, ShippedPrefill>::genesis(setting);
            let mut counted = renamed.clone();
            for choice in drawn(&model, seed, 600, |_| false) {
                let mut offers = [Vec::new(), Vec::new()];
                renamed.actions(setting, &mut offers[0]);
                counted.actions(setting, &mut offers[1]);
                assert_eq!(offers[0].len(), offers[1].len());
                let [step, same] = offers.map(|mut offered| offered.swap_remove(choice as usize));
                renamed = renamed.after(setting, &step);
                counted.take_as_counted(setting, &same);
                assert_eq!(renamed.violation, None);
                let mut again = counted.clone();
                if matches!(step, two_groups::pair::Action::Round(_)) && counted.epoch == Epoch(0) {
                    let mut fresh = renamed.clone();
                    again.rebase();
                    fresh.rebase();
                    assert!(again == fresh, "{step:?}\n{again:?}\n{fresh:?}");
                }
            }
        }
    }
}
