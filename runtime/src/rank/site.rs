//! Where a rank stands: with all others on one machine, or on whichever.

use std::net::{IpAddr, Ipv4Addr, TcpListener};

use super::error::RankError;
use crate::group::{AnyMember, Forming, GroupError, TcpStand, Transport, form_apart};
use crate::launch::Stand;

/// One of the two that a group forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Communicator {
    /// For the rank loops.
    Control,
    /// For the engines.
    Device,
}

impl Communicator {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Device => "device",
        }
    }
}

/// Where a rank and its peers are.
#[derive(Debug)]
pub(super) enum Site {
    /// This rank stands here; its peers may be anywhere.
    Apart(Stand),
    /// All are on one machine, and meet in a directory.
    OneMachine,
}

impl Site {
    /// Forms a communicator of the group.
    pub(super) fn form(
        &self,
        communicator: Communicator,
        transport: Transport,
        forming: &Forming,
    ) -> Result<AnyMember, RankError> {
        let formed = match self {
            Self::Apart(stand) => form_apart(forming, stand_of(stand, communicator)?),
            Self::OneMachine => transport.form(forming),
        };
        Ok(formed?)
    }

    /// Whether the last lines of a rank that left in order are kept as well: not where they would take the place of what a loss left.
    pub(super) fn keeps_all(&self) -> bool {
        matches!(self, Self::OneMachine)
    }

    /// The address to listen on for the other group.
    pub(super) fn bind(&self) -> IpAddr {
        match self {
            Self::Apart(stand) => stand.bind,
            Self::OneMachine => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// The address at which the other group finds this rank.
    pub(super) fn address(&self) -> IpAddr {
        match self {
            Self::Apart(stand) => stand.address,
            Self::OneMachine => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

fn stand_of(stand: &Stand, communicator: Communicator) -> Result<TcpStand, GroupError> {
    let (listener, leader): (&TcpListener, _) = match communicator {
        Communicator::Control => (&stand.control, stand.meeting.control),
        Communicator::Device => (&stand.device, stand.meeting.device),
    };
    TcpStand::of(listener, leader, stand.address)
}
