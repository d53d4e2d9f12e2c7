//! The checker: the protocol's own types explored exhaustively, the conventional design as the thing that fails, and everything around
//! them that makes a verdict worth something.
//!
//! ```text
//!  spec's machines ─▶ world (N ranks) ────┐
//!  spec's decide ───▶ agreed_level (any N)┼─▶ model ─▶ explore ─▶ runs ─▶ report, CHECKS.md, proved.json
//!  conventional ────▶ world ──────────────┤
//!  your own ranks ──▶ protocol ───────────┘
//! ```
//!
//! Reading order: [`group`] and [`rendezvous`] (ranks that meet), [`world`] (what surrounds them), [`decode`] and [`prefill`] (the two
//! groups), [`agreed_level`], [`conventional`]; then [`explore`] (the search), [`runs`] (what is checked), [`report`] and [`screen`]
//! (verdicts and counterexamples on a terminal), [`explain`] and [`ci`] (the same for other tools), [`validate`] (traces of what runs) and [`traces`] (the same from the other side). [`protocol`] is the way in for whoever
//! brings a protocol of their own; it stands apart from the two groups. [`toys`] are small protocols that the checker's own tests use.

#![forbid(unsafe_code)]

/// The shipped rules of a trait but for one: a mutant's name, and the method that it overrides.
macro_rules! rules_but {
    ($rules:ident, $(#[$doc:meta])* $name:ident, $method:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name;

        impl $rules for $name {
            fn $method($($argument: $type),*) -> $result $body
        }
    };
}

pub mod agreed_level;
pub mod agreed_prefill;
pub mod ci;
pub mod cli;
pub mod conventional;
pub mod coverage;
pub mod decode;
pub mod entries;
pub mod epochs;
pub mod explain;
pub mod explore;
pub mod group;
pub mod handshake;
pub mod model;
pub mod prefill;
pub mod protocol;
pub mod rebase;
pub mod rendezvous;
pub mod report;
pub mod runs;
pub mod screen;
pub mod start;
pub mod toys;
pub mod traces;
pub mod two_groups;
pub mod validate;
pub mod world;

/// Hash of this package's sources: what a certificate of a run is about, beside the specification.
pub const FINGERPRINT: &str = env!("LOCKSTEP_MODEL_FINGERPRINT");
