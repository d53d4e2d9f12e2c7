//! The CUDA path in real processes, on the stand-ins for NVIDIA's libraries: nothing here runs on a GPU.

#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;
mod doctor;
mod driver;
mod group;
mod prepared;
