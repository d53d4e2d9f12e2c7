//! Why a decision did what it did: for reports, and the unit of coverage. Nothing reads it to decide.

use serde::{Deserialize, Serialize};

/// Why a decision did what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Why {
    /// A request was aborted.
    Aborted,
    /// A request took its pages and its transfer starts.
    Admitted,
    /// Admission waits: the oldest request that is ready for it lacks pages.
    AdmissionLacksPages,
    /// Admission waits: a running request lacks a page.
    AdmissionYieldsToGrowth,
    /// Admission waits: a retracted request has not resumed.
    AdmissionYieldsToResume,
    /// A page that was kept, and that no leg holds, was given up for a leg; its copy on the hosts stays, if there is one.
    BlockEvicted,
    /// A page's copy on the hosts was given up for another page's.
    BlockForgotten,
    /// A computed page is kept for prompts that begin alike.
    BlockKept,
    /// A kept page is copied to the hosts.
    BlockStored,
    /// A page comes back from the hosts.
    BlockLoaded,
    /// A chunk of a prompt is computed, and more is to come.
    ChunkComputed,
    /// An attempt failed on some rank.
    Failed,
    /// An output ended with a stop token.
    FinishedByStop,
    /// An output ended with its last allowed token.
    FinishedByLength,
    /// The first token is accepted and the request may run.
    FirstToken,
    /// A running request took the page of its next launch.
    Grew,
    /// A request lacks a page that others have promised.
    GrowthWaitsForPromised,
    /// The only running request lacks a page: it waits, and is never retracted.
    GrowthWaitsAlone,
    /// A handshake is done on every rank.
    HandshakeAgreed,
    /// Nothing may run: enough forwards are in flight.
    IdleAhead,
    /// Nothing is ready to run.
    IdleEmpty,
    /// Nothing may run: the group is paused.
    IdlePaused,
    /// A prefill leg's KV is written on every rank.
    LegWritten,
    /// A retracted request may resume, but lacks pages.
    ResumeLacksPages,
    /// The group is paused, or goes on.
    PauseChanged,
    /// The plan has as many tokens as it may have; others wait.
    PlanFull,
    /// A request waits for a page and is left out of the plan.
    PlanOmitsLacking,
    /// A leg waits for pages that come back from the hosts and is left out of the plan.
    PlanOmitsLoading,
    /// A request waits for its fence and is left out of the plan.
    PlanOmitsUnfenced,
    /// A page that was kept is one of a leg's first.
    PrefixMatched,
    /// A new request took a slot.
    Recorded,
    /// A slot and its pages are free again.
    Released,
    /// A retracted request took pages, and its transfer starts anew or its copy comes back.
    Resumed,
    /// A request's copy has come back from the hosts.
    Restored,
    /// A request was chosen to give its pages up.
    Retracted,
    /// A retracted request's pages are free, and its next handshake starts.
    RetractionReleased,
    /// A plan was launched.
    Ran,
    /// A retracted request's pages are free; its copy is on the hosts.
    Stored,
    /// The group leaves.
    Shutdown,
    /// A token of a request that ended meanwhile was dropped.
    SurplusDropped,
    /// A token was accepted.
    Token,
}
