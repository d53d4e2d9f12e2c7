//! CPU execution of the kernels: [`process`] compiles and runs them, [`cases`] gives inputs and references.

pub(crate) mod cases;
pub(crate) mod process;
