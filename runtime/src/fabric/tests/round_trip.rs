//! One leg from hello to row, and what each side is told on the way.

use lockstep_spec::ids::{Attempt, Epoch};

use super::support::{
    Heard, LEG, LIMITS, RETRY, ROW, RawPeer, Room, decode, grant, next, on_each_fabric, prefill,
};
use crate::fabric::frame::{ToDecode, ToPrefill, checksum};
use crate::fabric::{FabricError, Leg, LegFailure, PrefillInbound, Row};

fn round_trip_brings_pages_then_the_row(room: &Room) {
    let (prefill, lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[40, 41]);
    let (leg, pages) = (LEG, vec![40, 41]);
    assert_eq!(next(&lists), PrefillInbound::List { leg, pages });
    prefill.to(0).unwrap().write_page(LEG, 0, 40, vec![1; LIMITS.page_bytes]).unwrap();
    prefill.to(0).unwrap().write_page(LEG, 1, 41, vec![2; 3]).unwrap();
    prefill.to(0).unwrap().write_row(LEG, ROW).unwrap();
    assert_eq!(next(&heard), Heard::Page(LEG, 0, 40, vec![1; LIMITS.page_bytes]));
    assert_eq!(next(&heard), Heard::Page(LEG, 1, 41, vec![2; 3]));
    assert_eq!(next(&heard), Heard::Row(LEG, ROW));
    assert_eq!(next(&lists), PrefillInbound::Written { leg });
    assert_eq!(decode.dropped(), 0);
}

fn round_trip_delivers_a_row_of_another_echo_as_it_is(room: &Room) {
    let (prefill, _lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[40]);
    let odd = Row { echo: Leg { attempt: Attempt(0), ..LEG }, ..ROW };
    prefill.to(0).unwrap().write_row(LEG, odd).unwrap();
    assert_eq!(next(&heard), Heard::Row(LEG, odd));
}

fn round_trip_brings_a_failure_in_prefills_words(room: &Room) {
    let (prefill, lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[40]);
    assert!(matches!(next(&lists), PrefillInbound::List { .. }));
    prefill.to(0).unwrap().fail(LEG, "prompt digest differs").unwrap();
    let reason = LegFailure::Prefill("prompt digest differs".to_owned());
    assert_eq!(next(&heard), Heard::LegFailed(LEG, reason));
    assert_eq!(next(&lists), PrefillInbound::Written { leg: LEG });
}

fn round_trip_repeats_a_list_and_reports_a_revocation(room: &Room) {
    let (_prefill, lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[40]);
    decode.publish(LEG, &[40]).unwrap();
    assert_eq!(next(&lists), next(&lists));
    decode.revoke(LEG);
    decode.revoke(LEG);
    assert_eq!(next(&lists), PrefillInbound::Revoked { leg: LEG });
}

fn publish_is_refused_out_of_turn(room: &Room) {
    let (_prefill, _lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    assert_eq!(decode.publish(LEG, &[1]), Err(FabricError::NotReady { leg: LEG }));
    grant(&decode, &heard, LEG, &[1]);
    assert_eq!(decode.publish(LEG, &[2]), Err(FabricError::Regranted { leg: LEG }));
    let long = vec![0; LIMITS.pages_per_leg + 1];
    assert!(matches!(decode.publish(LEG, &long), Err(FabricError::Oversize { .. })));
    let leg = Leg { epoch: Epoch(4), ..LEG };
    assert_eq!(decode.hello(leg), Err(FabricError::OtherEpoch { leg, connected: 3 }));
}

fn write_is_refused_for_another_epoch_and_over_the_limit(room: &Room) {
    let (prefill, lists) = prefill(&room.address);
    assert_eq!(prefill.to(0).unwrap().write_row(LEG, ROW), Err(FabricError::Disconnected));
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[1]);
    assert!(matches!(next(&lists), PrefillInbound::List { .. }));
    let leg = Leg { epoch: Epoch(2), ..LEG };
    assert_eq!(prefill.to(0).unwrap().fail(leg, "old"), Err(FabricError::OtherEpoch { leg, connected: 3 }));
    let long = vec![0; LIMITS.page_bytes + 1];
    assert!(matches!(prefill.to(0).unwrap().write_page(LEG, 0, 1, long), Err(FabricError::Oversize { .. })));
}

fn page_with_a_wrong_checksum_is_reported_and_withheld(room: &Room) {
    let listener = room.listener();
    let (decode, heard) = decode(&room.address, RETRY);
    let peer = RawPeer::answer(&listener);
    peer.shake(&decode, &heard, LEG);
    decode.publish(LEG, &[40]).unwrap();
    assert!(matches!(peer.receive(), ToPrefill::List { .. }));
    let right = checksum(LEG, 0, 40, b"kv");
    peer.send(&ToDecode::Page { leg: LEG, index: 0, page: 40, checksum: right ^ 1, held: None }, b"kv");
    peer.send(&ToDecode::Page { leg: LEG, index: 0, page: 40, checksum: right, held: None }, b"kv");
    assert_eq!(next(&heard), Heard::Corrupt(LEG, 0));
    assert_eq!(next(&heard), Heard::Page(LEG, 0, 40, b"kv".to_vec()));
}

on_each_fabric! {
    round_trip_brings_pages_then_the_row,
    round_trip_delivers_a_row_of_another_echo_as_it_is,
    round_trip_brings_a_failure_in_prefills_words,
    round_trip_repeats_a_list_and_reports_a_revocation,
    publish_is_refused_out_of_turn,
    write_is_refused_for_another_epoch_and_over_the_limit,
    page_with_a_wrong_checksum_is_reported_and_withheld,
}
