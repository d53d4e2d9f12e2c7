//! The kernels' own sources, run on the CPU and compared with plain references; and the bugs that this must catch.
//!
//! Needs g++ (or a C++17 compiler named in `CXX`). All kernels run under AddressSanitizer and
//! UndefinedBehaviorSanitizer, in several orders of their threads. Floating-point results may differ from a GPU's in
//! their last bits, except where a test compares bits with bits.
//!
//! Reading order: [`common`] starts the kernels, [`numbers`] makes inputs; then a file for each group of operations,
//! and [`bugs`] with what must be caught.

mod attention;
mod bugs;
mod choice;
mod common;
mod matmul;
mod numbers;
mod pages;
mod refusals;
mod rope;
mod rows;
