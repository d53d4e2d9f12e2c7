//! The rules of the loop as a table: the sound ones once, and for each variant the rows that it changes.

/// A variant of the design: the sound base, or one rule of a real engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Unconditional polls of one fixed shape; admission, landing and dropping by what was reduced.
    Base,
    /// The leader broadcasts that there is a batch, and everyone runs.
    BroadcastHaveBatch,
    /// The handshake poll is skipped by the rank's own polls.
    HandshakeSkipLocal,
    /// The handshake poll is skipped by the reduced polls.
    HandshakeSkipReduced,
    /// Admission by the rank's own free pages.
    LocalAdmission,
    /// A waiting request is dropped by the rank's own clock.
    LocalClockTimeout,
    /// A request is dropped after the rank's own retries.
    LocalRetryExhaustion,
    /// Run or idle by the rank's own landed requests.
    LocalRunOrIdle,
    /// The metadata row is looked for after the transfer poll.
    MetadataAfterReduce,
    /// The metadata row is part of the transfer poll.
    MetadataBeforeReduce,
    /// The handshake poll is skipped by the rank's own polls, and the next poll looks the same on the wire.
    SameShapeCrossMatch,
    /// An empty transfer queue is not polled; admission is agreed.
    TransferSkipAgreedQueue,
    /// An empty transfer queue is not polled; admission is by the rank's own free pages.
    TransferSkipLocalQueue,
}

/// When the handshake poll is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeEntry {
    /// Always.
    Always,
    /// Unless this rank's receivers all are `WaitingForInput`.
    UnlessOwnShaken,
    /// Unless the reduced polls have marked all requests of the queue.
    UnlessReducedShaken,
}

/// When the transfer poll is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferEntry {
    /// Always.
    Always,
    /// Unless this rank's transfer queue is empty.
    UnlessEmpty,
}

/// How long the payload of a poll is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// One word for each request there may be; those that are not in the queue are neutral.
    Fixed,
    /// One word for each request in this rank's queue.
    AsQueue,
}

/// Which free pages count when a request is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Those that the agreed phases leave.
    AgreedPages,
    /// Those that this rank's allocator has back by now.
    OwnPages,
}

/// How a request's metadata row is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// It lands with the KV, in one write.
    WithKv,
    /// It lands apart, and this rank's element of the poll waits for it.
    BeforeReduce,
    /// It lands apart, and this rank looks for it once the reduced poll says that the KV is there.
    AfterReduce,
}

/// What decides between run and idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The requests that the reduced poll has landed.
    ReducedLanded,
    /// The requests that have landed on this rank.
    OwnLanded,
    /// A bit from the leader.
    LeaderBit,
}

/// What a rank does that gives a request up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// Its receiver fails, and the next poll tells the others.
    ThroughPoll,
    /// It drops the request.
    AtOnce,
}

/// The rules of one variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// When the handshake poll is entered.
    pub handshake: HandshakeEntry,
    /// When the transfer poll is entered.
    pub transfer: TransferEntry,
    /// How long their payload is.
    pub payload: Payload,
    /// Which free pages count.
    pub admission: Admission,
    /// How the metadata row is waited for.
    pub metadata: Metadata,
    /// What decides between run and idle.
    pub run: Run,
    /// What happens when the retries for the prefill address are used up.
    pub retries: GiveUp,
    /// What happens when a waiting request's time is up.
    pub clock: GiveUp,
}

const SOUND: Rules = Rules {
    handshake: HandshakeEntry::Always,
    transfer: TransferEntry::Always,
    payload: Payload::Fixed,
    admission: Admission::AgreedPages,
    metadata: Metadata::WithKv,
    run: Run::ReducedLanded,
    retries: GiveUp::ThroughPoll,
    clock: GiveUp::ThroughPoll,
};

const SKIPS_SHAKEN: Rules = Rules { payload: Payload::AsQueue, ..SOUND };
const SKIPS_EMPTY: Rules = Rules { transfer: TransferEntry::UnlessEmpty, payload: Payload::AsQueue, ..SOUND };

impl Variant {
    /// The rules of this variant.
    #[must_use]
    pub fn rules(self) -> Rules {
        match self {
            Self::Base => SOUND,
            Self::BroadcastHaveBatch => Rules { run: Run::LeaderBit, ..SOUND },
            Self::HandshakeSkipLocal => Rules { handshake: HandshakeEntry::UnlessOwnShaken, ..SKIPS_SHAKEN },
            Self::HandshakeSkipReduced => {
                Rules { handshake: HandshakeEntry::UnlessReducedShaken, ..SKIPS_SHAKEN }
            }
            Self::LocalAdmission => Rules { admission: Admission::OwnPages, ..SOUND },
            Self::LocalClockTimeout => Rules { clock: GiveUp::AtOnce, ..SOUND },
            Self::LocalRetryExhaustion => Rules { retries: GiveUp::AtOnce, ..SOUND },
            Self::LocalRunOrIdle => Rules { run: Run::OwnLanded, ..SOUND },
            Self::MetadataAfterReduce => Rules { metadata: Metadata::AfterReduce, ..SOUND },
            Self::MetadataBeforeReduce => Rules { metadata: Metadata::BeforeReduce, ..SOUND },
            Self::SameShapeCrossMatch => Rules { handshake: HandshakeEntry::UnlessOwnShaken, ..SOUND },
            Self::TransferSkipAgreedQueue => SKIPS_EMPTY,
            Self::TransferSkipLocalQueue => Rules { admission: Admission::OwnPages, ..SKIPS_EMPTY },
        }
    }

    /// Whether receivers may fail. A rule that fails does so with nothing broken, one that holds does so whatever breaks.
    #[must_use]
    pub fn receivers_fail(self) -> bool {
        match self {
            Self::Base
            | Self::HandshakeSkipReduced
            | Self::LocalClockTimeout
            | Self::LocalRetryExhaustion
            | Self::MetadataBeforeReduce
            | Self::TransferSkipAgreedQueue => true,
            Self::BroadcastHaveBatch
            | Self::HandshakeSkipLocal
            | Self::LocalAdmission
            | Self::LocalRunOrIdle
            | Self::MetadataAfterReduce
            | Self::SameShapeCrossMatch
            | Self::TransferSkipLocalQueue => false,
        }
    }

    /// Pages of the pool. With one less than there are requests, a request may be `waiting_for_input` for more than one turn: then
    /// alone does skipping its poll mean anything.
    #[must_use]
    pub fn pages(self, requests: usize) -> usize {
        match self.rules().handshake {
            HandshakeEntry::Always => requests,
            HandshakeEntry::UnlessOwnShaken | HandshakeEntry::UnlessReducedShaken => {
                requests.saturating_sub(1).max(1)
            }
        }
    }
}
