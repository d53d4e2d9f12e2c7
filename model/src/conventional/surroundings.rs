//! What surrounds a conventional rank: what is checked of it, and how it is drawn. What may happen to it is in `facts`.

use crate::conventional::fact::Fact;
use crate::conventional::facts;
use crate::conventional::rank::{ConventionalRank, Launch, Place};
use crate::conventional::request::{HostCopy, MetadataRow, Phase, Request};
use crate::conventional::variant::Variant;
use crate::conventional::witnesses::witnesses;
use crate::model::WorldModel;
use crate::world::{Action, Environment, Interleaving};
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::digest::Digest;
use lockstep_spec::invariant::{kv_before_run, no_write_after_free, pages_sound};

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
        let rank = |index| ConventionalRank::new(variant, overlap, index, requests, pages);
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
        facts::facts(setting, &ranks[rank], facts);
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

    /// No page is lost; what a forward or the other group may still touch is held.
    fn check(&self, _: &ConventionalSetting, ranks: &[ConventionalRank]) -> Result<(), &'static str> {
        if ranks.iter().any(|rank| rank.lost > 0) {
            return Err(pages_sound::PROPERTY.id);
        }
        let held = |rank: &ConventionalRank| rank.touched().into_iter().all(|index| rank.holds(index));
        if ranks.iter().all(held) { Ok(()) } else { Err(no_write_after_free::PROPERTY.id) }
    }

    fn agreed_digest(rank: &ConventionalRank) -> u64 {
        let phases: Vec<Phase> = rank.requests.iter().map(|request| request.phase).collect();
        Digest::of(&(phases, &rank.rows, rank.switched))
    }

    /// The polls of a turn are over, or have not begun: then the queues of all ranks must be the same.
    fn outside(rank: &ConventionalRank) -> bool {
        match rank.place {
            Place::HandshakePoll | Place::RunOrIdle => true,
            Place::Requests | Place::TransferPoll | Place::CacheDrain => false,
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
        facts::benign(fact)
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
        cells.extend(marks(&[
            (rank.page_late, "page late"),
            (rank.lost > 0, "page lost"),
            (rank.heard.pause, "hears of a pause"),
            (rank.deaf, "passes the next broadcast"),
            (rank.drifted, "logits differ"),
            (rank.switched, "other role"),
        ]));
        cells.push(("unread".to_string(), format!("{:?}", rank.unread)));
        cells.push(("retired".to_string(), rank.retired.to_string()));
        cells
    }
}

impl ConventionalRank {
    /// Requests whose pages a forward on this rank's device or the other group may still touch.
    fn touched(&self) -> Vec<usize> {
        let launched = self.unread.iter().filter(|batch| !batch.is_empty());
        let flying = launched.skip(self.retired).flatten().copied();
        flying.chain(self.queued(|request| request.writing)).collect()
    }
}

/// Cells of what is so.
fn marks(marks: &[(bool, &str)]) -> Vec<(String, String)> {
    let set = marks.iter().filter(|(set, _)| *set);
    set.map(|(_, mark)| ((*mark).to_string(), "yes".to_string())).collect()
}

/// A request for a person: how far it is, and what this rank has seen of it.
fn state_of(request: &Request) -> String {
    let row = match request.row {
        MetadataRow::Missing => "",
        MetadataRow::Sound => " row",
        MetadataRow::OtherRoom => " row of another room",
        MetadataRow::Corrupt => " corrupt row",
    };
    let copy = match request.copy {
        HostCopy::None => "",
        HostCopy::Refused => " copy refused",
        HostCopy::Writing => " copying",
        HostCopy::Written => " copied",
    };
    let marks = [
        (request.shaken, " shaken"),
        (request.writing, " written to"),
        (request.kv, " kv"),
        (request.grown, " grown"),
        (request.failed, " failed"),
    ];
    let seen = marks.into_iter().filter(|(set, _)| *set).map(|(_, mark)| mark);
    format!("{:?}{}{row}{copy}", request.phase, seen.collect::<String>())
}

/// Nothing here counts.
impl Counters for Surroundings {
    fn visit(&mut self, _: &mut dyn FnMut(Counter, &mut u64)) {}
}
