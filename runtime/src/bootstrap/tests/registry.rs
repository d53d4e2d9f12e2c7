//! What is kept: who counts, for how long, and how much.

use std::time::{Duration, Instant};

use lockstep_spec::ids::Epoch;
use proptest::prelude::*;

use super::support::rank;
use crate::bootstrap::error::Refusal;
use crate::bootstrap::registry::{Place, Registry};
use crate::bootstrap::rooms::{LIFE, MOST_ROOMS, Rooms};
use crate::bootstrap::{Coordinates, Layout, Registration};

fn place(tp: u32) -> Place {
    Place { dp: 0, cp: 0, tp, pp: 0 }
}

#[test]
fn registry_counts_a_rank_that_registers_again_once() {
    let mut registry = Registry::new(Epoch(1));
    for port in [70, 71, 72] {
        registry.register(rank(0, 2, port)).unwrap();
        assert_eq!(registry.info(), Err(Refusal::NotWhole { registered: 1, expected: 2 }));
        assert!(matches!(registry.rank(place(0)), Err(Refusal::NotWhole { .. })));
    }
    registry.register(rank(1, 2, 80)).unwrap();
    assert_eq!(registry.info().unwrap().attn_tp_size, 2);
    assert_eq!(registry.rank(place(0)).unwrap().rank_port, 72, "the newest address counts");
    assert_eq!(registry.rank(place(2)), Err(Refusal::NoSuchRank(place(2))));
}

#[test]
fn registry_forgets_an_epoch_that_is_over() {
    let mut registry = Registry::new(Epoch(1));
    let of_epoch = |epoch| Registration { epoch: Some(epoch), ..rank(0, 1, 70) };
    registry.register(of_epoch(1)).unwrap();
    assert!(registry.rank(place(0)).is_ok());
    registry.enter(Epoch(2));
    assert_eq!(registry.info(), Err(Refusal::NotWhole { registered: 0, expected: 0 }));
    assert_eq!(registry.register(of_epoch(1)), Err(Refusal::OtherEpoch { current: 2, theirs: 1 }));
    assert_eq!(registry.register(of_epoch(3)), Err(Refusal::OtherEpoch { current: 2, theirs: 3 }));
    registry.register(of_epoch(2)).unwrap();
    registry.enter(Epoch(2));
    assert_eq!(registry.rank(place(0)).unwrap().epoch, Some(2));
}

#[test]
fn registry_refuses_ranks_that_differ_and_places_that_are_none() {
    let mut registry = Registry::new(Epoch(1));
    registry.register(rank(0, 2, 70)).unwrap();
    let with = |change: fn(&mut Layout)| {
        let mut registration = rank(1, 2, 71);
        change(&mut registration.layout);
        registration
    };
    for (name, other) in [
        ("kv_layout", with(|layout| layout.kv_layout = Some("hnd".into()))),
        ("decode_allocation_policy", with(|layout| layout.decode_allocation_policy = Some("early".into()))),
        ("page_size", with(|layout| layout.page_size = 1)),
        ("attn_tp_size", with(|layout| layout.attn_tp_size = 4)),
    ] {
        assert_eq!(registry.register(other), Err(Refusal::Differs(name)));
    }
    assert!(matches!(registry.register(rank(2, 2, 72)), Err(Refusal::Malformed(_))));
    assert!(matches!(registry.register(rank(0, 0, 72)), Err(Refusal::Malformed(_))));
    let mut empty = Registry::new(Epoch(1));
    assert!(matches!(empty.register(rank(0, u32::MAX, 72)), Err(Refusal::TooLarge { .. })));
    registry.register(rank(1, 2, 71)).unwrap();
    assert!(registry.info().is_ok());
}

#[test]
fn registry_places_data_parallel_ranks_as_the_engine_or_as_engines() {
    for (engine, engines) in [(3, 1), (1, 3)] {
        let mut registry = Registry::new(Epoch(1));
        for dp in 0..3 {
            let layout = Layout { attn_dp_size: engine, system_dp_size: engines, ..Layout::of_heads(1, 16) };
            let at = Coordinates {
                attn_dp_rank: dp.min(engine - 1),
                system_dp_rank: dp.min(engines - 1),
                ..Coordinates::default()
            };
            let port = u16::try_from(dp).unwrap() + 70;
            registry.register(Registration { layout, at, ..rank(0, 1, port) }).unwrap();
        }
        assert_eq!(registry.info().unwrap().dp_size, 3);
        assert_eq!(registry.rank(Place { dp: 2, cp: 0, tp: 0, pp: 0 }).unwrap().rank_port, 72);
    }
}

#[test]
fn rooms_expire_and_a_room_that_comes_twice_is_the_newest_speakers() {
    let (mut rooms, begun) = (Rooms::default(), Instant::now());
    rooms.register(7, 1, begun).unwrap();
    rooms.register(7, 2, begun).unwrap();
    assert_eq!(rooms.dp_ranks(&[7, 8, 7], begun).into_iter().collect::<Vec<_>>(), [(7, 2)]);
    assert!(rooms.dp_ranks(&[7], begun + LIFE).is_empty());
}

#[test]
fn rooms_have_a_bound_and_make_room_for_new_ones() {
    let (mut rooms, begun) = (Rooms::default(), Instant::now());
    for room in 0..MOST_ROOMS as u64 {
        rooms.register(room, 0, begun).unwrap();
    }
    assert_eq!(rooms.register(u64::MAX, 0, begun), Err(Refusal::RoomsFull(MOST_ROOMS)));
    assert_eq!(rooms.register(5, 1, begun), Ok(()), "a room that is known needs none");
    rooms.register(u64::MAX, 0, begun + LIFE + Duration::from_secs(1)).unwrap();
}

proptest! {
    /// Whatever ranks say, what is kept is bounded, and a group that answers is as large as it says.
    #[test]
    fn registry_of_arbitrary_ranks_is_bounded(ranks in prop::collection::vec((0..5_u32, 0..5_u32, 0..3_u32, 0..3_u64), 0..40)) {
        let mut registry = Registry::new(Epoch(1));
        for (index, size, dp, epoch) in ranks {
            let mut registration = Registration { epoch: (epoch > 0).then_some(epoch), ..rank(index, size, 70) };
            registration.layout.attn_dp_size = dp;
            drop(registry.register(registration));
            if let Ok(info) = registry.info() {
                for tp in 0..info.attn_tp_size {
                    for dp in 0..info.dp_size {
                        let found = registry.rank(Place { dp, cp: 0, tp, pp: 0 });
                        prop_assert!(found.is_ok());
                    }
                }
                prop_assert!(registry.rank(place(info.attn_tp_size)).is_err());
            }
        }
    }
}
