//! model
pub mod decode;
pub mod explore;
pub mod model;
pub mod rebase;
pub mod rendezvous;
pub mod world;
