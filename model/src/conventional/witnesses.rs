//! Situations that an exploration must reach, or it proved nothing about them.

use crate::conventional::rank::{Address, Place};
use crate::conventional::request::{Phase, Request};
use crate::conventional::rules::{HandshakeEntry, TransferEntry};
use crate::conventional::surroundings::{ConventionalSetting, Surroundings};
use crate::model::{Witness, WorldModel};
use crate::world::World;

/// The witnesses that make sense under a setting.
pub(super) fn witnesses(setting: &ConventionalSetting) -> Vec<Witness<Surroundings>> {
    let rules = setting.variant.rules();
    let mut witnesses: Vec<Witness<Surroundings>> =
        vec![("a forward runs", forward_runs), ("a miss resolves after a hit elsewhere", miss_resolves)];
    if setting.pages > 1 {
        witnesses.push(("two requests in one forward", two_in_one_forward));
    }
    if setting.requests > setting.pages {
        witnesses.push(("a request lacks only a page", lacks_page));
    }
    if setting.overlap && setting.pages > 1 {
        witnesses.push(("two forwards in flight", two_forwards));
    }
    if rules.handshake != HandshakeEntry::Always || rules.transfer != TransferEntry::Always {
        witnesses.push(("a poll is skipped", poll_skipped));
    }
    witnesses
}

type Model = WorldModel<Surroundings>;
type Group = World<Surroundings>;

fn forward_runs(model: &Model, world: &Group) -> bool {
    (0..model.setting.ranks).all(|rank| !world.group.device.queue(rank).is_empty())
}

fn miss_resolves(_: &Model, world: &Group) -> bool {
    let any = |address| world.group.ranks.iter().any(|rank| rank.address == address);
    any(Address::Cached) && any(Address::Resolved)
}

fn two_in_one_forward(_: &Model, world: &Group) -> bool {
    world.group.ranks.iter().all(|rank| rank.unread.iter().any(|batch| batch.len() > 1))
}

fn two_forwards(model: &Model, world: &Group) -> bool {
    (0..model.setting.ranks).any(|rank| world.group.device.queue(rank).len() > 1)
}

fn lacks_page(_: &Model, world: &Group) -> bool {
    let admitted = world.group.ranks.iter().filter(|rank| rank.place == Place::TransferPoll);
    admitted.flat_map(|rank| &rank.requests).any(|request| request.phase == Phase::Handshaken)
}

/// A completed poll takes all ranks along; so one that is a place ahead has skipped it.
fn poll_skipped(_: &Model, world: &Group) -> bool {
    let ahead = |place| world.group.ranks.iter().any(|rank| rank.place == place);
    let behind = |place, queue: fn(&Request) -> bool| {
        world.group.ranks.iter().any(|rank| rank.place == place && rank.requests.iter().any(queue))
    };
    let handshake =
        behind(Place::HandshakePoll, |request| request.phase.shakes()) && ahead(Place::TransferPoll);
    handshake || (behind(Place::TransferPoll, |_| true) && ahead(Place::RunOrIdle))
}
