//! Where things are in the workspace that this was built in.

use std::path::{Path, PathBuf};

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
