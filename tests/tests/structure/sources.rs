//! The workspace's source files.

use std::fs;
use std::path::Path;

use lockstep_tests::places::workspace;

/// One file, under its path in the workspace.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The lines with their numbers, without those of a test module at the end.
    pub(crate) fn shipped_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines()).take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
    }

    /// Whether the file holds tests only.
    pub(crate) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part.ends_with("tests.rs"))
    }
}

/// The Rust files below a directory of the workspace.
pub(crate) fn below(directory: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    collect(&workspace().join(directory), &mut sources);
    assert!(!sources.is_empty(), "no Rust file below {directory}");
    sources
}

/// The Rust files of all packages.
pub(crate) fn all() -> Vec<Source> {
    ["kernels", "model", "runtime", "spec", "tests"].into_iter().flat_map(below).collect()
}

fn collect(directory: &Path, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(workspace()).unwrap().to_string_lossy().into_owned();
            sources.push(Source { path: name, text: fs::read_to_string(&path).unwrap() });
        }
    }
}
