//! The model's directory, as far as the front end looks into it.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use lockstep_spec::digest::Digest;

/// Where the bundled model is in a workspace.
const BUNDLED: &str = "models/kjv-1m";

/// Why a directory is no model.
#[derive(Debug, Error)]
pub enum ModelError {
    /// It has no readable `config.json`.
    #[error("no model in {}: its config.json cannot be read ({source}); name the model's directory with --model", .directory.display())]
    Missing {
        /// The directory.
        directory: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Its `config.json` lacks what the front end needs.
    #[error("the model in {} has a config.json that is not one of a language model: {source}", .directory.display())]
    Config {
        /// The directory.
        directory: PathBuf,
        /// The parser's reason.
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Config {
    vocab_size: u32,
}

/// A model on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its directory, absolute.
    pub directory: PathBuf,
    /// Its name, which is its directory's.
    pub id: String,
    /// Tokens of its vocabulary.
    pub vocabulary: u32,
    /// Digest of its `config.json`.
    pub digest: u64,
}

impl Model {
    /// Finds the model in `directory`, or the bundled one.
    ///
    /// # Errors
    /// [`ModelError`] when there is none.
    pub fn find(directory: Option<&Path>) -> Result<Self, ModelError> {
        let asked = directory.map_or_else(bundled, Path::to_owned);
        let missing = |source| ModelError::Missing { directory: asked.clone(), source };
        let directory = asked.canonicalize().map_err(missing)?;
        let config = std::fs::read(directory.join("config.json")).map_err(missing)?;
        let parsed = serde_json::from_slice(&config);
        let Config { vocab_size } =
            parsed.map_err(|source| ModelError::Config { directory: asked.clone(), source })?;
        let id = directory.file_name().unwrap_or(directory.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { directory, id, vocabulary: vocab_size, digest: Digest::of(&config) })
    }
}

/// The bundled model: in the workspace this was built in, or else below the current directory.
fn bundled() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(BUNDLED);
    if workspace.is_dir() { workspace } else { BUNDLED.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::RunDirectory;

    #[test]
    fn model_is_named_after_its_directory() {
        let scratch = RunDirectory::create().unwrap();
        let directory = scratch.path().join("tiny");
        std::fs::create_dir(&directory).unwrap();
        let error = Model::find(Some(&directory)).unwrap_err().to_string();
        assert!(error.contains("--model"), "{error}");
        std::fs::write(directory.join("config.json"), r#"{"vocab_size": 9, "more": 1}"#).unwrap();
        let model = Model::find(Some(&directory.join("."))).unwrap();
        assert_eq!((model.id.as_str(), model.vocabulary), ("tiny", 9));
        std::fs::write(directory.join("config.json"), "{}").unwrap();
        assert!(matches!(Model::find(Some(&directory)), Err(ModelError::Config { .. })));
    }
}
