//! The explorer against models with known answers, and against Stateright's own checkers.

mod faults;
mod liveness;
mod models;
mod resuming;
mod search;
mod watching;
