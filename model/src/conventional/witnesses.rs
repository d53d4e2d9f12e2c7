//! Situations that an exploration must reach, or it proved nothing about them.

use crate::conventional::rank::{Address, ConventionalRank, Place};
use crate::conventional::request::{HostCopy, MetadataRow, Phase, Request};
use crate::conventional::rules::{
    Ahead, DrainEntry, Eviction, Fence, HandshakeEntry, Receive, Release, Retraction, RowCheck, Sampling,
    Switch, TransferEntry, Word,
};
use crate::conventional::surroundings::{ConventionalSetting, Surroundings};
use crate::model::{Witness, WorldModel};
use crate::world::World;

/// The witnesses that make sense under a setting.
pub(super) fn witnesses(setting: &ConventionalSetting) -> Vec<Witness<Surroundings>> {
    let rules = setting.variant.rules();
    let together = setting.pages.min(setting.requests) > 1;
    let skips = rules.handshake != HandshakeEntry::Always || rules.transfer != TransferEntry::Always;
    let ahead = rules.ahead != Ahead::Never;
    let possible: [(bool, Witness<Surroundings>); 18] = [
        (true, ("a forward runs", forward_runs)),
        (true, ("a miss resolves after a hit elsewhere", miss_resolves)),
        (together, ("two requests in one forward", two_in_one_forward)),
        (setting.requests > setting.pages, ("a request lacks only a page", lacks_page)),
        (setting.overlap && (together || ahead), ("two forwards in flight", two_forwards)),
        (skips, ("a poll is skipped", poll_skipped)),
        (rules.receive != Receive::Always, ("a broadcast is passed", broadcast_passed)),
        (rules.aborts == Word::Broadcast, ("an abort is broadcast during a transfer", abort_broadcast)),
        (rules.pause == Word::Broadcast, ("the group pauses", pauses)),
        (rules.switch == Switch::Voted, ("the group takes the other role", switches)),
        (rules.switch == Switch::Voted, ("a switch is refused by one rank", switch_refused)),
        (rules.room == RowCheck::InPoll, ("a row is of another room on one rank", row_of_another_room)),
        (rules.retraction != Retraction::Never, ("a request is retracted while another runs", retracted)),
        (rules.fence == Fence::Waits, ("a page waits for one rank's fence", fence_waits)),
        (rules.drain != DrainEntry::Absent, ("a copy is refused on one rank", copy_refused)),
        (rules.eviction != Eviction::Uncached, ("a request leaves the prefix cache", evicted)),
        (rules.sampling != Sampling::OneToken, ("one rank's logits differ", logits_differ)),
        (rules.release != Release::Certain, ("giving a page back throws on one rank", throws)),
    ];
    possible.into_iter().filter(|(possible, _)| *possible).map(|(_, witness)| witness).collect()
}

type Model = WorldModel<Surroundings>;
type Group = World<Surroundings>;

fn any(world: &Group, is: impl Fn(&ConventionalRank) -> bool) -> bool {
    world.group.ranks.iter().any(is)
}

/// On some rank, and not on all.
fn differs(world: &Group, is: impl Fn(&ConventionalRank) -> bool) -> bool {
    any(world, &is) && !world.group.ranks.iter().all(is)
}

fn any_request(rank: &ConventionalRank, is: impl Fn(&Request) -> bool) -> bool {
    rank.requests.iter().any(is)
}

fn in_phase(rank: &ConventionalRank, phase: Phase) -> bool {
    any_request(rank, |request| request.phase == phase)
}

fn forward_runs(model: &Model, world: &Group) -> bool {
    (0..model.setting.ranks).all(|rank| !world.group.device.queue(rank).is_empty())
}

fn miss_resolves(_: &Model, world: &Group) -> bool {
    let known = |address| any(world, |rank| rank.address == address);
    known(Address::Cached) && known(Address::Resolved)
}

fn two_in_one_forward(_: &Model, world: &Group) -> bool {
    world.group.ranks.iter().all(|rank| rank.unread.iter().any(|batch| batch.len() > 1))
}

fn two_forwards(model: &Model, world: &Group) -> bool {
    (0..model.setting.ranks).any(|rank| world.group.device.queue(rank).len() > 1)
}

fn lacks_page(_: &Model, world: &Group) -> bool {
    any(world, |rank| rank.place == Place::TransferPoll && in_phase(rank, Phase::Handshaken))
}

/// A completed poll takes all ranks along; so one that is a place ahead has skipped it.
fn poll_skipped(_: &Model, world: &Group) -> bool {
    let ahead = |place| any(world, |rank| rank.place == place);
    let behind = |place, queue: fn(&Request) -> bool| {
        any(world, |rank| rank.place == place && any_request(rank, queue))
    };
    let handshake =
        behind(Place::HandshakePoll, |request| request.phase.shakes()) && ahead(Place::TransferPoll);
    handshake || (behind(Place::TransferPoll, |_| true) && ahead(Place::RunOrIdle))
}

/// One rank has passed it and the other is about to.
fn broadcast_passed(_: &Model, world: &Group) -> bool {
    let at = |place, deaf| any(world, |rank| rank.place == place && rank.deaf == deaf);
    at(Place::HandshakePoll, false) && at(Place::Requests, true)
}

fn abort_broadcast(_: &Model, world: &Group) -> bool {
    any(world, |rank| rank.heard.abort && in_phase(rank, Phase::Transferring))
}

/// Rank 0 has told the others, and all go past their polls.
fn pauses(_: &Model, world: &Group) -> bool {
    let waits =
        |rank: &ConventionalRank| rank.place == Place::Requests && in_phase(rank, Phase::Transferring);
    world.group.control.is_empty() && world.group.ranks.iter().all(waits)
}

fn switches(_: &Model, world: &Group) -> bool {
    world.group.ranks.iter().all(|rank| rank.switched)
}

fn switch_refused(_: &Model, world: &Group) -> bool {
    any(world, |rank| rank.switch_said) && differs(world, |rank| rank.page_late)
}

fn row_of_another_room(_: &Model, world: &Group) -> bool {
    differs(world, |rank| any_request(rank, |request| request.row == MetadataRow::OtherRoom))
}

fn retracted(_: &Model, world: &Group) -> bool {
    any(world, |rank| in_phase(rank, Phase::Retracted) && in_phase(rank, Phase::Running))
}

fn fence_waits(_: &Model, world: &Group) -> bool {
    differs(world, |rank| any_request(rank, |request| request.phase == Phase::Fencing && request.writing))
}

fn copy_refused(_: &Model, world: &Group) -> bool {
    differs(world, |rank| any_request(rank, |request| request.copy == HostCopy::Refused))
}

fn evicted(_: &Model, world: &Group) -> bool {
    any(world, |rank| in_phase(rank, Phase::Cached) && in_phase(rank, Phase::Done))
}

fn logits_differ(_: &Model, world: &Group) -> bool {
    differs(world, |rank| rank.drifted)
}

fn throws(_: &Model, world: &Group) -> bool {
    differs(world, |rank| rank.throws)
}
