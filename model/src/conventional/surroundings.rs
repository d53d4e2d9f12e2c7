//! What may happen to a conventional rank, and what is checked of it.

use crate::conventional::rank::{Address, ConventionalRank, Fact, Launch, Place};
use crate::conventional::request::{Phase, Request};
use crate::conventional::rules::{Admission, Metadata, Variant};
use crate::conventional::witnesses::witnesses;
use crate::model::WorldModel;
use crate::world::{Action, Environment, Interleaving};
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::digest::Digest;
use lockstep_spec::invariant::kv_before_run;

/// Bounds and choices of a conventional run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConventionalSetting {
    /// The rules.
    pub variant: Variant,
    /// Whether a forward's result is read one turn later.
    pub overlap: bool,
    /// Ranks of the group.
    pub ranks: usize,
    /// Requests, each of which arrives once.
    pub requests: usize,
    /// Requests that may hold a page at a time.
    pub pages: usize,
    /// Whether retries may be used up and clocks may run out, on any rank at any time.
    pub receivers_fail: bool,
}

impl ConventionalSetting {
    /// A run with the pages and failures that make the variant's verdict say most.
    #[must_use]
    pub fn new(variant: Variant, overlap: bool, ranks: usize, requests: usize) -> Self {
        let (pages, receivers_fail) = (variant.pages(requests), variant.receivers_fail());
        Self { variant, overlap, ranks, requests, pages, receivers_fail }
    }
}

/// A variant at a size, with what its exploration must reach.
#[must_use]
pub fn model(variant: Variant, overlap: bool, ranks: usize, requests: usize) -> WorldModel<Surroundings> {
    let setting = ConventionalSetting::new(variant, overlap, ranks, requests);
    WorldModel::new(setting).witnessing(witnesses(&setting))
}

/// What surrounds the ranks of a conventional group. It remembers nothing: what has landed on a rank, the rank knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Surroundings;

impl Environment for Surroundings {
    type Program = ConventionalRank;
    type Setting = ConventionalSetting;

    fn genesis(setting: &ConventionalSetting) -> (Vec<ConventionalRank>, Self) {
        let ConventionalSetting { variant, overlap, ranks, requests, pages, .. } = *setting;
        let rank = |index| ConventionalRank::new(variant, overlap, index == 0, requests, pages);
        ((0..ranks).map(rank).collect(), Self)
    }

    /// All: in the normal loop a rank blocks in its forward, and others must be able to move meanwhile.
    fn interleaving(_: &ConventionalSetting) -> Interleaving {
        Interleaving::Full
    }

    fn facts(
        &self,
        setting: &ConventionalSetting,
        ranks: &[ConventionalRank],
        rank: usize,
        facts: &mut Vec<Fact>,
    ) {
        let rank = &ranks[rank];
        if rank.leads && rank.arrived < rank.requests.len() {
            facts.push(Fact::Arrived);
        }
        if rank.page_late {
            facts.push(Fact::PageFreed);
        }
        if rank.address == Address::Missing {
            facts.push(Fact::AddressResolved);
        }
        for (index, request) in rank.requests.iter().enumerate().filter(|(_, request)| !request.failed) {
            progress_facts(rank, index, request, facts);
        }
        if setting.receivers_fail {
            failure_facts(rank, facts);
        }
    }

    fn delivered(&mut self, _: &ConventionalSetting, _: usize, _: &Fact) {}

    fn completed(&mut self, _: &ConventionalSetting, _: &[ConventionalRank], _: usize) -> Fact {
        Fact::Retired
    }

