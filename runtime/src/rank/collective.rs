//! The one way from an entry of spec to the group's transport.

use std::time::Duration;

use crate::group::{Collectives, GroupError, Tag};
use lockstep_spec::agreed::{Entry, Words};
use lockstep_spec::ticket::{Kind, Ticket};

/// Enters a collective between the hosts, and waits for what comes out of it. Nothing comes out of one that is the devices' matter.
pub(super) fn meet(
    control: &mut impl Collectives,
    entry: &Entry,
    deadline: Duration,
) -> Result<Option<Words>, GroupError> {
    let ticket = entry.ticket();
    match ticket.kind {
        Kind::MinReduce => {
            let mut words = entry.payload().to_vec();
            control.all_reduce_min(tag(ticket), &mut words, deadline)?;
            Ok(Some(words))
        }
        Kind::Broadcast => {
            let bytes: Vec<u8> = entry.payload().iter().flat_map(|word| word.to_le_bytes()).collect();
            let mine = (control.rank() == 0).then_some(bytes.as_slice());
            let longest = usize::try_from(ticket.shape).unwrap_or(usize::MAX).saturating_mul(8);
            let received = control.broadcast(tag(ticket), 0, mine, longest, deadline)?;
            Ok(Some(received.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()))
        }
        Kind::Forward | Kind::Connect => Ok(None),
    }
}

/// A ticket as the transports carry it.
pub(super) fn tag(ticket: &Ticket) -> Tag {
    Tag {
        epoch: ticket.epoch.0,
        round: ticket.round.0,
        site: ticket.site.code(),
        kind: ticket.kind.code(),
        shape: ticket.shape,
    }
}
