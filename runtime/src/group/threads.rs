//! A group whose ranks are threads of one process: for tests, and for engines that live together.
//!
//! A rank delivers straight into its peers' mailboxes. All else is the same code as between
//! processes, down to the frames, so that both keep the same rules.

use std::sync::Arc;
use std::time::Instant;

use super::error::GroupError;
use super::frame::{HEADER_BYTES, Header};
use super::heard::{End, Entry};
use super::line::{Mailed, Wire};
use super::mailbox::{Mailbox, Undelivered};
use super::member::Member;

/// One rank of a group of threads.
pub type Threads = Member<Mailed<Neighbours>>;

/// The mailboxes of all ranks, as one rank's wire.
#[derive(Debug)]
pub struct Neighbours {
    rank: usize,
    mailboxes: Vec<Arc<Mailbox>>,
    open: bool,
}

impl Threads {
    /// All ranks of a group of `size` threads, by rank; `payload_limit` bytes bound each payload.
    pub fn form(size: usize, payload_limit: usize) -> Vec<Self> {
        let mailboxes: Vec<_> = (0..size).map(|rank| Arc::new(Mailbox::new(rank, size))).collect();
        let join = |rank: usize| {
            let wire = Neighbours { rank, mailboxes: mailboxes.clone(), open: true };
            Self::new(rank, size, payload_limit, Mailed::new(rank, size, wire, Arc::clone(&mailboxes[rank])))
        };
        (0..size).map(join).collect()
    }
}

impl Neighbours {
    fn deliver(&self, peer: usize, frame: &[u8], deadline: Instant) -> Result<(), Undelivered> {
        let mailbox = &self.mailboxes[peer];
        let decoded = frame
            .split_first_chunk::<HEADER_BYTES>()
            .and_then(|(header, payload)| Some((Header::decode(header)?, payload)));
        match decoded {
            Some((Header::Entry { operation, tag, .. }, bytes)) => {
                let mut payload = mailbox.spare(self.rank);
                payload.extend_from_slice(bytes);
                mailbox.deliver(self.rank, Entry { operation, tag, payload }, Some(deadline))?;
            }
            Some((Header::Poison { culprit, last }, _)) => {
                let culprit = usize::try_from(culprit).unwrap_or(usize::MAX);
                mailbox.end(self.rank, End::Poison { culprit, last });
            }
            None => mailbox.end(self.rank, End::Failed(GroupError::Malformed { rank: self.rank })),
        }
        Ok(())
    }
}

impl Wire for Neighbours {
    fn send(&mut self, rank: usize, frame: &[u8], deadline: Instant) -> bool {
        self.deliver(rank, frame, deadline) != Err(Undelivered::Full)
    }

    fn close(&mut self) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        for (peer, mailbox) in self.mailboxes.iter().enumerate() {
            if peer == self.rank {
                mailbox.close();
            } else {
                mailbox.end(self.rank, End::Closed);
            }
        }
    }
}
