//! The variants: which rows of the rules each one changes, and what surrounds it.

use crate::conventional::rules::{
    Admission, Ahead, DrainEntry, Drained, Eviction, Fence, GiveUp, HandshakeEntry, Metadata, Payload,
    Receive, Release, Retraction, RowCheck, RowOrder, Rules, Run, SOUND, Sampling, Switch, TransferEntry,
    Word,
};

/// A variant of the design: the sound base, a feature with its sound rules, or one rule of a real engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Unconditional polls of one fixed shape; admission, landing and dropping by what was reduced.
    Base,
    /// Aborts ride in the request broadcast.
    AbortBroadcast,
    /// Aborts ride in the request broadcast, and the pages of their transfers wait for a fence.
    AbortFenced,
    /// Each rank acts on an abort when it hears of it.
    AbortSplit,
    /// The leader broadcasts that there is a batch, and everyone runs.
    BroadcastHaveBatch,
    /// The copies that an agreed count stands for are taken in the rank's own order.
    CacheDrainCompletionOrder,
    /// Host copies are reduced unless the rank's own map is empty.
    CacheDrainConditional,
    /// Host copies are reduced in every turn.
    CacheDrainUnconditional,
    /// A row whose checksum is wrong drops the request on that rank.
    ChecksumAfterReduce,
    /// Host copies are reduced once the rank's own device event has fired.
    DeviceEventCollective,
    /// The handshake poll is skipped by the rank's own polls.
    HandshakeSkipLocal,
    /// The handshake poll is skipped by the reduced polls.
    HandshakeSkipReduced,
    /// Requests are launched ahead, and their pages wait for that forward.
    LaunchAhead,
    /// Admission by the rank's own free pages.
    LocalAdmission,
    /// A waiting request is dropped by the rank's own clock.
    LocalClockTimeout,
    /// The request broadcast is skipped by the rank's own forward mode.
    LocalRecvSkip,
    /// A request is dropped after the rank's own retries.
    LocalRetryExhaustion,
    /// Run or idle by the rank's own landed requests.
    LocalRunOrIdle,
    /// Each rank samples for itself.
    LocalSampling,
    /// The prefix cache evicts by a clock of agreed landings.
    LruLogicalClock,
    /// The prefix cache evicts by the rank's own clock.
    LruWallClock,
    /// The metadata row is looked for after the transfer poll.
    MetadataAfterReduce,
    /// The metadata row is part of the transfer poll.
    MetadataBeforeReduce,
    /// Requests are launched ahead, and their pages go back when they finish.
    OverlapEarlyFree,
    /// The pages of an aborted transfer go back at once.
    PageReuseInFlight,
    /// A pause rides in the request broadcast.
    PauseBroadcast,
    /// Each rank pauses when it hears of it.
    PauseSplit,
    /// The request broadcast is skipped by the whole batch's forward mode.
    RecvSkipAgreed,
    /// What throws while a page is given back is done again.
    ReleaseRetried,
    /// Both polls are skipped while a request is retracted; retraction is agreed.
    RetractedSkipAgreed,
    /// Both polls are skipped while a request is retracted; retraction is by the rank's own free pages.
    RetractedSkipLocal,
    /// A switch of role is voted on.
    RoleSwitchVoted,
    /// A switch of role is accepted by each rank's own free memory.
    RoleSwitchLocal,
    /// A row of another room drops the request on that rank.
    RoomMismatchAfterReduce,
    /// Rows of a forward are ordered by arrival, and compared.
    RowOrderByArrival,
    /// Rows of a forward are ordered by the rank's own hash set.
    RowOrderLocal,
    /// Room and checksum are part of the transfer poll.
    RowsCheckedInPoll,
    /// The handshake poll is skipped by the rank's own polls, and the next poll looks the same on the wire.
    SameShapeCrossMatch,
    /// Outputs of two tokens, which the forward makes the same on all ranks.
    SamplingShared,
    /// What throws while a page is given back is swallowed.
    SwallowedRelease,
    /// An empty transfer queue is not polled; admission is agreed.
    TransferSkipAgreedQueue,
    /// An empty transfer queue is not polled; admission is by the rank's own free pages.
    TransferSkipLocalQueue,
}

// Features with their sound rules: what the variants below them change by one row each.
const SKIPS_SHAKEN: Rules = Rules { payload: Payload::AsQueue, ..SOUND };
const SKIPS_EMPTY: Rules = Rules { transfer: TransferEntry::UnlessEmpty, payload: Payload::AsQueue, ..SOUND };
const ABORTS: Rules = Rules { aborts: Word::Broadcast, ..SOUND };
const FENCED: Rules = Rules { fence: Fence::Waits, ..ABORTS };
const COPIES: Rules = Rules { drain: DrainEntry::Always, ..SOUND };
const CHECKED: Rules =
    Rules { metadata: Metadata::BeforeReduce, room: RowCheck::InPoll, checksum: RowCheck::InPoll, ..SOUND };
const TWO_TOKENS: Rules = Rules { sampling: Sampling::Shared, ..SOUND };
const RETRACTS: Rules = Rules { retraction: Retraction::AgreedPages, ..TWO_TOKENS };

