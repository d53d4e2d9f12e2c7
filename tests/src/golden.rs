//! The reference answers of the bundled model.

use std::path::Path;

use serde::Deserialize;

use crate::places::model_directory;

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

/// The reference answers.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn goldens() -> Vec<Golden> {
    goldens_of(&model_directory())
}

/// Those of a model that is somewhere else.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn goldens_of(directory: &Path) -> Vec<Golden> {
    let text = std::fs::read(directory.join("golden.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}
