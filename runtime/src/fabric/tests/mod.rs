//! Tests of the fabric, both ends real, or one end driven by hand.

mod endings;
mod fence;
mod finding;
mod memory;
mod processes;
mod round_trip;
mod support;
