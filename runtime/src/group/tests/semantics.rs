//! The rules of a group, checked on every transport: one list of cases, run over threads and over
//! the socket mesh.

use std::thread;
use std::time::{Duration, Instant};

use super::support::{
    LIMIT, LONG, OverSharedMemory, OverSockets, OverTcp, OverThreads, SHORT, TAG, Transport, at_round,
    blamed, errors, on_all,
};
use crate::group::{Collectives, GroupError, Operation, Tag};

fn byte(rank: usize) -> u8 {
    u8::try_from(rank).unwrap()
}

fn min_is_elementwise<T: Transport>() {
    for size in [1, 2, 3, 4] {
        let results = on_all(&mut T::form(size), |rank, member| {
            let rank = rank as u64;
            let mut values = [rank, 10 - rank, u64::MAX, 5];
            member.all_reduce_min(TAG, &mut values, LONG).unwrap();
            values
        });
        let lowest = 10 - (size as u64 - 1);
        assert_eq!(results, vec![[0, lowest, u64::MAX, 5]; size]);
    }
}

fn gather_is_in_rank_order<T: Transport>() {
    let results = on_all(&mut T::form(3), |rank, member| {
        member.all_gather(TAG, &vec![byte(rank); rank * 2], LONG).unwrap()
    });
    assert_eq!(results, vec![vec![vec![], vec![1, 1], vec![2, 2, 2, 2]]; 3]);
}

fn sum_is_in_rank_order<T: Transport>() {
    let parts = [1.0e8_f32, -1.0e8, 0.25, 3.0e-9];
    let results = on_all(&mut T::form(4), |rank, member| {
        let mut values = [parts[rank], -0.0];
        member.all_reduce_sum(TAG, &mut values, LONG).unwrap();
        values.map(f32::to_bits)
    });
    let expected = ((parts[0] + parts[1]) + parts[2]) + parts[3];
    let reversed = ((parts[3] + parts[2]) + parts[1]) + parts[0];
    assert_ne!(expected.to_bits(), reversed.to_bits(), "the case must tell orders apart");
    assert_eq!(results, vec![[expected.to_bits(), (-0.0_f32).to_bits()]; 4]);
}

fn broadcast_comes_from_each_root<T: Transport>() {
    let results = on_all(&mut T::form(3), |rank, member| {
        (0..3)
            .map(|root| {
                let own = [byte(root); 5];
                let payload = (rank == root).then_some(&own[..]);
                member.broadcast(at_round(root as u64), root, payload, 5, LONG).unwrap()
            })
            .collect::<Vec<_>>()
    });
    assert_eq!(results, vec![vec![vec![0; 5], vec![1; 5], vec![2; 5]]; 3]);
}

fn broadcast_over_max_is_an_error_on_every_rank<T: Transport>() {
    let failed = errors(on_all(&mut T::form(3), |rank, member| {
        member.broadcast(TAG, 1, (rank == 1).then_some(&[0; 9]), 8, LONG)
    }));
    let over = GroupError::Oversize { rank: 1, length: 9, limit: 8 };
    assert!(failed.contains(&over), "{failed:?}");
    assert!(failed.iter().all(|error| blamed(error) == 1), "{failed:?}");
}

fn broadcast_roots_that_differ_are_an_error_on_every_rank<T: Transport>() {
    let failed =
        errors(on_all(&mut T::form(2), |rank, member| member.broadcast(TAG, rank, Some(&[1]), 8, LONG)));
    let ours = Operation::Broadcast { root: 0 };
    let theirs = Operation::Broadcast { root: 1 };
    assert_eq!(failed[0], GroupError::MixedOperation { rank: 1, tag: TAG, ours, theirs });
    assert_eq!(failed[1], GroupError::MixedOperation { rank: 0, tag: TAG, ours: theirs, theirs: ours });
}

fn broadcast_payload_must_fit_the_root<T: Transport>() {
    let failed = errors(on_all(&mut T::form(2), |_, member| member.broadcast(TAG, 0, None, 8, LONG)));
    assert!(matches!(failed[0], GroupError::Misuse(_)));
    assert!(matches!(failed[1], GroupError::Relayed { rank: 0, by: 0, .. }));
}

fn operations_that_differ_are_an_error<T: Transport>() {
    let failed = errors(on_all(&mut T::form(2), |rank, member| match rank {
        0 => member.all_gather(TAG, &[0; 8], LONG).map(drop),
        _ => member.all_reduce_min(TAG, &mut [0], LONG),
    }));
    assert!(failed.iter().all(|error| matches!(error, GroupError::MixedOperation { .. })), "{failed:?}");
}

