//! How a connection ends: a peer that dies, is late, old, a stranger, or stuck.

use lockstep_spec::ids::{Attempt, Epoch, SlotIndex};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use super::support::{
    CALLER, Heard, LEG, LIMITS, RETRY, ROW, RawPeer, Room, decode, grant, next, on_each_fabric, prefill,
};
use crate::fabric::frame::{ToDecode, ToPrefill, VERSION};
use crate::fabric::{
    DecodeFabric, DecodeInbound, FabricError, FabricLimits, Leg, LegFailure, Pair, PrefillFabric,
    PrefillInbound, Retry,
};

fn leg(slot: u32) -> Leg {
    Leg { slot: SlotIndex(slot), ..LEG }
}

fn lost(slot: u32) -> Heard {
    Heard::LegFailed(leg(slot), LegFailure::Disconnected(FabricError::Closed))
}

fn peer_gone_fails_every_leg_and_the_next_peer_is_found(room: &Room) {
    let listener = room.listener();
    let (decode, heard) = decode(&room.address, RETRY);
    let peer = RawPeer::answer(&listener);
    for slot in 0..3 {
        decode.hello(leg(slot)).unwrap();
    }
    peer.accept_leg(leg(0));
    peer.accept_leg(leg(1));
    assert_eq!(next(&heard), Heard::HandshakeReady(leg(0)));
    assert_eq!(next(&heard), Heard::HandshakeReady(leg(1)));
    decode.publish(leg(0), &[1]).unwrap();
    assert_eq!(peer.receive::<ToPrefill>(), ToPrefill::Hello { leg: leg(2) });
    assert!(matches!(peer.receive(), ToPrefill::List { .. }));
    drop((peer, listener));
    for slot in 0..3 {
        assert_eq!(next(&heard), lost(slot));
    }
    assert_eq!(next(&heard), Heard::PeerGone(FabricError::Closed));
    let (_next, _lists) = prefill(&room.address);
    grant(&decode, &heard, Leg { attempt: Attempt(2), ..LEG }, &[1]);
}

fn handshake_waits_for_a_peer_that_comes_late(room: &Room) {
    let (decode, heard) = decode(&room.address, RETRY);
    decode.hello(LEG).unwrap();
    thread::sleep(RETRY.interval * 2);
    let (_prefill, _lists) = prefill(&room.address);
    assert_eq!(next(&heard), Heard::HandshakeReady(LEG));
}

fn handshake_fails_when_its_retries_are_used_up(room: &Room) {
    let retry = Retry { count: 3, ..RETRY };
    let (decode, heard) = decode(&room.address, retry);
    let started = Instant::now();
    decode.hello(LEG).unwrap();
    assert!(matches!(next(&heard), Heard::HandshakeFailed(LEG, FabricError::Io { .. })));
    assert!(started.elapsed() >= retry.interval * 3);
    assert!(matches!(decode.publish(LEG, &[1]), Err(FabricError::NotReady { .. })));
}

fn handshake_fails_when_a_connected_peer_is_silent(room: &Room) {
    let listener = room.listener();
    let (decode, heard) = decode(&room.address, Retry { count: 3, ..RETRY });
    let _silent = RawPeer::answer(&listener);
    decode.hello(LEG).unwrap();
    assert_eq!(next(&heard), Heard::HandshakeFailed(LEG, FabricError::Silent));
}

fn decode_closes_on_garbage_and_says_so(room: &Room) {
    let listener = room.listener();
    let (decode, heard) = decode(&room.address, RETRY);
    let peer = RawPeer::answer(&listener);
    peer.shake(&decode, &heard, LEG);
    (&peer.stream).write_all(&[0xa5; 4096]).unwrap();
    let Heard::LegFailed(LEG, LegFailure::Disconnected(why)) = next(&heard) else {
        panic!("the leg fails");
    };
    assert!(matches!(why, FabricError::Malformed(_)), "{why}");
    assert_eq!(next(&heard), Heard::PeerGone(why));
    assert!(peer.is_closed());
}