impl Variant {
    /// The rules of this variant.
    #[must_use]
    pub fn rules(self) -> Rules {
        match self {
            Self::Base => SOUND,
            Self::AbortBroadcast => ABORTS,
            Self::AbortFenced => FENCED,
            Self::AbortSplit => Rules { aborts: Word::AsHeard, ..SOUND },
            Self::BroadcastHaveBatch => Rules { run: Run::LeaderBit, ..SOUND },
            Self::CacheDrainCompletionOrder => Rules { drained: Drained::InOwnOrder, ..COPIES },
            Self::CacheDrainConditional => Rules { drain: DrainEntry::UnlessOwnEmpty, ..COPIES },
            Self::CacheDrainUnconditional => COPIES,
            Self::ChecksumAfterReduce => Rules { checksum: RowCheck::AfterReduce, ..CHECKED },
            Self::DeviceEventCollective => Rules { drain: DrainEntry::WhenOwnEventFired, ..COPIES },
            Self::HandshakeSkipLocal => Rules { handshake: HandshakeEntry::UnlessOwnShaken, ..SKIPS_SHAKEN },
            Self::HandshakeSkipReduced => {
                Rules { handshake: HandshakeEntry::UnlessReducedShaken, ..SKIPS_SHAKEN }
            }
            Self::LaunchAhead => Rules { ahead: Ahead::KeepsPages, ..SOUND },
            Self::LocalAdmission => Rules { admission: Admission::OwnPages, ..SOUND },
            Self::LocalClockTimeout => Rules { clock: GiveUp::AtOnce, ..SOUND },
            Self::LocalRecvSkip => Rules { receive: Receive::UnlessOwnRowsRan, ..SOUND },
            Self::LocalRetryExhaustion => Rules { retries: GiveUp::AtOnce, ..SOUND },
            Self::LocalRunOrIdle => Rules { run: Run::OwnLanded, ..SOUND },
            Self::LocalSampling => Rules { sampling: Sampling::Own, ..SOUND },
            Self::LruLogicalClock => Rules { eviction: Eviction::LogicalClock, ..SOUND },
            Self::LruWallClock => Rules { eviction: Eviction::WallClock, ..SOUND },
            Self::MetadataAfterReduce => Rules { metadata: Metadata::AfterReduce, ..SOUND },
            Self::MetadataBeforeReduce => Rules { metadata: Metadata::BeforeReduce, ..SOUND },
            Self::OverlapEarlyFree => Rules { ahead: Ahead::FreesAtFinish, ..SOUND },
            Self::PageReuseInFlight => Rules { fence: Fence::AtOnce, ..ABORTS },
            Self::PauseBroadcast => Rules { pause: Word::Broadcast, ..SOUND },
            Self::PauseSplit => Rules { pause: Word::AsHeard, ..SOUND },
            Self::RecvSkipAgreed => Rules { receive: Receive::UnlessBatchRan, ..SOUND },
            Self::ReleaseRetried => Rules { release: Release::Retried, ..SOUND },
            Self::RetractedSkipAgreed => RETRACTS,
            Self::RetractedSkipLocal => Rules { retraction: Retraction::OwnPages, ..RETRACTS },
            Self::RoleSwitchVoted => Rules { switch: Switch::Voted, ..SOUND },
            Self::RoleSwitchLocal => Rules { switch: Switch::OwnMemory, ..SOUND },
            Self::RoomMismatchAfterReduce => Rules { room: RowCheck::AfterReduce, ..CHECKED },
            Self::RowOrderByArrival => Rules { order: RowOrder::ByArrival, ..SOUND },
            Self::RowOrderLocal => Rules { order: RowOrder::ByHash, ..SOUND },
            Self::RowsCheckedInPoll => CHECKED,
            Self::SameShapeCrossMatch => Rules { handshake: HandshakeEntry::UnlessOwnShaken, ..SOUND },
            Self::SamplingShared => TWO_TOKENS,
            Self::SwallowedRelease => Rules { release: Release::Swallowed, ..SOUND },
            Self::TransferSkipAgreedQueue => SKIPS_EMPTY,
            Self::TransferSkipLocalQueue => Rules { admission: Admission::OwnPages, ..SKIPS_EMPTY },
        }
    }

    /// Whether receivers may fail. The base and what is compared with it hold whatever breaks; beside a feature, failures would only
    /// repeat what is shown without it.
    #[must_use]
    pub fn receivers_fail(self) -> bool {
        matches!(
            self,
            Self::Base
                | Self::HandshakeSkipReduced
                | Self::LocalClockTimeout
                | Self::LocalRetryExhaustion
                | Self::MetadataBeforeReduce
                | Self::TransferSkipAgreedQueue
        )
    }

    /// Pages of the pool. With one less than there are requests, a request may be `waiting_for_input` for more than one turn: then
    /// alone does skipping its poll mean anything. Where requests need a second page, there is one for one of them.
    #[must_use]
    pub fn pages(self, requests: usize) -> usize {
        let rules = self.rules();
        match rules.handshake {
            HandshakeEntry::Always => requests + usize::from(rules.retraction != Retraction::Never),
            HandshakeEntry::UnlessOwnShaken | HandshakeEntry::UnlessReducedShaken => {
                requests.saturating_sub(1).max(1)
            }
        }
    }
}
