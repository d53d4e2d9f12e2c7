//! Tests of a group: `semantics` runs on every transport; `forming`, `processes` and `network` are about
//! groups of processes.

mod forming;
mod network;
mod processes;
mod rate;
mod semantics;
mod support;
