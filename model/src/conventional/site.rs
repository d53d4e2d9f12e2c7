//! Where the ranks of a conventional group meet.

use lockstep_spec::agreed::Words;
use lockstep_spec::ids::{Epoch, Round};
use lockstep_spec::program::Posted;
use lockstep_spec::ticket::{Communicator, Kind, SiteName, Ticket};

/// A collective of the loop, in the order of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// Broadcast of what reached rank 0.
    Requests,
    /// MIN over the receivers of the handshake queue.
    HandshakePoll,
    /// MIN over the receivers of the transfer queue.
    TransferPoll,
    /// MIN over the counts of host copies that are done.
    CacheDrain,
    /// One forward pass.
    Forward,
}

impl SiteName for Site {
    fn communicator(self) -> Communicator {
        match self {
            Self::Requests | Self::HandshakePoll | Self::TransferPoll | Self::CacheDrain => {
                Communicator::Control
            }
            Self::Forward => Communicator::Device,
        }
    }
}

impl Site {
    fn kind(self) -> Kind {
        match self {
            Self::Requests => Kind::Broadcast,
            Self::HandshakePoll | Self::TransferPoll | Self::CacheDrain => Kind::MinReduce,
            Self::Forward => Kind::Forward,
        }
    }

    /// An entry on the control communicator. Engines number neither lives nor turns, so neither does the ticket.
    #[must_use]
    pub fn post(self, payload: Words) -> Posted<Self> {
        Posted { ticket: self.ticket(payload.len() as u64), payload }
    }

    /// An entry of a forward with so many rows.
    #[must_use]
    pub fn launch(rows: usize) -> Posted<Self> {
        Posted { ticket: Self::Forward.ticket(rows as u64), payload: Words::new() }
    }

    fn ticket(self, shape: u64) -> Ticket<Self> {
        Ticket { epoch: Epoch(0), round: Round(0), site: self, kind: self.kind(), shape }
    }
}
