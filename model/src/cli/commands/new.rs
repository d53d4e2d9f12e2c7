//! `new`: a crate with a protocol to start from.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::protocol::LIBRARY;
use crate::runs::Exit;
use thiserror::Error;

use super::Trouble;

const MANIFEST: &str = include_str!("../../../template/manifest.toml");
const PROGRAM: &str = include_str!("../../../template/main.rs");

/// Names that no crate of this kind can have: folders of Cargo's, crates that come with Rust, this checker's crates, and words of Rust.
const TAKEN: &[&str] = &[
    "build",
    "deps",
    "examples",
    "incremental",
    "alloc",
    "core",
    "proc-macro",
    "std",
    "test",
    "lockstep-model",
    "lockstep-spec",
    "abstract",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "struct",
    "super",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Why there is no new crate.
#[derive(Debug, Error)]
pub(crate) enum NewError {
    /// The name cannot be a crate's.
    #[error("`{0}` cannot name a crate: use lower-case letters, digits and hyphens, and a letter first")]
    Name(String),
    /// The name is one of Rust's or Cargo's own, or of this workspace.
    #[error(
        "`{0}` cannot name a crate, because Rust, Cargo or this checker uses it: choose another, such as my-{0}"
    )]
    Taken(String),
    /// Something is there already.
    #[error("{} exists: choose another name, or another folder with --path", .0.display())]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}

impl NewError {
    /// The exit code it asks for.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Name(_) | Self::Taken(_) | Self::Exists(_) => Exit::Usage,
            Self::Unwritable { .. } => Exit::Internal,
        }
    }
}

/// Writes a crate called `name` into `path`, or into a folder of its name.
pub(crate) fn new(name: &str, path: Option<PathBuf>) -> Result<Exit, Trouble> {
    if !is_crate_name(name) {
        return Err(NewError::Name(name.to_owned()).into());
    }
    if TAKEN.contains(&name) {
        return Err(NewError::Taken(name.to_owned()).into());
    }
    let folder = path.unwrap_or_else(|| PathBuf::from(name));
    if folder.exists() {
        return Err(NewError::Exists(folder).into());
    }
    // What JSON quotes, TOML reads.
    let library = serde_json::Value::from(LIBRARY).to_string();
    write(&folder.join("Cargo.toml"), &MANIFEST.replace("NAME", name).replace("LIBRARY", &library))?;
    write(&folder.join("src/main.rs"), PROGRAM)?;
    write(&folder.join(".gitignore"), "/target\n")?;
    let (manifest, program) = (folder.join("Cargo.toml"), folder.join("src/main.rs"));
    let mut out = anstream::stdout().lock();
    writeln!(out, "wrote {}; next: cargo run --manifest-path {}", program.display(), quoted(&manifest))?;
    Ok(Exit::Ok)
}

/// The path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%".contains(letter);
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

fn is_crate_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
}

fn write(path: &Path, text: &str) -> Result<(), NewError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|source| NewError::Unwritable { path: path.to_owned(), source })
}