fn prefill_turns_garbage_away_and_keeps_its_peer(room: &Room) {
    let (_prefill, lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[1]);
    assert!(matches!(next(&lists), PrefillInbound::List { .. }));
    let small_lengths = [vec![3, 0, 0, 0, 0, 0, 0, 0], vec![0xff; 3]].concat();
    for garbage in [vec![0xa5; 4096], small_lengths, Vec::new()] {
        let stranger = room.address.connect().unwrap();
        (&stranger).write_all(&garbage).unwrap();
        // It may have been turned away already, with what it sent unread.
        rustix::net::shutdown(&stranger.0, rustix::net::Shutdown::Write).ok();
        let PrefillInbound::Rejected { why } = next(&lists) else {
            panic!("a stranger is turned away");
        };
        let clear = matches!(why, FabricError::Malformed(_) | FabricError::Closed);
        assert!(clear, "{why}");
    }
    decode.revoke(LEG);
    assert_eq!(next(&lists), PrefillInbound::Revoked { leg: LEG });
}

fn prefill_closes_on_garbage_behind_the_opening(room: &Room) {
    let (_prefill, lists) = prefill(&room.address);
    let peer = RawPeer::call(&room.address, 3, VERSION);
    peer.opened();
    peer.send(&ToPrefill::Hello { leg: LEG }, &[]);
    assert!(matches!(peer.receive(), ToDecode::HelloAck { leg: LEG }));
    (&peer.stream).write_all(&[0xa5; 64]).unwrap();
    let gone = next(&lists);
    assert!(
        matches!(gone, PrefillInbound::PeerGone { epoch: 3, why: FabricError::Malformed(_) }),
        "{gone:?}"
    );
    assert!(peer.is_closed());
}

fn prefill_refuses_another_version_another_pair_and_an_older_epoch(room: &Room) {
    let (_prefill, lists) = prefill(&room.address);
    let other = RawPeer::call(&room.address, 3, VERSION + 1);
    assert!(matches!(other.receive(), ToDecode::Refused { .. }));
    let why = FabricError::Version { ours: VERSION, theirs: VERSION + 1 };
    assert_eq!(next(&lists), PrefillInbound::Rejected { why });
    let theirs = Pair { prefill: 1, ..CALLER.pair };
    let stranger = RawPeer::call_as(&room.address, theirs, 3, VERSION);
    assert!(matches!(stranger.receive(), ToDecode::Refused { .. }));
    let why = FabricError::OtherPair { ours: CALLER.pair, theirs };
    assert_eq!(next(&lists), PrefillInbound::Rejected { why });
    let current = RawPeer::call(&room.address, 3, VERSION);
    current.opened();
    let old = RawPeer::call(&room.address, 2, VERSION);
    let ToDecode::Refused { why } = old.receive() else {
        panic!("an old epoch is refused");
    };
    assert!(why.contains("epoch 2"), "{why}");
    let why = FabricError::OldEpoch { newest: 3, theirs: 2 };
    assert_eq!(next(&lists), PrefillInbound::Rejected { why });
}

fn prefill_lets_a_newer_epoch_replace_the_older(room: &Room) {
    let (sender, lists) = std::sync::mpsc::channel();
    let sink = move |_, inbound| {
        // A report that takes its time shows whether the next connection waits for it.
        thread::sleep(Duration::from_millis(100));
        drop(sender.send(inbound));
    };
    let prefill = PrefillFabric::listen(&room.address, &[CALLER.pair], LIMITS, sink).unwrap();
    let old = RawPeer::call(&room.address, 3, VERSION);
    old.opened();
    let new = RawPeer::call(&room.address, 4, VERSION);
    new.opened();
    let reported = lists.try_recv().expect("the old one's end is reported before the new one starts");
    assert!(matches!(reported, PrefillInbound::PeerGone { epoch: 3, .. }));
    assert!(old.is_closed());
    new.send(&ToPrefill::Hello { leg: Leg { epoch: Epoch(4), ..LEG } }, &[]);
    assert!(matches!(new.receive(), ToDecode::HelloAck { .. }));
    assert_eq!(
        prefill.to(0).unwrap().write_row(LEG, ROW),
        Err(FabricError::OtherEpoch { leg: LEG, connected: 4 })
    );
}