    fn perform(
        &mut self,
        _: &ConventionalSetting,
        ranks: &[ConventionalRank],
        rank: usize,
        Launch(batch): &Launch,
    ) -> Result<(), &'static str> {
        let whole = batch.iter().all(|index| ranks[rank].requests[*index].whole());
        if whole { Ok(()) } else { Err(kv_before_run::PROPERTY.id) }
    }

    fn check(&self, _: &ConventionalSetting, _: &[ConventionalRank]) -> Result<(), &'static str> {
        Ok(())
    }

    fn agreed_digest(rank: &ConventionalRank) -> u64 {
        let phases: Vec<Phase> = rank.requests.iter().map(|request| request.phase).collect();
        Digest::of(&phases)
    }

    /// The polls of a turn are over, or have not begun: then the queues of all ranks must be the same.
    fn outside(rank: &ConventionalRank) -> bool {
        match rank.place {
            Place::HandshakePoll | Place::RunOrIdle => true,
            Place::Requests | Place::TransferPoll => false,
        }
    }

    /// The loop has no end.
    fn left(_: &ConventionalRank) -> bool {
        false
    }

    fn rested(&self, _: &ConventionalSetting, ranks: &[ConventionalRank]) -> bool {
        ranks.iter().all(|rank| rank.requests.iter().all(|request| request.phase.rests()))
    }

    fn benign(fact: &Fact) -> bool {
        match fact {
            Fact::Arrived | Fact::RetriesExhausted | Fact::TimedOut(_) => false,
            Fact::AddressResolved
            | Fact::HandshakeDone(_)
            | Fact::PageFreed
            | Fact::KvLanded(_)
            | Fact::RowLanded(_)
            | Fact::Retired => true,
        }
    }

    fn guards(
        rank: &ConventionalRank,
        action: &Action<Fact>,
        concerned: bool,
    ) -> Vec<(&'static str, String)> {
        rank.guards(action, concerned)
    }

    fn describe(&self, rank: &ConventionalRank, _: usize) -> Vec<(String, String)> {
        let mut cells = vec![
            ("before".to_string(), format!("{:?}", rank.place)),
            ("address".to_string(), format!("{:?}", rank.address)),
        ];
        let requests = rank.requests.iter().enumerate();
        cells.extend(requests.map(|(index, request)| (format!("request {index}"), state_of(request))));
        if rank.rules().admission == Admission::OwnPages {
            cells.push(("page late".to_string(), rank.page_late.to_string()));
        }
        cells.push(("unread".to_string(), format!("{:?}", rank.unread)));
        cells.push(("retired".to_string(), rank.retired.to_string()));
        cells
    }
}

/// How a request comes further.
fn progress_facts(rank: &ConventionalRank, index: usize, request: &Request, facts: &mut Vec<Fact>) {
    if request.phase == Phase::Handshaking && rank.address != Address::Missing && !request.shaken {
        facts.push(Fact::HandshakeDone(index));
    }
    if request.phase == Phase::Transferring && !request.kv {
        facts.push(Fact::KvLanded(index));
    }
    let row_apart = rank.rules().metadata != Metadata::WithKv;
    if request.phase == Phase::Transferring && row_apart && !request.row {
        facts.push(Fact::RowLanded(index));
    }
}

/// How a receiver fails, unless it has already.
fn failure_facts(rank: &ConventionalRank, facts: &mut Vec<Fact>) {
    let sound = |request: &Request| !request.failed;
    let mut requests = rank.requests.iter();
    let unresolved = requests.any(|request| request.phase == Phase::Handshaking && sound(request));
    if rank.address == Address::Missing && unresolved {
        facts.push(Fact::RetriesExhausted);
    }
    let waiting = |(_, request): &(usize, &Request)| request.phase.waits() && sound(request);
    let late = rank.requests.iter().enumerate().filter(waiting);
    facts.extend(late.map(|(index, _)| Fact::TimedOut(index)));
}

/// A request for a person: how far it is, and what this rank has seen of it.
fn state_of(request: &Request) -> String {
    let marks = [
        (request.shaken, " shaken"),
        (request.kv, " kv"),
        (request.row, " row"),
        (request.failed, " failed"),
    ];
    let seen = marks.into_iter().filter(|(set, _)| *set).map(|(_, mark)| mark);
    format!("{:?}{}", request.phase, seen.collect::<String>())
}

/// Nothing here counts.
impl Counters for Surroundings {
    fn visit(&mut self, _: &mut dyn FnMut(Counter, &mut u64)) {}
}
