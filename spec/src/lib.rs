//! The Lockstep protocol: one pure state machine, the very types that the checker explores and the runtime executes.
//!
//! ```text
//!            local evidence                    agreed                                  agreed
//!  facts ─▶ evidence ─▶ ballot ─▶ [ Vote: MIN ] ─▶ outcome ─▶ [ Brief ] ─▶ decide ─▶ state, actions, [ Forward ]
//!                                                                              │
//!                                              each rank alone ◀── perform ◀───┘
//! ```
//! Data travels one way. What one rank saw enters the round only as payload of the vote; whether, which and how long the collectives
//! are follows from agreed values.
//!
//! Reading order: [`agreed`] (the claim), [`ticket`] (where a group meets), [`vote`] and [`brief`] (what is said there), [`table`] (what is
//! agreed), [`start`] (before the first round), [`machine`] (the round), [`decode`] and [`prefill`] (the two roles), [`handshake`] (how a decode rank reaches its prefill rank), [`journal`] (what outlives a group), [`invariant`]
//! (what holds), [`trace`] (what a rank that runs writes down).
//!
//! No I/O, no clock, no randomness, no iteration in hash order, no `unsafe`, no `std`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod agreed;
pub mod brief;
pub mod cache;
pub mod configuration;
pub mod counters;
pub mod decode;
pub mod digest;
pub mod fault;
pub mod handshake;
pub mod host;
pub mod ids;
pub mod invariant;
pub mod journal;
pub mod local;
pub mod machine;
pub mod poll;
pub mod prefill;
pub mod program;
pub mod role;
pub mod start;
pub mod table;
pub mod ticket;
pub mod trace;
pub mod vote;
pub mod why;

/// Hash of this package's sources: what was proved and what runs are the same exactly if these are.
pub const FINGERPRINT: &str = env!("LOCKSTEP_SPEC_FINGERPRINT");
