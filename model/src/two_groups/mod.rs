//! Both groups at once: real decode machines and real prefill machines, coupled as the runtime couples them. Elsewhere each group is
//! explored against everything that the other may do; here it meets the other itself, so that what both wait for shows.
//!
//! ```text
//!                     requests, aborts
//!                            │
//!  front end ────────────────▼─────────────────────────────────────────────────────────────┐
//!      │ tokens of a leg, when the decode leader asks for it: one ordered channel a rank    │ asks
//!      ▼                                                                                    │
//!  prefill rank ◀── page list, revocation ──────────────── link ──────────────────── decode rank
//!               ──── pages, row, failure ────────────────▶
//! ```
//! Modelled, of the runtime's code around the machines:
//! * *the front end*: endless requests while a decode slot is free, aborts at any time, and a leg's tokens to every prefill rank;
//! * *the hands of a prefill rank*: a leg is listed once its tokens and its page list are here, and a later leg of a decode slot makes the
//!   earlier ones void;
//! * *the fabric*: handshakes, grants, page lists, revocations, writes of pages and row, failures. On a link messages overtake each
//!   other, which is more than a stream does. What may be lost is what the fabric sends as best effort, or all that is on a link that
//!   breaks. A write may land between the rank's asking for a fence and the fence, and again after it landed;
//! * *the devices*: forwards retire rank by rank.
//!
//! Ghosts, which no machine sees: for each link, whose KV a decode page holds; for each prefill rank, whose KV a page holds; which keys
//! let a peer write.
//!
//! A link joins decode rank `k mod N` and prefill rank `k mod M`, for as many links as the larger group has ranks. The runtime deploys
//! groups of equal size by default, where each rank has one link; of other sizes a rank has several, and counts as shaken, listed, written or whole
//! once all are.
//!
//! One reduction, `atomic-round`: a group's round is one step. A rank takes facts between rounds alone (its loop waits in the collectives),
//! ranks of a group meet only there, and neither posting a vote nor waiting touches what the other group sees; so any run can be reordered
//! into one in which all votes of a round, its brief and its decision follow each other at once. Between two such steps both groups are outside
//! their rounds, and their counters are renamed together. It hides what falls between the decisions of two ranks: a group that dies there.
//!
//! A second one, `facts-with-their-round`, under `Interleaving::FixedOrder`: once a rank has taken a fact, its group's ranks take theirs in
//! order and go round before anything else happens, but for a break. A fact waits for the round that votes on it, and commutes with what happens to the other group:
//! what is on its way to it stays so. It may hide what depends on when the front end's next request meets the bound of
//! [`setting::Setting::lag`]. A test compares the hazards with every interleaving.
//!
//! A third one, `tidied`: what can change nothing any more is forgotten, so that states which behave alike are one. It hides what a later
//! rule would read of it.
//!
//! Where a setting has [`setting::Replacements`], groups die and others take their places under the living one, as `lockstep prefill` and
//! `lockstep decode` are deployed: then the front end holds the journal that the runtime executes, and has a line to prefill's front end
//! that ends unnoticed; what a gone decode group said is still on its way, on each link for as long as the prefill end is unaware.
//!
//! What is left out: shutdown, corrupt rows, several words of the front end in one brief, the death of a single rank (its group's is meant).
//!
//! Reading order: [`setting`] (bounds, and the rules of the coupling that hazards break), [`wire`] (a link), [`ends`] (what a rank keeps
//! of its links), [`front_end`], [`pair`] (the state), `steps` (what may come next), `decode_end` and `prefill_end` (what happens at each
//! end), `replacing` (groups that die apart), `tidy`, [`model`], [`witnesses`], [`hazards`].

mod decode_end;
pub mod ends;
pub mod front_end;
pub mod hazards;
pub mod model;
pub mod pair;
mod prefill_end;
mod rebase;
mod replacing;
pub mod setting;
mod steps;
mod tidy;
pub mod wire;
pub mod witnesses;
