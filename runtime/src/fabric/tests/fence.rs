//! The fence: nothing of a leg reaches the sink after its revocation has returned.

use lockstep_spec::ids::Attempt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::support::{
    CALLER, Heard, LEG, LIMITS, RETRY, ROW, Room, WAIT, decode, grant, next, on_each_fabric, prefill,
};
use crate::fabric::{DecodeFabric, DecodeInbound, Leg, PrefillInbound};

fn attempt(attempt: u32) -> Leg {
    Leg { attempt: Attempt(u64::from(attempt)), ..LEG }
}

fn await_dropped(decode: &DecodeFabric, count: u64) {
    let until = Instant::now() + WAIT;
    while decode.dropped() < count {
        assert!(Instant::now() < until, "{} of {count} dropped", decode.dropped());
        thread::yield_now();
    }
}

/// Prefill writes pages as fast as it can while decode revokes at a random moment: the sink must
/// not run, nor be running, once `revoke` has returned.
fn fence_holds_against_racing_writes(room: &Room) {
    const REVOKED: u64 = 1 << 32;
    let (prefill, lists) = prefill(&room.address);
    let fence = Arc::new(AtomicU64::new(0));
    let (sender, heard) = channel();
    let seen = Arc::clone(&fence);
    let sink = move |inbound: DecodeInbound<'_>| {
        let DecodeInbound::Page { leg, .. } = inbound else {
            return drop(sender.send(inbound.into()));
        };
        // Long enough that a fence which does not wait for a running sink is caught.
        thread::sleep(Duration::from_micros(20));
        let is_late = seen.load(Ordering::SeqCst) == REVOKED | leg.attempt.0;
        drop(sender.send(Heard::Page(leg, u32::from(is_late), 0, Vec::new())));
    };
    let decode = DecodeFabric::connect(room.address.clone(), CALLER, RETRY, LIMITS, sink).unwrap();
    let mut delivered = 0;
    for number in 0..300 {
        let leg = attempt(number);
        decode.hello(leg).unwrap();
        assert_eq!(next(&heard), Heard::HandshakeReady(leg), "nothing comes between two attempts");
        decode.publish(leg, &[5]).unwrap();
        while !matches!(next(&lists), PrefillInbound::List { leg: listed, .. } if listed == leg) {}
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..8 {
                    prefill.to(0).unwrap().write_page(leg, 0, 5, vec![0; 64]).unwrap();
                }
            });
            thread::sleep(Duration::from_micros(u64::from(number % 50) * 10));
            decode.revoke(leg);
            fence.store(REVOKED | u64::from(number), Ordering::SeqCst);
        });
        for page in heard.try_iter() {
            delivered += 1;
            assert!(matches!(page, Heard::Page(_, 0, _, _)), "delivered behind the fence: {page:?}");
        }
    }
    await_dropped(&decode, 1);
    assert!(delivered > 0, "the race must be won by the writer at times too");
}

fn fence_cuts_off_a_list_that_is_used_late(room: &Room) {
    let (prefill, lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, attempt(1), &[7]);
    decode.revoke(attempt(1));
    grant(&decode, &heard, attempt(2), &[7]);
    // Prefill has both lists and acts on the old one first: same page, dead grant.
    assert!(matches!(next(&lists), PrefillInbound::List { leg, .. } if leg == attempt(1)));
    prefill.to(0).unwrap().write_page(attempt(1), 0, 7, vec![1]).unwrap();
    prefill.to(0).unwrap().write_row(attempt(1), ROW).unwrap();
    prefill.to(0).unwrap().fail(attempt(1), "late").unwrap();
    prefill.to(0).unwrap().write_page(attempt(2), 0, 7, vec![2]).unwrap();
    assert_eq!(next(&heard), Heard::Page(attempt(2), 0, 7, vec![2]));
    assert_eq!(decode.dropped(), 3);
}

fn fence_admits_only_the_pages_of_the_grant(room: &Room) {
    let (prefill, _lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[7, 8]);
    prefill.to(0).unwrap().write_page(LEG, 0, 8, vec![1]).unwrap();
    prefill.to(0).unwrap().write_page(LEG, 2, 8, vec![1]).unwrap();
    prefill.to(0).unwrap().write_page(LEG, u32::MAX, 8, vec![1]).unwrap();
    prefill.to(0).unwrap().write_page(attempt(9), 0, 7, vec![1]).unwrap();
    prefill.to(0).unwrap().write_page(LEG, 1, 8, vec![2]).unwrap();
    assert_eq!(next(&heard), Heard::Page(LEG, 1, 8, vec![2]));
    assert_eq!(decode.dropped(), 4);
}

fn fence_closes_with_the_row(room: &Room) {
    let (prefill, _lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[7]);
    prefill.to(0).unwrap().write_row(LEG, ROW).unwrap();
    prefill.to(0).unwrap().write_page(LEG, 0, 7, vec![1]).unwrap();
    assert_eq!(next(&heard), Heard::Row(LEG, ROW));
    await_dropped(&decode, 1);
    assert!(heard.try_recv().is_err());
}

on_each_fabric! {
    fence_cuts_off_a_list_that_is_used_late,
    fence_admits_only_the_pages_of_the_grant,
    fence_closes_with_the_row,
    fence_holds_against_racing_writes,
}
