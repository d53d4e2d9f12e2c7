//! The guards of the loop by name, as a drawing shows them where two ranks decide differently.

use crate::conventional::fact::Fact;
use crate::conventional::rank::{ConventionalRank, Place};
use crate::conventional::request::{MetadataRow, Phase};
use crate::conventional::rules::{
    Admission, DrainEntry, Drained, Eviction, GiveUp, HandshakeEntry, Metadata, Receive, Retraction,
    RowCheck, RowOrder, Rules, Run, Sampling, Switch, TransferEntry, Word,
};
use crate::world::Action;

type Guard = (&'static str, String);

impl ConventionalRank {
    /// What the guards say by which this rank decides when `action` happens, to it or (not `concerned`) to another rank alone.
    pub(super) fn guards(&self, action: &Action<Fact>, concerned: bool) -> Vec<Guard> {
        match action {
            Action::Fact(_, fact) => self.guards_of_fact(*fact, concerned).into_iter().collect(),
            Action::Turn(_) if concerned => self.guards_of_turn(),
            Action::Take(_) if concerned => self.guards_of_completion(),
            Action::Retire(_) | Action::Take(_) | Action::Turn(_) => Vec::new(),
            Action::Complete => self.guards_of_completion(),
        }
    }

    /// A rank that gives a request up at once decides for itself, and the others have not.
    fn guards_of_fact(&self, fact: Fact, concerned: bool) -> Option<Guard> {
        let gives_up =
            |how: GiveUp, guard: &'static str| (how == GiveUp::AtOnce).then(|| (guard, yes(concerned)));
        match fact {
            Fact::RetriesExhausted => gives_up(self.rules().retries, "retries are used up here"),
            Fact::TimedOut(_) => gives_up(self.rules().clock, "the request's time is up here"),
            Fact::AbortHeard if self.rules().aborts == Word::AsHeard => {
                Some(("the abort was heard here", yes(concerned)))
            }
            Fact::Arrived
            | Fact::AbortHeard
            | Fact::PauseHeard
            | Fact::ResumeHeard
            | Fact::SwitchAsked
            | Fact::AddressResolved
            | Fact::HandshakeDone(_)
            | Fact::PageFreed
            | Fact::KvLanded(_)
            | Fact::RowLanded(..)
            | Fact::Fenced(_)
            | Fact::LogitsDiffer
            | Fact::Retired
            | Fact::HostFull
            | Fact::CopyDone(_)
            | Fact::ReleaseThrows => None,
        }
    }

    fn guards_of_turn(&self) -> Vec<Guard> {
        match self.place {
            Place::Requests => {
                let results = self.sampling_guard().into_iter().chain(self.eviction_guard());
                self.receive_guard().into_iter().chain(results).collect()
            }
            Place::HandshakePoll => {
                let passes = (!self.polls_handshakes()).then(|| self.page_guard()).flatten();
                self.retraction_guard().into_iter().chain(self.handshake_guard()).chain(passes).collect()
            }
            Place::TransferPoll => self.transfer_guard().into_iter().collect(),
            Place::CacheDrain => self.drain_guard().into_iter().collect(),
            Place::RunOrIdle => vec![self.run_guard()],
        }
    }

    fn guards_of_completion(&self) -> Vec<Guard> {
        match self.place {
            Place::Requests => self.pause_guard().into_iter().chain(self.switch_guard()).collect(),
            Place::RunOrIdle => Vec::new(),
            Place::CacheDrain => self.drained_guard().into_iter().collect(),
            Place::HandshakePoll => self.page_guard().into_iter().collect(),
            Place::TransferPoll => self.metadata_guard().into_iter().chain(self.row_guards()).collect(),
        }
    }

    fn receive_guard(&self) -> Option<Guard> {
        let guard = match self.rules().receive {
            Receive::Always => return None,
            Receive::UnlessBatchRan => "the last turn ran no forward",
            Receive::UnlessOwnRowsRan => "the last forward had no row of this rank",
        };
        Some((guard, yes(!self.deaf)))
    }

    fn pause_guard(&self) -> Option<Guard> {
        match self.rules().pause {
            Word::Unsaid | Word::Broadcast => None,
            Word::AsHeard => Some(("the pause was heard here", yes(self.heard.pause))),
        }
    }

    fn switch_guard(&self) -> Option<Guard> {
        match self.rules().switch {
            Switch::Unasked | Switch::Voted => None,
            Switch::OwnMemory => Some(("the memory here is free", yes(!self.page_late))),
        }
    }

    fn sampling_guard(&self) -> Option<Guard> {
        match self.rules().sampling {
            Sampling::OneToken | Sampling::Shared => None,
            Sampling::Own => Some(("the logits here are those of the others", yes(!self.drifted))),
        }
    }

    fn eviction_guard(&self) -> Option<Guard> {
        match self.rules().eviction {
            Eviction::Uncached | Eviction::LogicalClock => None,
            Eviction::WallClock => {
                let touched = format!("{:?}", self.cache.touched);
                Some(("what was touched first by the clock here", touched))
            }
        }
    }

    fn drained_guard(&self) -> Option<Guard> {
        match self.rules().drained {
            Drained::InOrderOfIssue => None,
            Drained::InOwnOrder => {
                Some(("the order in which copies were done here", format!("{:?}", self.cache.done)))
            }
        }
    }

    /// What is read of a metadata row once the polls are reduced.
    fn row_guards(&self) -> Vec<Guard> {
        let free_of = |bad: MetadataRow| {
            let mut queue = self.requests.iter().filter(|request| request.phase == Phase::Transferring);
            yes(queue.all(|request| request.row != bad))
        };
        let read = |check: RowCheck, guard: &'static str, bad: MetadataRow| {
            (check == RowCheck::AfterReduce).then(|| (guard, free_of(bad)))
        };
        let Rules { room, checksum, .. } = self.rules();
        let room = read(room, "the row here is of the request's room", MetadataRow::OtherRoom);
        let checksum = read(checksum, "the row here has the right checksum", MetadataRow::Corrupt);
        room.into_iter().chain(checksum).collect()
    }

    /// The page that the next token of a running request would take.
    fn retraction_guard(&self) -> Option<Guard> {
        match self.rules().retraction {
            Retraction::Never | Retraction::AgreedPages => None,
            Retraction::OwnPages => Some(("a page that was given back is free here", yes(!self.page_late))),
        }
    }

    fn drain_guard(&self) -> Option<Guard> {
        let guard = match self.rules().drain {
            DrainEntry::Absent | DrainEntry::Always => return None,
            DrainEntry::UnlessOwnEmpty => "a host copy of this rank is in flight",
            DrainEntry::WhenOwnEventFired => "the event of the oldest host copy has fired here",
        };
        Some((guard, yes(self.drains())))
    }

    fn handshake_guard(&self) -> Option<Guard> {
        let guard = match self.rules().handshake {
            HandshakeEntry::Always => return None,
            HandshakeEntry::UnlessOwnShaken => "a receiver here is not WaitingForInput yet",
            HandshakeEntry::UnlessReducedShaken => "a reduced poll was not WaitingForInput yet",
        };
        Some((guard, yes(self.polls_handshakes())))
    }

    fn transfer_guard(&self) -> Option<Guard> {
        match self.rules().transfer {
            TransferEntry::Always => None,
            TransferEntry::UnlessEmpty => {
                Some(("the transfer queue here is not empty", yes(self.polls_transfers())))
            }
        }
    }

    fn run_guard(&self) -> Guard {
        let guard = match self.rules().run {
            Run::ReducedLanded => "requests that the reduced poll has landed",
            Run::OwnLanded => "requests that have landed here",
            Run::LeaderBit => "requests of the batch that the leader announced",
        };
        match self.rules().order {
            RowOrder::Uncompared | RowOrder::ByArrival => (guard, self.batch().len().to_string()),
            RowOrder::ByHash => ("the rows in the order of the hash set here", format!("{:?}", self.batch())),
        }
    }

    fn page_guard(&self) -> Option<Guard> {
        match self.rules().admission {
            Admission::AgreedPages => None,
            Admission::OwnPages => Some(("an earlier request's page is back here", yes(!self.page_late))),
        }
    }

    fn metadata_guard(&self) -> Option<Guard> {
        let mut queue = self.requests.iter().filter(|request| request.phase == Phase::Transferring);
        match self.rules().metadata {
            Metadata::WithKv | Metadata::BeforeReduce => None,
            Metadata::AfterReduce => Some((
                "every metadata row is here",
                yes(queue.all(|request| request.row != MetadataRow::Missing)),
            )),
        }
    }
}

fn yes(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_string()
}
