//! Bring your own protocol: what a designer writes, and what the checker makes of it.
//!
//! ```text
//!  a designer's              this module                         the rest of the checker
//!  ┌──────────────────────┐
//!  │ sites: Meeting       │   communicators: who waits for whom
//!  │ one rank: RankProgram├─▶ state: ranks, what they entered ─▶ checked: a model ─▶ explore ─▶ runs, report
//!  │ the rest: Protocol   │   and what surrounds them                                   ▲
//!  └──────────────────────┘                          session: command line, exit code ──┘
//! ```
//! A rank is a [`RankProgram`], executed as it is: it turns, takes facts that reach it alone, and takes what comes out of the collectives
//! that it entered. Its sites say, as [`Meeting`], who meets there and what comes out. A [`Protocol`] says which facts may come and what
//! must hold. For free come:
//! * `matched`: ranks enter the same collectives, in the same order, with the same shapes, on every communicator;
//! * `no-skip`: no rank goes on to a later round, or leaves, past a collective in which a member waits for it;
//! * `no-stuck`: from every reachable state the group can come to rest, circular waits over several communicators included;
//! * `no-fault`: no rank finds itself in a situation that it has no transition for.
//!
//! What this module assumes: a collective completes when every member has entered it, not earlier for a root or a sender, and each
//! member takes its outcome in its own time; between ranks, only collectives and what surrounds them carry anything.
//!
//! Reading order: [`prelude`] (what there is to write with), `collective` (where ranks meet), `design` (the rest of a protocol), `communicators`, `state`, `checked` (how it is
//! explored), `events` and `cells` (how it is drawn), `astray` (faults for nothing), `session` (a program of one line).

mod astray;
mod cells;
mod checked;
mod collective;
mod communicators;
mod design;
mod events;
pub mod prelude;
mod session;
mod state;

pub use cells::cells;
pub use checked::Checked;
pub use collective::{Collective, Meeting, Members, Numbered, Operation};
pub use design::{Claims, Condition, FactOf, LocalOf, Protocol, SiteOf, StateOf};
pub use session::{LIBRARY, Trial, holds, main, violates};
pub use state::{State, Step};
