//! Hashes the sources of this package into `LOCKSTEP_MODEL_FINGERPRINT`, as the specification does with its own: a certificate names both.

use std::path::{Path, PathBuf};

fn main() {
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files);
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_84f2_3325_9ce4_8422_u128;
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        absorb(&mut hash, file.to_string_lossy().as_bytes());
        absorb(&mut hash, &std::fs::read(&file).expect("a source file of this package is readable"));
    }
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rustc-env=LOCKSTEP_MODEL_FINGERPRINT={hash:032x}");
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the source directory of this package is readable") {
        let path = entry.expect("a directory entry is readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// FNV-1a over 128 bits: a fingerprint against drift, not against an adversary.
fn absorb(hash: &mut u128, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
}
