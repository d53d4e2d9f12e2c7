//! Two small protocols on which the checker shows itself.
//!
//! `barrier`: ranks that decide alone whether to enter a collective, and ranks that agree first.
//! `crossing`: two communicators entered in different orders.

mod barrier;
mod crossing;

pub use barrier::{Barrier, Rule};
pub use crossing::Crossing;
