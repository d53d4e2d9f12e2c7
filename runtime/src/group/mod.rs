//! Collectives among the ranks of one TP group: a rendezvous of N ranks at one tag.
//!
//! ```text
//!  caller ──collective(tag, payload)──▶ Member ──one frame to each peer──▶ Wire (sockets | threads)
//!                                         │                                  │ a reader per peer
//!                                         ▼                                  ▼
//!                        result or GroupError ◀── await one frame of each ── Mailbox
//! ```
//!
//! One group is one communicator; a rank forms two, "control" for its rank loop and "device" for
//! its engine. Every collective is one hop: a rank sends its frame to each peer and completes when
//! it holds one frame of each peer, with its own tag. So a broadcast completes, as a reduction
//! does, only when all ranks have entered it, and a rank that entered something else is found in
//! that very collective.
//!
//! Reading order: `tag`, `error`, `frame`, `mailbox` (what a rank has heard), `member` (the
//! collectives), then the two wires `mesh` (processes; `forming` brings them together) and
//! `threads` (one process); `collectives` is what the driver sees of either.

mod collectives;
mod error;
mod forming;
mod frame;
mod heard;
mod line;
mod mailbox;
mod member;
mod mesh;
mod shared;
mod stream;
mod tag;
mod tcp;
#[cfg(test)]
mod tests;
mod threads;
mod transport;

pub use collectives::Collectives;
pub use error::{GroupError, Setting};
pub use forming::Forming;
pub use frame::Operation;
pub use line::{Line, Mailed, Posting, Wire};
pub use member::Member;
pub use mesh::{Mesh, Sockets, TcpMesh};
pub use shared::SharedMemory;
pub use stream::Stream;
pub use tag::Tag;
pub use tcp::{Leader, TcpPlace};
pub use threads::{Neighbours, Threads};
pub use transport::{AnyMember, Transport};
