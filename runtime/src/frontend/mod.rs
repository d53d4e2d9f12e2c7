//! The front end: OpenAI-shaped HTTP on one side, the ranks' control connections on the other, the journal between.
//!
//! ```text
//!  client ─▶ server ─▶ routes ─▶ request (parse) ─▶ Desk::submit ─▶ journal ─▶ Submit ─▶ decode leader
//!  client ◀─ stream ◀─ LiveRequest ◀──────────────── journal ◀── Desk::hear ◀── Token, Ended, LegWanted
//!  client gone ─▶ LiveRequest dropped ─▶ Desk ─▶ journal (once) ─▶ Abort ─▶ decode leader
//! ```
//! Reading order: `journal` (what was accepted and sent), `groups` and `goal` (what the ranks said), `books` (the two together), `desk` (with a lock around them),
//! `request` and `unsupported` (the way in), `stream` (the way out), `attached`, `line` and `pairing` (where the
//! groups are deployed apart), `pause`, `status` and `metrics`, `routes`, `server`.

mod attached;
mod books;
mod desk;
mod error;
mod goal;
mod group_fault;
mod groups;
mod journal;
mod line;
mod live;
mod metrics;
mod model_text;
mod pairing;
mod pause;
mod prefix;
mod request;
mod routes;
mod server;
mod status;
mod stream;
mod text;
mod unsupported;
mod write_deadline;

pub use desk::{Desk, DeskPlan, Standing};
pub use error::ApiError;
pub use group_fault::GroupFault;
pub use groups::{GroupHealth, RankHealth, RankState};
pub use journal::{Delivery, End, FinishReason, JournalFault, Submission};
pub use line::{LineError, LineTerms, LineToPrefill, LinesToDecode};
pub use live::LiveRequest;
pub use model_text::load_text;
pub use pairing::Pairing;
pub use prefix::Prefix;
pub use request::DEFAULT_MAX_TOKENS;
pub use routes::{Service, prefill_router, router};
pub use server::HttpServer;
pub use status::Health;
pub use text::{Detokenizer, TextCodec, TextError};
