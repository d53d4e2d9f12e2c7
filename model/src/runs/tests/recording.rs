//! What is recorded, how it is written and read, and what is compared with it.

use super::*;

#[test]
fn record_survives_its_file() {
    let manifest = record_of(&toys(), &Manifest::default(), Tier::Nightly);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.toml");
    fs::write(&path, manifest.to_text().unwrap()).unwrap();
    assert_eq!(Manifest::read(&path).unwrap(), manifest);
    fs::write(&path, "[[run]]\nname = 'x'\n").unwrap();
    assert!(matches!(Manifest::read(&path), Err(ManifestError::Malformed { .. })));
    assert!(matches!(Manifest::read(folder.path()), Err(ManifestError::Unreadable { .. })));
}

#[test]
fn record_says_what_a_run_was() {
    let manifest = record_of(&toys(), &Manifest::default(), Tier::Nightly);
    let text = manifest.to_text().unwrap();
    let head = "[[run]]\nname = \"agreed-4\"\ntier = \"nightly\"\nparameters = \"4 ranks\"\nbudget = \"the tier's: minutes, and 4 GiB\"\n";
    assert!(text.contains(head), "{text}");
    assert!(text.contains("properties = \"as agreed-2\"") && text.contains("witnesses = "), "{text}");
    assert!(text.contains("properties = [\n    \"matched\",\n    \"no-stuck\",\n    \"ends\",\n]"), "{text}");
}

#[test]
fn record_of_before_is_read_and_says_more_when_it_is_kept() {
    let registry = toys();
    let whole = record_of(&registry, &Manifest::default(), Tier::Nightly);
    let mut bare = whole.clone();
    bare.records.iter_mut().for_each(|record| record.stated = None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.toml");
    fs::write(&path, bare.to_text().unwrap()).unwrap();
    let read = Manifest::read(&path).unwrap();
    assert_eq!(read, bare);
    assert_eq!(recorded(&registry, &read, &[]), whole);
    let later = Registry { spec_fingerprint: "4567".to_owned(), ..toys() };
    assert_eq!(recorded(&later, &read, &[]), bare, "what runs of another specification were is not known");
    let mut older = whole.clone();
    older.records[0].stated.as_mut().unwrap().parameters = "3 ranks".to_owned();
    assert_eq!(
        recorded(&registry, &older, &[]),
        older,
        "what was recorded of other bounds must not be said of these"
    );
}

#[test]
fn record_of_a_run_is_there_once() {
    let mut manifest = record_of(&toys(), &Manifest::default(), Tier::Quick);
    manifest.records.push(manifest.records[1].clone());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.toml");
    fs::write(&path, manifest.to_text().unwrap()).unwrap();
    let refused = Manifest::read(&path).unwrap_err();
    assert_eq!(refused.exit(), Exit::Usage);
    assert!(refused.to_string().contains("two entries of `local`"), "{refused}");
}

#[test]
fn record_of_another_specification_fails_though_no_count_moves() {
    let mut registry = toys();
    let manifest = record_of(&registry, &Manifest::default(), Tier::Quick);
    registry.spec_fingerprint = "4567".to_owned();
    let failure = compared(&registry.runs[0], &registry, &manifest).failure.unwrap();
    assert_eq!(failure.exit, Exit::Moved);
    assert!(failure.text.starts_with("counts unmoved; the specification is another"), "{}", failure.text);
}

#[test]
fn record_makes_moved_counts_fail() {
    let registry = toys();
    let mut manifest = record_of(&registry, &Manifest::default(), Tier::Quick);
    let run = &registry.runs[0];
    assert!(compared(run, &registry, &manifest).failure.is_none());
    manifest.records[0].unique = 50;
    let failure = compared(run, &registry, &manifest).failure.unwrap();
    assert_eq!(failure.exit.code(), 21);
    let moved = "moved: unique states 50 → 58 (+16.0 %); if that is meant, run `lockstep-check record` and review the change";
    assert_eq!(failure.text, moved);
}

#[test]
fn record_makes_unlisted_and_changed_runs_fail() {
    let registry = toys();
    let manifest = record_of(&registry, &Manifest::default(), Tier::Quick);
    let unlisted = compared(&registry.runs[1], &registry, &manifest).failure.unwrap();
    assert_eq!(unlisted.exit, Exit::Moved);
    let changed = Run::holds("local", Progress(AGREED));
    let changed = compared(&changed, &registry, &manifest).failure.unwrap();
    assert!(changed.text.contains("with this expectation"), "{}", changed.text);
}

#[test]
fn record_keeps_what_was_not_performed() {
    let mut registry = toys();
    let nightly = record_of(&registry, &Manifest::default(), Tier::Nightly);
    assert_eq!(record_of(&registry, &nightly, Tier::Quick), nightly);
    registry.spec_fingerprint = "4567".to_owned();
    let later = record_of(&registry, &nightly, Tier::Quick);
    assert_eq!((later.records[0].spec.as_str(), later.records[1].spec.as_str()), ("4567", "0123"));
    let proved = Proved::new(&registry, &later);
    assert_eq!(proved.classes.len(), 1, "the nightly class is proved for an earlier specification only");
    assert!(checks_text(&registry, &later, &NO_COVERAGE).contains("nightly (an earlier specification)"));
}

#[test]
fn record_writes_what_differs() {
    let registry = toys();
    let manifest = record_of(&registry, &Manifest::default(), Tier::Quick);
    let folder = tempfile::tempdir().unwrap();
    let places = Places { manifest: folder.path().join("runs.toml"), root: folder.path().to_owned() };
    let files = files(&registry, &manifest, &NO_COVERAGE, &places).unwrap();
    assert_eq!(stale(&files).len(), 3);
    assert_eq!(write(&files).unwrap().len(), 3);
    assert!(stale(&files).is_empty());
    fs::write(folder.path().join("CHECKS.md"), "edited").unwrap();
    assert_eq!(stale(&files), [folder.path().join("CHECKS.md")]);
    let nowhere = Places { root: folder.path().join("missing"), ..places };
    let lost = super::files(&registry, &manifest, &NO_COVERAGE, &nowhere).unwrap();
    assert!(matches!(write(&lost), Err(RecordError::Unwritable { .. })));
}

#[test]
fn record_text_of_checks() {
    let registry = toys();
    let manifest = record_of(&registry, &Manifest::default(), Tier::Quick);
    insta::assert_snapshot!(checks_text(&registry, &manifest, &NO_COVERAGE));
}

#[test]
fn record_text_of_proved() {
    let registry = toys();
    let manifest = record_of(&registry, &Manifest::default(), Tier::Nightly);
    insta::assert_snapshot!(Proved::new(&registry, &manifest).to_text().unwrap());
}
