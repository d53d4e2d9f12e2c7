//! A group whose ranks are processes of one machine and meet in shared memory.
//!
//! ```text
//!   block of rank 0: bell · sent · poison · falls · read[0..N] · ring      written by rank 0; read by all
//!   block of rank 1: bell · sent · poison · falls · read[0..N] · ring      the bell alone is anybody's
//!        ▲                                                  │
//!        └── line: frames in and out, the verdict, the wait ┘      deathwatch: sockets that say who is gone
//! ```
//!
//! A rank writes its frame once, into the ring of its own block, and each peer reads it there: nobody has a reader thread, and nothing is
//! copied by the kernel. A frame that is longer than the ring goes through it in pieces, while the rank reads what the others send. A
//! rank waits in three steps: it spins, if each rank has a core of its own; it yields; it sleeps on its bell, which a peer rings only for
//! one that sleeps. The processes meet over Unix sockets as the mesh does, hand each other their blocks there, and keep the connections:
//! the kernel closes those of a process that dies, however it dies.
//!
//! Reading order: `board` (the words of a block and the order in which they are written), `line` (frames and waiting), `mapping` (the
//! memory, and the only unsafe code), `handover` (forming), `deathwatch`.

mod board;
mod deathwatch;
mod handover;
mod line;
mod mapping;
#[cfg(test)]
mod tests;

pub use handover::SharedMemory;
pub(crate) use mapping::Mapping;