fn prefill_gives_up_a_peer_that_does_not_read(room: &Room) {
    let limits = FabricLimits {
        queued_frames: 4,
        enqueue_deadline: Duration::from_millis(50),
        write_deadline: Duration::from_millis(300),
        ..LIMITS
    };
    let (sender, lists) = std::sync::mpsc::channel();
    let sink = move |_, inbound| drop(sender.send(inbound));
    let prefill = PrefillFabric::listen(&room.address, &[CALLER.pair], limits, sink).unwrap();
    let stuck = RawPeer::call(&room.address, 3, VERSION);
    stuck.opened();
    stuck.send(&ToPrefill::Hello { leg: LEG }, &[]);
    assert!(matches!(stuck.receive(), ToDecode::HelloAck { .. }));
    let started = Instant::now();
    let write = || prefill.to(0).unwrap().write_page(LEG, 0, 1, vec![0; limits.page_bytes]);
    // A queue may be full for a moment only because its writer has no core.
    let refused = std::iter::repeat_with(write).filter_map(Result::err);
    assert_ne!(refused.take_while(|why| *why == FabricError::QueueFull).count(), 0);
    let why = FabricError::Stuck;
    assert_eq!(next(&lists), PrefillInbound::PeerGone { epoch: 3, why });
    assert!(started.elapsed() < limits.write_deadline * 5);
    assert_eq!(prefill.to(0).unwrap().write_row(LEG, ROW), Err(FabricError::Disconnected));
}

fn decode_stops_while_its_peer_keeps_writing(room: &Room) {
    let (prefill, _lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[1]);
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| while prefill.to(0).unwrap().write_page(LEG, 0, 1, vec![0; 64]).is_ok() {});
        while !matches!(next(&heard), Heard::Page(..)) {}
        drop(decode);
    });
    assert!(started.elapsed() < LIMITS.write_deadline);
}

fn decode_survives_a_sink_that_panics(room: &Room) {
    let (_prefill, lists) = prefill(&room.address);
    let sink = |_: DecodeInbound<'_>| panic!("the sink's own fault");
    let decode = DecodeFabric::connect(room.address.clone(), CALLER, RETRY, LIMITS, sink).unwrap();
    decode.hello(LEG).unwrap();
    assert!(matches!(next(&lists), PrefillInbound::PeerGone { epoch: 3, .. }));
    drop(decode);
}

fn handshake_fails_when_the_peer_never_opens(room: &Room) {
    let _deaf = room.listener();
    let (decode, heard) = decode(&room.address, Retry { count: 3, ..RETRY });
    let started = Instant::now();
    decode.hello(LEG).unwrap();
    assert_eq!(next(&heard), Heard::HandshakeFailed(LEG, FabricError::Silent));
    assert!(started.elapsed() < Duration::from_millis(600), "not bound to the opening's deadline");
}

fn prefill_turns_a_silent_caller_away(room: &Room) {
    let (_prefill, lists) = prefill(&room.address);
    let _silent = room.address.connect().unwrap();
    let why = FabricError::Silent;
    assert_eq!(next(&lists), PrefillInbound::Rejected { why });
}

on_each_fabric! {
    peer_gone_fails_every_leg_and_the_next_peer_is_found,
    handshake_waits_for_a_peer_that_comes_late,
    handshake_fails_when_its_retries_are_used_up,
    handshake_fails_when_a_connected_peer_is_silent,
    decode_closes_on_garbage_and_says_so,
    prefill_turns_garbage_away_and_keeps_its_peer,
    prefill_closes_on_garbage_behind_the_opening,
    prefill_refuses_another_version_another_pair_and_an_older_epoch,
    prefill_lets_a_newer_epoch_replace_the_older,
    prefill_gives_up_a_peer_that_does_not_read,
    decode_stops_while_its_peer_keeps_writing,
    decode_survives_a_sink_that_panics,
    handshake_fails_when_the_peer_never_opens,
    prefill_turns_a_silent_caller_away,
}
