//! The rules of the loop as a table with a row for each place where a rank could look at what it alone knows. [`SOUND`] is the base; a
//! row whose first choice says that something is absent is a feature that only some variants have.

/// When the request broadcast is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// Always.
    Always,
    /// Not in the turn after a forward.
    UnlessBatchRan,
    /// Not in the turn after a forward with a row of this rank: the mode that data-parallel attention gives it.
    UnlessOwnRowsRan,
}

/// How a word of the front end takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It is never said.
    Unsaid,
    /// Rank 0 hears it, and the request broadcast tells the others.
    Broadcast,
    /// Each rank hears it, and acts at once.
    AsHeard,
}

/// Who decides whether the group takes the other role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Nobody asks.
    Unasked,
    /// All: each rank's free memory is an element of the handshake poll.
    Voted,
    /// Each rank, by its own free memory.
    OwnMemory,
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

/// Which free pages count when a request needs one more. Neither poll is entered while a request is retracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retraction {
    /// No request needs a second page.
    Never,
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

/// Where a part of the metadata row is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCheck {
    /// Nowhere: it is always right.
    Unneeded,
    /// In this rank's element of the transfer poll.
    InPoll,
    /// On this rank, once the reduced poll says success; a request whose row is wrong is dropped.
    AfterReduce,
}

/// When the page of a transfer that was given up goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// At once; nothing is written after the end.
    Unneeded,
    /// Once no rank's page can be written any more.
    Waits,
    /// At once, whatever may still be written.
    AtOnce,
}

/// When the reduction of the host copies that are done is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainEntry {
    /// There are no host copies.
    Absent,
    /// Always.
    Always,
    /// Unless this rank has no copy in flight.
    UnlessOwnEmpty,
    /// When the event of this rank's oldest copy has fired.
    WhenOwnEventFired,
}

/// Which host copies an agreed count stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// The first in the order in which they were asked for.
    InOrderOfIssue,
    /// The first in the order in which this rank's were done.
    InOwnOrder,
}

/// Which finished request leaves the prefix cache, which has room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// There is no prefix cache.
    Uncached,
    /// The one that was touched least lately by a clock that counts agreed landings.
    LogicalClock,
    /// The one that was touched least lately by this rank's clock.
    WallClock,
}

/// What happens when giving a page back throws on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It never throws.
    Certain,
    /// It is done again.
    Retried,
    /// The exception is swallowed.
    Swallowed,
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

/// In which order the rows of a forward are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// By arrival; the last forward's rows are not compared.
    Uncompared,
    /// By arrival.
    ByArrival,
    /// As this rank's hash set of running requests is iterated.
    ByHash,
}

/// How many tokens an output has, and who samples them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// One.
    OneToken,
    /// Two; the forward makes what is sampled the same on all ranks.
    Shared,
    /// Two, or one if it ends the output; each rank samples from its own logits.
    Own,
}

/// Whether, under overlap, a request whose result is not read is launched once more, and when its pages go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// It is not.
    Never,
    /// It is, and its pages go back once the result of that forward is read.
    KeepsPages,
    /// It is, and its pages go back when it finishes.
    FreesAtFinish,
}

/// What a rank does that gives a request up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// Its receiver fails, and the next poll tells the others.
    ThroughPoll,
    /// It drops the request.
    AtOnce,
}

/// The rules of one variant, in the order of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// When the request broadcast is entered.
    pub receive: Receive,
    /// How an abort of all requests takes effect.
    pub aborts: Word,
    /// How a pause takes effect.
    pub pause: Word,
    /// Who decides a switch of role.
    pub switch: Switch,
    /// When the handshake poll is entered.
    pub handshake: HandshakeEntry,
    /// When the transfer poll is entered.
    pub transfer: TransferEntry,
    /// How long their payload is.
    pub payload: Payload,
    /// Which free pages count for admission.
    pub admission: Admission,
    /// Which free pages count for growth.
    pub retraction: Retraction,
    /// How the metadata row is waited for.
    pub metadata: Metadata,
    /// Where its room is checked.
    pub room: RowCheck,
    /// Where its checksum is checked.
    pub checksum: RowCheck,
    /// When the page of a transfer that was given up goes back.
    pub fence: Fence,
    /// When the host copies' reduction is entered.
    pub drain: DrainEntry,
    /// Which host copies it drains.
    pub drained: Drained,
    /// Which finished request leaves the prefix cache.
    pub eviction: Eviction,
    /// What happens when giving a page back throws.
    pub release: Release,
    /// What decides between run and idle.
    pub run: Run,
    /// In which order the rows of a forward are.
    pub order: RowOrder,
    /// Who samples.
    pub sampling: Sampling,
    /// Whether a request is launched ahead of its result.
    pub ahead: Ahead,
    /// What happens when the retries for the prefill address are used up.
    pub retries: GiveUp,
    /// What happens when a waiting request's time is up.
    pub clock: GiveUp,
}

/// The base: unconditional polls of one fixed shape; admission, landing and dropping by what was reduced.
pub const SOUND: Rules = Rules {
    receive: Receive::Always,
    aborts: Word::Unsaid,
    pause: Word::Unsaid,
    switch: Switch::Unasked,
    handshake: HandshakeEntry::Always,
    transfer: TransferEntry::Always,
    payload: Payload::Fixed,
    admission: Admission::AgreedPages,
    retraction: Retraction::Never,
    metadata: Metadata::WithKv,
    room: RowCheck::Unneeded,
    checksum: RowCheck::Unneeded,
    fence: Fence::Unneeded,
    drain: DrainEntry::Absent,
    drained: Drained::InOrderOfIssue,
    eviction: Eviction::Uncached,
    release: Release::Certain,
    run: Run::ReducedLanded,
    order: RowOrder::Uncompared,
    sampling: Sampling::OneToken,
    ahead: Ahead::Never,
    retries: GiveUp::ThroughPoll,
    clock: GiveUp::ThroughPoll,
};

impl Rules {
    /// Whether some rank's allocator or free memory may lag behind, so that what it alone has differs.
    #[must_use]
    pub fn memory_lags(&self) -> bool {
        self.admission == Admission::OwnPages
            || self.retraction != Retraction::Never
            || self.switch != Switch::Unasked
    }

    /// Whether the metadata row lands apart from the KV.
    #[must_use]
    pub fn row_apart(&self) -> bool {
        self.metadata != Metadata::WithKv
    }
}