fn lengths_that_differ_are_an_error<T: Transport>() {
    let failed = errors(on_all(&mut T::form(2), |rank, member| {
        member.all_reduce_min(TAG, &mut vec![0; 3 + rank], LONG)
    }));
    let seen_by_0 = GroupError::UnequalLength { rank: 1, tag: TAG, ours: 24, theirs: 32 };
    let seen_by_1 = GroupError::UnequalLength { rank: 0, tag: TAG, ours: 32, theirs: 24 };
    assert!(failed[0] == seen_by_0 || failed[1] == seen_by_1, "{failed:?}");
}

fn mismatch_is_an_error_on_every_rank<T: Transport>() {
    for odd in [
        Tag { site: 1, ..TAG },
        Tag { kind: 2, ..TAG },
        Tag { shape: 65, ..TAG },
        Tag { round: 8, ..TAG },
        Tag { epoch: 2, ..TAG },
    ] {
        let failed = errors(on_all(&mut T::form(3), |rank, member| {
            let tag = if rank == 2 { odd } else { TAG };
            member.all_reduce_min(tag, &mut [0; 8], LONG)
        }));
        let named = |error: &GroupError| {
            let (rank, last) = error.culprit(usize::MAX);
            last == Some(if rank == 2 { odd } else { TAG })
        };
        assert!(failed.iter().all(named), "{failed:?}");
        assert!(failed.iter().any(|error| matches!(error, GroupError::Mismatch { .. })));
    }
}

fn mismatch_is_found_though_another_rank_is_missing<T: Transport>() {
    let started = Instant::now();
    let failed = errors(on_all(&mut T::form(3), |rank, member| match rank {
        0 => member.all_gather(TAG, &[], LONG),
        1 => member.all_gather(at_round(8), &[], LONG),
        _ => {
            thread::sleep(SHORT);
            member.all_gather(TAG, &[], LONG)
        }
    }));
    assert!(failed.iter().all(|error| !matches!(error, GroupError::Missing { .. })), "{failed:?}");
    assert!(started.elapsed() < LONG);
}

fn missing_rank_is_named_with_its_last_tag<T: Transport>() {
    let mut results = on_all(&mut T::form(3), |rank, member| {
        member.all_gather(at_round(1), &[], LONG).unwrap();
        let started = Instant::now();
        if rank == 1 {
            thread::sleep(SHORT * 4);
        }
        (member.all_gather(at_round(2), &[], SHORT).unwrap_err(), started.elapsed())
    });
    let (slow, _) = results.remove(1);
    assert!(matches!(slow, GroupError::Relayed { rank: 1, .. }), "{slow:?}");
    for (error, took) in results {
        assert_eq!(blamed(&error), 1, "{error:?}");
        assert_eq!(error.culprit(0).1, Some(at_round(1)), "{error:?}");
        assert!(took < SHORT * 3, "{took:?}");
    }
}

fn dead_rank_is_named_with_its_last_tag<T: Transport>() {
    let mut members = T::form(3);
    on_all(&mut members, |_, member| member.all_gather(at_round(1), &[], LONG).unwrap());
    drop(members.pop());
    for error in errors(on_all(&mut members, |_, member| member.all_gather(at_round(2), &[], LONG))) {
        assert_eq!(error.culprit(0), (2, Some(at_round(1))), "{error:?}");
    }
}

fn dead_rank_wakes_those_that_wait_for_the_leader<T: Transport>() {
    let mut members = T::form(3);
    drop(members.pop());
    let error = members[1].wait_for_leader(LONG).unwrap_err();
    assert_eq!(error, GroupError::Gone { rank: 2, last: None });
}

fn orderly_leave_fails_nobody_in_the_last_collective<T: Transport>() {
    for _ in 0..20 {
        let members = T::form(3);
        thread::scope(|scope| {
            for (rank, mut member) in members.into_iter().enumerate() {
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(rank as u64));
                    member.all_gather(TAG, &[1], LONG).unwrap();
                });
            }
        });
    }
}

fn errors_are_final<T: Transport>() {
    let mut members = T::form(2);
    let first = members[0].all_gather(TAG, &[], SHORT).unwrap_err();
    assert!(matches!(first, GroupError::Missing { rank: 1, last: None, .. }));
    assert_eq!(members[0].all_reduce_min(TAG, &mut [1], LONG), Err(first.clone()));
    assert_eq!(members[0].wait_for_leader(LONG), Err(first.clone()));
    assert_eq!(members[0].broadcast(TAG, 1, None, 1, LONG), Err(first));
    // Rank 0 had entered before it gave up, so its bell may be heard first.
    let told = loop {
        if let Err(error) = members[1].wait_for_leader(LONG) {
            break error;
        }
        thread::yield_now();
    };
    assert!(matches!(told, GroupError::Relayed { rank: 1, by: 0, .. }), "{told:?}");
}

