//! Clients as an observer sees them: what each asked for, and what it was told.

use crate::decode::setting::RequestKind;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::decode::phase::Outcome;
use lockstep_spec::ids::{RequestId, TokenId};
use lockstep_spec::invariant::token_exact;

/// A client that was not told of its request's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// What it asked for.
    pub kind: RequestKind,
    /// Tokens that it was told.
    pub told: usize,
}

impl Client {
    /// A client that was told nothing.
    #[must_use]
    pub fn new(kind: RequestKind) -> Self {
        Self { kind, told: 0 }
    }

    /// Tells it a token, an end, or both. Whether it is to be told that.
    #[must_use]
    pub fn hears(&mut self, token: Option<(u32, TokenId)>, ended: Option<Outcome>) -> bool {
        let output = self.kind.output();
        let next = token.is_none_or(|(index, token)| token_exact::holds(&output, self.told, index, token));
        self.told += usize::from(token.is_some());
        next && ended.is_none_or(|outcome| self.ends(&output, outcome))
    }

    /// Whether its request may end so now: if by itself, then as what it asked for does.
    fn ends(&self, output: &[TokenId], outcome: Outcome) -> bool {
        let fits = match outcome {
            Outcome::Stop | Outcome::Length => outcome == self.kind.end(),
            Outcome::Aborted | Outcome::Failed(_) => true,
        };
        fits && token_exact::holds_at_end(output, self.told, outcome)
    }
}

/// The clients of a group that lives as long as they do, oldest request first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clients(Vec<(RequestId, Client)>);

impl Clients {
    /// Whether every request has ended.
    #[must_use]
    pub fn are_gone(&self) -> bool {
        self.0.is_empty()
    }

    /// Their requests.
    pub fn requests(&self) -> impl Iterator<Item = RequestId> {
        self.0.iter().map(|(request, _)| *request)
    }

    /// Somebody asks for something.
    pub fn ask(&mut self, request: RequestId, kind: RequestKind) {
        self.0.push((request, Client::new(kind)));
    }

    /// Takes what the leader says to the client of a request.
    ///
    /// # Errors
    /// `token-exact`: nobody waits for it, or for something else.
    pub fn tell(
        &mut self,
        request: RequestId,
        token: Option<(u32, TokenId)>,
        ended: Option<Outcome>,
    ) -> Result<(), &'static str> {
        let found = self.0.iter_mut().find(|(id, _)| *id == request);
        let exact = found.is_some_and(|(_, client)| client.hears(token, ended));
        if ended.is_some() {
            self.0.retain(|(id, _)| *id != request);
        }
        if exact { Ok(()) } else { Err(token_exact::PROPERTY.id) }
    }
}

impl Counters for Clients {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.0.iter_mut().for_each(|(request, _)| visit(Counter::Request, &mut request.0));
    }
}
