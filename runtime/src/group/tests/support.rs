//! What the cases of `semantics` share: the transports they run on, and how ranks are run.

use std::fmt::Debug;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::group::{
    Forming, GroupError, Leader, Line, Mailed, Member, Mesh, Neighbours, SharedMemory, Sockets, Tag, TcpMesh,
    TcpPlace, Threads,
};

pub(super) const LIMIT: usize = 32 << 20;
pub(super) const LONG: Duration = Duration::from_secs(10);
pub(super) const SHORT: Duration = Duration::from_millis(150);
pub(super) const TAG: Tag = Tag { epoch: 1, round: 7, site: 0, kind: 1, shape: 64 };

pub(super) trait Transport {
    type Line: Line;

    fn form(size: usize) -> Vec<Member<Self::Line>>;
}

pub(super) struct OverThreads;

impl Transport for OverThreads {
    type Line = Mailed<Neighbours>;

    fn form(size: usize) -> Vec<Threads> {
        Threads::form(size, LIMIT)
    }
}

pub(super) struct OverSockets;

impl Transport for OverSockets {
    type Line = Mailed<Sockets<UnixStream>>;

    fn form(size: usize) -> Vec<Mesh> {
        form(size, Mesh::form)
    }
}

pub(super) struct OverTcp;

impl Transport for OverTcp {
    type Line = Mailed<Sockets<TcpStream>>;

    fn form(size: usize) -> Vec<TcpMesh> {
        form(size, |forming| {
            let leader = Leader::Noted(forming.dir.join("address"));
            let listen = SocketAddr::from(([127, 0, 0, 1], 0));
            TcpMesh::form_at(forming, &TcpPlace { leader, listen, advertise: None })
        })
    }
}

pub(super) struct OverSharedMemory;

impl Transport for OverSharedMemory {
    type Line = SharedMemory;

    fn form(size: usize) -> Vec<Member<SharedMemory>> {
        form(size, Member::<SharedMemory>::form)
    }
}

fn form<L: Line>(size: usize, form: fn(&Forming) -> Result<Member<L>, GroupError>) -> Vec<Member<L>> {
    let dir = tempfile::tempdir().unwrap();
    let join = |rank| Forming {
        dir: dir.path().to_owned(),
        name: "semantics".to_owned(),
        rank,
        size,
        epoch: 1,
        fingerprint: [7; 32],
        payload_limit: LIMIT,
        deadline: LONG,
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..size).map(|rank| scope.spawn(move || form(&join(rank)).unwrap())).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Runs `body` on every rank at once; the results by rank.
pub(super) fn on_all<L: Line, R: Send>(
    members: &mut [Member<L>],
    body: impl Fn(usize, &mut Member<L>) -> R + Sync,
) -> Vec<R> {
    let body = &body;
    thread::scope(|scope| {
        let ranks: Vec<_> = members
            .iter_mut()
            .enumerate()
            .map(|(rank, member)| scope.spawn(move || body(rank, member)))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

pub(super) fn at_round(round: u64) -> Tag {
    Tag { round, ..TAG }
}

pub(super) fn errors<T: Debug>(results: Vec<Result<T, GroupError>>) -> Vec<GroupError> {
    results.into_iter().map(|result| result.unwrap_err()).collect()
}

pub(super) fn blamed(error: &GroupError) -> usize {
    error.culprit(usize::MAX).0
}
