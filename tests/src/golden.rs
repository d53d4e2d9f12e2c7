//! The bundled model and its reference answers.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// One reference answer of `golden.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Golden {
    /// The prompt.
    pub prompt: String,
    /// Its tokens.
    pub prompt_ids: Vec<u32>,
    /// The 64 tokens of the greedy continuation.
    pub greedy_ids: Vec<u32>,
    /// Smallest gap between the two best logits on the way.
    pub min_top2_margin: f32,
}

/// The workspace's root.
#[must_use]
pub fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

/// The directory of the bundled model.
#[must_use]
pub fn model_directory() -> PathBuf {
    workspace().join("models/kjv-1m")
}

/// The reference answers.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn goldens() -> Vec<Golden> {
    let text = std::fs::read(model_directory().join("golden.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}
