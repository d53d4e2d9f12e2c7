//! The transports that processes can form a group over, and the one call that does it.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use clap::ValueEnum;

use super::error::GroupError;
use super::forming::Forming;
use super::line::Line;
use super::member::Member;
use super::mesh::{tcp_line, tcp_line_at, unix_line};
use super::shared::SharedMemory;
use super::tcp::{Leader, TcpPlace, TcpStand};

/// What carries a group's collectives between processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Shared memory, on one machine.
    #[default]
    Shm,
    /// TCP, on one machine or several.
    Tcp,
    /// Unix sockets, on one machine.
    Unix,
}

/// One rank of a group over a transport that was chosen when it was started.
pub type AnyMember = Member<Box<dyn Line>>;

impl Transport {
    /// The name on command lines and in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
        }
    }

    /// The number in a hello.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Shm => 1,
            Self::Tcp => 2,
            Self::Unix => 3,
        }
    }

    /// Forms a group of processes of this machine. Over TCP they meet on the loopback interface, where rank 0 takes a free port and notes
    /// it in the forming's directory.
    ///
    /// # Errors
    /// As [`super::Mesh::form`].
    pub fn form(self, forming: &Forming) -> Result<AnyMember, GroupError> {
        let line: Box<dyn Line> = match self {
            Self::Shm => Box::new(SharedMemory::join(forming)?),
            Self::Tcp => Box::new(tcp_line(forming, &loopback(forming))?),
            Self::Unix => Box::new(unix_line(forming)?),
        };
        Ok(Member::of(forming, line))
    }
}

/// Forms a group of processes of any machines over TCP, from a stand of this rank that others were told of.
///
/// # Errors
/// As [`super::Mesh::form`].
pub fn form_apart(forming: &Forming, stand: TcpStand) -> Result<AnyMember, GroupError> {
    let line: Box<dyn Line> = Box::new(tcp_line_at(forming, stand)?);
    Ok(Member::of(forming, line))
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The place of a rank whose group lives on this machine.
fn loopback(forming: &Forming) -> TcpPlace {
    TcpPlace {
        leader: Leader::Noted(forming.dir.join(format!("{}.address", forming.name))),
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        advertise: None,
    }
}
