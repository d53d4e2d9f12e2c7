//! Phases of a request on the decode side, the same on every rank.
//!
//! ```text
//! Bootstrapping ─▶ Handshaken ─▶ Transferring ─▶ Ready ─▶ Running
//! Ready, Running ─victim─▶ Retracting ─▶ Retracted ─resumed─▶ Transferring
//!                                     ─▶ Stored ─resumed─▶ Restoring ─▶ Ready, where the hosts had room for a copy
//! any ─finished, aborted or failed─▶ Draining ─▶ the slot is free
//! ```

use crate::counters::{Counter, Counters};
use crate::decode::request::Request;
use crate::ids::{HostPageId, PageId, RequestId};
use crate::poll::Reason;
use crate::table::Occupant;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// A stop token was sampled; it is the output's last token.
    Stop,
    /// The output has as many tokens as were asked for.
    Length,
    /// The client gave it up.
    Aborted,
    /// It failed.
    Failed(Reason),
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Every rank's handshake with the prefill side is under way.
    Bootstrapping,
    /// Every rank's handshake is done; the request waits for pages.
    Handshaken,
    /// It has pages, and KV is on its way.
    Transferring,
    /// KV is whole on every rank and the first token is accepted.
    Ready,
    /// It has been in a plan.
    Running,
    /// It is to give its pages up once its forwards retire and its copy, if there is to be one, is on the hosts.
    Retracting,
    /// It holds no pages; the handshake of its next attempt is under way or done.
    Retracted,
    /// It holds no pages but those of its copy on the hosts.
    Stored,
    /// It has pages, and its KV comes back from the hosts.
    Restoring,
    /// It ended; its pages wait until nothing can touch them.
    Draining(Outcome),
}

/// A request in a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tenant {
    /// The request.
    pub request: Request,
    /// Where it is.
    pub phase: Phase,
    /// Its pages, in the order of positions.
    pub pages: Vec<PageId>,
    /// The hosts' pages of its copy, in the order of positions; none if there is no copy.
    pub host_pages: Vec<HostPageId>,
    /// Tokens of its output so far.
    pub generated: u32,
}

impl Tenant {
    /// A request that has just taken a slot.
    #[must_use]
    pub fn new(request: Request) -> Self {
        let (pages, host_pages) = (Vec::new(), Vec::new());
        Self { request, phase: Phase::Bootstrapping, pages, host_pages, generated: request.generated }
    }

    /// Whether it may be in a plan.
    #[must_use]
    pub fn runs(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Running)
    }

    /// Whether its pages are promised to others.
    #[must_use]
    pub fn gives_up_pages(&self) -> bool {
        matches!(self.phase, Phase::Retracting | Phase::Draining(_))
    }

    /// Whether it waits for pages to go on.
    #[must_use]
    pub fn waits_to_resume(&self) -> bool {
        matches!(self.phase, Phase::Retracted | Phase::Stored)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    /// Position of the next launch's input token, with `flying` forwards of it in flight. It has at least one token.
    #[must_use]
    pub fn next_position(&self, flying: u32) -> u32 {
        self.request.prompt_tokens + self.generated.saturating_sub(1) + flying
    }

    /// Whether one more launch can bring a token it still wants: launched + 1 ≤ max_tokens.
    #[must_use]
    pub fn wants_launch(&self, flying: u32) -> bool {
        self.runs() && self.generated + flying < self.request.max_tokens
    }

    /// Positions that its pages must hold when its transfer starts: prompt and output so far, and the first launch's.
    #[must_use]
    pub fn positions_to_start(&self) -> u32 {
        let written = self.request.prompt_tokens + self.generated;
        (written + 1).min(self.request.positions()).max(written)
    }
}

impl Occupant for Tenant {
    fn request(&self) -> RequestId {
        self.request.id
    }

    fn pages(&self) -> &[PageId] {
        &self.pages
    }

    fn host_pages(&self) -> &[HostPageId] {
        &self.host_pages
    }
}

impl Counters for Tenant {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.request.visit(visit);
    }
}
