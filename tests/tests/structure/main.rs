//! The tree's own rules: who may depend on whom, and what a source file may not hold.

#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod dependencies;
mod sources;
mod style;
