//! Tests of a group: `semantics` runs on every transport; `forming` and `processes` are about the mesh.

mod forming;
mod processes;
mod semantics;
mod support;
