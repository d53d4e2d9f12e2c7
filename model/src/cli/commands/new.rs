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

/// Why there is no new crate.
#[derive(Debug, Error)]
pub(crate) enum NewError {
    /// The name cannot be a crate's.
    #[error("`{0}` cannot name a crate: use lower-case letters, digits and hyphens, and a letter first")]
    Name(String),
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
            Self::Name(_) | Self::Exists(_) => Exit::Usage,
            Self::Unwritable { .. } => Exit::Internal,
        }
    }
}

/// Writes a crate called `name` into `path`, or into a folder of its name.
pub(crate) fn new(name: &str, path: Option<PathBuf>) -> Result<Exit, Trouble> {
    if !is_crate_name(name) {
        return Err(NewError::Name(name.to_owned()).into());
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
    writeln!(out, "wrote {}; next: cargo run --manifest-path {}", program.display(), manifest.display())?;
    Ok(Exit::Ok)
}

fn is_crate_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
}

fn write(path: &Path, text: &str) -> Result<(), NewError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|source| NewError::Unwritable { path: path.to_owned(), source })
}
