//! The two polls of a conventional rank: when it enters them, what it brings, and what it makes of what was reduced.

use crate::conventional::rank::{ConventionalRank, Effects, Place};
use crate::conventional::request::{MetadataRow, Phase, Request};
use crate::conventional::rules::{
    DrainEntry, HandshakeEntry, Metadata, Payload, Retraction, RowCheck, Rules, Switch, TransferEntry,
};
use crate::conventional::site::Site;
use lockstep_spec::agreed::Words;
use lockstep_spec::poll::KvPoll;
use lockstep_spec::program::Effect;

impl ConventionalRank {
    /// Retracts and resumes; goes past both polls while a request is retracted.
    pub(super) fn turn_handshakes(&mut self, effects: &mut Effects) {
        if self.rules().retraction != Retraction::Never && self.retract() {
            return self.pass_transfers();
        }
        if !self.polls_handshakes() {
            return self.pass_handshakes();
        }
        let mut words = self.words(shakes, |_, request| request.handshake_poll());
        if self.rules().switch == Switch::Voted {
            words.push(u64::from(!self.page_late));
        }
        effects.push(Effect::Enter(Site::HandshakePoll.post(words)));
    }

    pub(super) fn turn_transfers(&mut self, effects: &mut Effects) {
        if !self.polls_transfers() {
            return self.pass_transfers();
        }
        let words = self.words(transfers, transfer_poll);
        effects.push(Effect::Enter(Site::TransferPoll.post(words)));
    }

    pub(super) fn polls_handshakes(&self) -> bool {
        let mut queue = self.requests.iter().filter(|request| shakes(request));
        match self.rules().handshake {
            HandshakeEntry::Always => true,
            HandshakeEntry::UnlessOwnShaken => {
                queue.any(|request| request.handshake_poll() != KvPoll::WaitingForInput)
            }
            HandshakeEntry::UnlessReducedShaken => queue.any(|request| request.phase != Phase::Handshaken),
        }
    }

    pub(super) fn polls_transfers(&self) -> bool {
        match self.rules().transfer {
            TransferEntry::Always => true,
            TransferEntry::UnlessEmpty => self.requests.iter().any(transfers),
        }
    }

    /// This rank's payload of a poll over `queue`.
    fn words(&self, queue: fn(&Request) -> bool, poll: fn(Rules, &Request) -> KvPoll) -> Words {
        let rules = self.rules();
        let polled = self.polled(queue).into_iter();
        polled.map(|index| poll(rules, &self.requests[index]).code()).collect()
    }

    /// The requests that the words of a poll over `queue` stand for.
    fn polled(&self, queue: fn(&Request) -> bool) -> Vec<usize> {
        match self.rules().payload {
            Payload::Fixed => self.queued(|_| true),
            Payload::AsQueue => self.queued(queue),
        }
    }

    /// The reduced polls of the requests in `queue`.
    fn reduced(&self, queue: fn(&Request) -> bool, words: &[u64]) -> Vec<(usize, KvPoll)> {
        let polls = words.iter().copied().map(KvPoll::from_code);
        let polled = self.polled(queue).into_iter().zip(polls);
        polled.filter(|(index, _)| queue(&self.requests[*index])).collect()
    }

    pub(super) fn take_handshakes(&mut self, words: &[u64]) {
        for (index, poll) in self.reduced(shakes, words) {
            if poll.failure().is_some() {
                self.end(index, Phase::Dropped);
            } else if poll == KvPoll::WaitingForInput {
                self.requests[index].phase = Phase::Handshaken;
            }
        }
        let accepted = core::mem::take(&mut self.switch_said) && words.last() == Some(&1);
        self.switched |= accepted;
        self.admit();
    }

    /// Goes on without the poll: by the guard, whoever is in the queue is `WaitingForInput`.
    fn pass_handshakes(&mut self) {
        for index in self.queued(shakes) {
            self.requests[index].phase = Phase::Handshaken;
        }
        self.admit();
    }

    pub(super) fn take_transfers(&mut self, words: &[u64]) {
        for (index, poll) in self.reduced(transfers, words) {
            if poll.failure().is_some() {
                self.end(index, Phase::Dropped);
            } else if poll == KvPoll::Success {
                self.take_landed(index);
            }
        }
        self.pass_transfers();
    }

    /// What the rank does with a request whose reduced poll says success, and what it still looks at by itself.
    fn take_landed(&mut self, index: usize) {
        let Rules { metadata, room, checksum, .. } = self.rules();
        let Request { phase, row, .. } = self.requests[index];
        let wrong = (row == MetadataRow::OtherRoom && room == RowCheck::AfterReduce)
            || (row == MetadataRow::Corrupt && checksum == RowCheck::AfterReduce);
        let row_missing = metadata == Metadata::AfterReduce && row == MetadataRow::Missing;
        if phase == Phase::Fencing || wrong {
            self.end(index, Phase::Dropped);
        } else if !row_missing {
            self.requests[index].land();
            self.touch_landed(index);
        }
    }

    fn pass_transfers(&mut self) {
        let copies = self.rules().drain != DrainEntry::Absent;
        self.place = if copies { Place::CacheDrain } else { Place::RunOrIdle };
    }
}

fn shakes(request: &Request) -> bool {
    request.phase.shakes()
}

fn transfers(request: &Request) -> bool {
    request.phase.transfers()
}

/// A rank's element of the transfer poll.
fn transfer_poll(rules: Rules, request: &Request) -> KvPoll {
    match request.phase {
        Phase::Transferring => spoiled(rules, request).unwrap_or_else(|| receiving(!landed(rules, request))),
        Phase::Fencing => receiving(request.writing),
        Phase::Absent
        | Phase::Handshaking
        | Phase::Handshaken
        | Phase::Landed
        | Phase::Running
        | Phase::Retracted
        | Phase::Copying
        | Phase::Cached
        | Phase::Done
        | Phase::Dropped => KvPoll::Success,
    }
}

fn receiving(open: bool) -> KvPoll {
    if open { KvPoll::Transferring } else { KvPoll::Success }
}

/// The failure that a rank votes for, if it sees one.
fn spoiled(rules: Rules, request: &Request) -> Option<KvPoll> {
    if request.failed {
        return Some(KvPoll::DeadlinePassed);
    }
    match request.row {
        MetadataRow::OtherRoom if rules.room == RowCheck::InPoll => Some(KvPoll::WrongLeg),
        MetadataRow::Corrupt if rules.checksum == RowCheck::InPoll => Some(KvPoll::Corrupt),
        MetadataRow::Missing | MetadataRow::Sound | MetadataRow::OtherRoom | MetadataRow::Corrupt => None,
    }
}

/// What a rank's element of the transfer poll waits for.
fn landed(rules: Rules, request: &Request) -> bool {
    match rules.metadata {
        Metadata::WithKv | Metadata::BeforeReduce => request.whole(),
        Metadata::AfterReduce => request.kv,
    }
}
