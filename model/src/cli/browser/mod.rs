//! The page of `lockstep-check explore`, and the server behind it.
//!
//! ```text
//!  browser ──GET──▶ server ──▶ api ──▶ crate::explain::Way (a path followed on the model)
//!     ▲                         │
//!     └──── page, or JSON ◀─────┘
//! ```
//!
//! Reading order: `api` (what can be asked), `server` (how it is asked), `page` (one HTML file, with its sources in the folder beside it).

mod api;
mod page;
mod server;

pub(crate) use api::{Api, Opened};
pub(crate) use page::stand_alone;
pub(crate) use server::{listen, serve};
