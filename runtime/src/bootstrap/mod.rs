//! How prefill and decode ranks find each other: a small registry over HTTP, with the routes and the JSON of SGLang's bootstrap server.
//!
//! ```text
//!   prefill rank ── Registrar ─ PUT /route ──▶ server (Registry, in the front end's process)
//!   decode rank ─── RankFinder ─ GET /route ─▶   what the group is like, then where rank i is
//!        └──────────────── fabric, to that address ──────────────▶ prefill rank
//!   routers ─ POST /register_dp_rank, /query_dp_ranks ─▶ which data-parallel rank serves a room
//! ```
//! What it adds to SGLang's: a registration carries the epoch of its group, and is void in any other; a rank that registers again counts once;
//! everything that is kept has a bound. Fields that are not known are ignored on both sides, so that either end may be SGLang's. The network
//! is trusted, as for any collective library.
//!
//! Reading order: `messages`, `registry` (what is kept, without I/O), `rooms`, `server`, `client`, and its users `registrar`, `finder` and `line`.

mod client;
mod error;
mod finder;
mod line;
mod messages;
mod registrar;
mod registry;
mod rooms;
mod server;
#[cfg(test)]
mod tests;

pub use error::{BootstrapError, Refusal};
pub use finder::{RankFinder, Wanted};
pub use line::find_line;
pub use messages::{Coordinates, Layout, PrefillServerInfo, RankAddress, Registration};
pub use registrar::Registrar;
pub use server::routes;

/// The port of SGLang's bootstrap server, as a command line names it.
pub const DEFAULT_PORT: &str = "8998";
