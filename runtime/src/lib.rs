//! The deployed decode scheduler. It executes the machines of spec and adds nothing to what they decide.
//!
//! ```text
//!   clients ─HTTP─▶ frontend ◀─wire─▶ rank (decode 0..N) ◀─fabric─▶ rank (prefill 0..N)
//!                      │                 │ group: control and device collectives among the N
//!                  supervisor            │ engine: this rank's share of the model
//! ```
//! Reading order: [`launch`] (the command line), [`frontend`] and [`supervisor`] (one process), [`wire`] (between it and the ranks),
//! [`rank`] (a rank process), [`group`], [`fabric`], [`engine`], [`proved`].

#![deny(unsafe_code)]

pub mod bootstrap;
pub mod demo;
pub mod engine;
pub mod fabric;
pub mod frontend;
pub mod group;
mod handover;
pub mod launch;
pub mod proved;
pub mod rank;
mod socket;
pub mod supervisor;
pub mod wire;