fn leader_is_heard_before_its_followers_enter<T: Transport>() {
    let results = on_all(&mut T::form(3), |rank, member| {
        if rank == 0 {
            thread::sleep(SHORT * 2);
        } else {
            assert!(!member.wait_for_leader(SHORT / 3).unwrap(), "the bell has not rung yet");
        }
        assert!(member.wait_for_leader(LONG).unwrap());
        assert!(member.wait_for_leader(LONG).unwrap(), "the bell is a level");
        let mut values = [rank as u64 + 4];
        member.all_reduce_min(TAG, &mut values, LONG).unwrap();
        values[0]
    });
    assert_eq!(results, [4, 4, 4]);
}

fn waiting_takes_no_time_of_the_processor<T: Transport>() {
    let mut members = T::form(3);
    let before = processor_time();
    for _ in 0..4 {
        assert!(!members[1].wait_for_leader(SHORT).unwrap());
    }
    let spent = processor_time() - before;
    assert!(spent < SHORT / 10, "{spent:?}");
}

/// What this thread has had of the processor.
fn processor_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

fn large_payloads_cross_without_deadlock<T: Transport>() {
    let lengths = on_all(&mut T::form(3), |rank, member| {
        let payload = vec![byte(rank); 8 << 20];
        let all = member.all_gather(TAG, &payload, LONG).unwrap();
        assert!(all.iter().enumerate().all(|(rank, bytes)| bytes.iter().all(|&found| found == byte(rank))));
        all.iter().map(Vec::len).sum::<usize>()
    });
    assert_eq!(lengths, [24 << 20; 3]);
}

fn payload_over_the_limit_is_an_error_on_every_rank<T: Transport>() {
    let failed = errors(on_all(&mut T::form(2), |rank, member| {
        member.all_gather(TAG, &vec![0; if rank == 1 { LIMIT + 1 } else { 1 }], LONG)
    }));
    assert_eq!(failed[1], GroupError::Oversize { rank: 1, length: LIMIT + 1, limit: LIMIT });
    assert_eq!(blamed(&failed[0]), 1);
}

fn order_is_kept_over_many_rounds<T: Transport>() {
    on_all(&mut T::form(3), |rank, member| {
        for round in 0..500 {
            let mut values = [round + rank as u64, u64::MAX - round];
            member.all_reduce_min(at_round(round), &mut values, LONG).unwrap();
            assert_eq!(values, [round, u64::MAX - round]);
            let brief = round.to_le_bytes();
            let told =
                member.broadcast(at_round(round), 0, (rank == 0).then_some(&brief[..]), 8, LONG).unwrap();
            assert_eq!(told, brief);
        }
    });
}

macro_rules! on_every_transport {
    ($($case:ident),* $(,)?) => {
        mod threads {
            $(#[test] fn $case() { super::$case::<super::OverThreads>(); })*
        }
        mod sockets {
            $(#[test] fn $case() { super::$case::<super::OverSockets>(); })*
        }
        mod tcp {
            $(#[test] fn $case() { super::$case::<super::OverTcp>(); })*
        }
        mod shared_memory {
            $(#[test] fn $case() { super::$case::<super::OverSharedMemory>(); })*
        }
    };
}

on_every_transport!(
    min_is_elementwise,
    gather_is_in_rank_order,
    sum_is_in_rank_order,
    broadcast_comes_from_each_root,
    broadcast_over_max_is_an_error_on_every_rank,
    broadcast_roots_that_differ_are_an_error_on_every_rank,
    broadcast_payload_must_fit_the_root,
    operations_that_differ_are_an_error,
    lengths_that_differ_are_an_error,
    mismatch_is_an_error_on_every_rank,
    mismatch_is_found_though_another_rank_is_missing,
    missing_rank_is_named_with_its_last_tag,
    dead_rank_is_named_with_its_last_tag,
    dead_rank_wakes_those_that_wait_for_the_leader,
    orderly_leave_fails_nobody_in_the_last_collective,
    errors_are_final,
    leader_is_heard_before_its_followers_enter,
    waiting_takes_no_time_of_the_processor,
    large_payloads_cross_without_deadlock,
    payload_over_the_limit_is_an_error_on_every_rank,
    order_is_kept_over_many_rounds,
);
