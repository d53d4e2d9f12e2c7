//! The package is what its first page says: no I/O, no clock, no shared mutable state, and one door from local to agreed.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Source files with their code: comments are left out, since they may name what code may not.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the sources can be listed") {
            let path = entry.expect("the sources can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source can be read");
                found.push((path, code(&text)));
            }
        }
    }
    assert!(found.len() > 20, "the sources were found");
    found
}

fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}

/// Files, relative to the sources, whose code contains `needle`, once for each place.
fn places(needle: &str) -> Vec<String> {
    let mut places: Vec<String> = sources()
        .iter()
        .flat_map(|(path, code)| {
            let name =
                path.strip_prefix(root().join("src")).expect("a source lies in src").display().to_string();
            code.matches(needle).map(|_| name.clone()).collect::<Vec<_>>()
        })
        .collect();
    places.sort();
    places
}

#[test]
fn purity_depends_on_serde_alone() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest can be read");
    let sections: Vec<&str> =
        manifest.split("\n[").filter(|section| section.contains("dependencies")).collect();
    let names: Vec<&str> = sections.iter().filter_map(|section| section.split(']').next()).collect();
    assert_eq!(names, ["dependencies", "dev-dependencies"], "no other kind of dependency");
    let dependencies: Vec<&str> =
        sections[0].lines().skip(1).filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(dependencies, ["serde.workspace = true"]);
}

#[test]
fn purity_is_no_std_and_forbids_unsafe() {
    let library = fs::read_to_string(root().join("src/lib.rs")).expect("the library can be read");
    for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
        assert!(library.lines().any(|line| line == attribute), "lib.rs says {attribute}");
    }
}

#[test]
fn purity_sources_name_nothing_impure() {
    let impure = [
        "std",
        "Instant",
        "SystemTime",
        "Duration",
        "HashMap",
        "HashSet",
        "RandomState",
        "Cell",
        "RefCell",
        "OnceCell",
        "UnsafeCell",
        "Mutex",
        "atomic",
        "static",
        "thread_local",
        "unsafe",
        "transmute",
        "extern",
        "println",
        "dbg",
        "todo",
        "unimplemented",
        "unwrap",
        "expect",
        "panic",
        "unreachable",
    ];
    for (path, code) in sources() {
        let code = code.replace("'static", "").replace("extern crate alloc", "").replace("#[expect(", "");
        let found: Vec<&str> =
            impure.into_iter().filter(|name| words(&code).any(|word| word == *name)).collect();
        assert_eq!(found, Vec::<&str>::new(), "{} is impure", path.display());
    }
}

#[test]
fn purity_one_door_from_local_to_agreed() {
    let calls = [["machine/round.rs"; 2].as_slice(), &["start/mod.rs"; 3]].concat();
    assert_eq!(
        places("complete(&expected, ticket, payload)"),
        calls,
        "vote and brief; offer, name and preparation"
    );
    let found: Vec<String> =
        places(" complete(").into_iter().filter(|place| place != "prefill/evidence.rs").collect();
    assert_eq!(found, [["agreed.rs"].as_slice(), &calls].concat());
    assert_eq!(places("Agreed(payload)"), ["agreed.rs"]);
}

#[test]
fn purity_collectives_are_entered_by_the_machine_and_its_start_alone() {
    let entries = [["machine/round.rs"; 3].as_slice(), &["start/mod.rs"; 4]].concat();
    assert_eq!(
        places("Entry::new("),
        entries,
        "vote, brief and forward; offer, preparation, joining and name"
    );
    assert_eq!(places("Entry {"), ["agreed.rs"; 2], "the type and its block");
}

#[test]
fn purity_a_comment_is_no_code() {
    assert_eq!(code("let a = 1; // static\n/// unsafe"), "let a = 1; \n");
    assert_eq!(words("a.unwrap_or(b)").collect::<Vec<_>>(), ["a", "unwrap_or", "b"]);
}
