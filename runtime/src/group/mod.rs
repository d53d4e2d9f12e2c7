//! Collectives among the ranks of one TP group: a rendezvous of N ranks at one tag.
//!
//! ```text
//!                                                ┌─ Mailed: a frame to each peer over a Wire (threads | Unix sockets | TCP),
//!  caller ──collective(tag, payload)──▶ Member ──┤          theirs through a Mailbox, which a reader per peer fills
//!     ▲                                   │ Line └─ SharedMemory: one frame into the own ring, theirs out of their rings
//!     └──── result or GroupError ◀────────┘
//! ```
//!
//! One group is one communicator; a rank forms two, "control" for its rank loop and "device" for
//! its engine. Every collective is one hop: a rank sends its frame to each peer and completes when
//! it holds one frame of each peer, with its own tag. So a broadcast completes, as a reduction
//! does, only when all ranks have entered it, and a rank that entered something else is found in
//! that very collective.
//!
//! Reading order: `tag`, `error`, `frame`, `heard` (what came from the peers, and what follows), `member` (the collectives), `line`
//! (what a member needs of a transport), `mailbox`, `threads` (one process), `forming` (how processes meet) with `mesh` (sockets, of a kind
//! that `stream` describes) and `tcp` (several machines), `shared` (memory); `transport` chooses, and `collectives` is what the driver sees.

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
pub(crate) use shared::Mapping;
pub use shared::SharedMemory;
pub use stream::Stream;
pub use tag::Tag;
pub use tcp::{Leader, TcpPlace, TcpStand};
pub use threads::{Neighbours, Threads};
pub use transport::{AnyMember, Transport, form_apart};
