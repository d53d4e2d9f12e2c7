//! Whole deployments from outside: the shipped program, real ranks, the bundled model, HTTP.
//!
//! `answers` (what clients get), `apart` (two programs, each of which dies by itself), `bootstrap` (KV over TCP), `chaos` (all of it at random), `cuda` (devices, on stand-ins), `kept` (prompts that begin alike), `launchers` (ranks that others
//! start, on two machines too), `leaving` (clients that go), `losses` (deaths that no restart follows), `onesided` (failures that one rank alone sees), `pausing`, `recovery` (ranks that die),
//! `starts` (wrong starts, orderly ends, the demo), `traces` (what ranks write down), `transports` (all of it in short, over each). The traces of
//! every deployment here are judged when it ends.

#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod answers;
mod apart;
mod bootstrap;
mod chaos;
mod common;
mod cuda;
mod kept;
mod launchers;
mod leaving;
mod losses;
mod onesided;
mod pausing;
mod recovery;
mod relay;
mod starts;
mod traces;
mod transports;
