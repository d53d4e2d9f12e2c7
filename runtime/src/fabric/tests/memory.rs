//! Pages through memory that both ends have mapped, against a peer that is driven by hand.

use std::thread;
use std::time::Instant;

use super::support::{CALLER, Heard, LEG, LIMITS, RETRY, RawPeer, Room, decode, grant, next, prefill};
use crate::fabric::depot::Cells;
use crate::fabric::frame::{Held, ToDecode, ToPrefill, VERSION};
use crate::fabric::{FabricError, FabricKind, LegFailure};

/// Where the next page lies, and the page if that is a cell.
fn page(peer: &RawPeer, cells: &Cells) -> (Option<Held>, Vec<u8>) {
    let ToDecode::Page { held, .. } = peer.receive() else { panic!("no page") };
    let mut bytes = Vec::new();
    held.iter().for_each(|held| cells.read(*held, &mut bytes).unwrap());
    (held, bytes)
}

#[test]
fn memory_has_pages_until_no_cell_is_free_and_the_stream_has_the_others() {
    let room = Room::of(FabricKind::Shm);
    let (prefill, _lists) = prefill(&room.address);
    let peer = RawPeer::call(&room.address, CALLER.epoch, VERSION);
    let cells = peer.opened().unwrap();
    peer.send(&ToPrefill::Hello { leg: LEG }, &[]);
    assert_eq!(peer.receive::<ToDecode>(), ToDecode::HelloAck { leg: LEG });
    let link = prefill.to(0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| (0..66).for_each(|index| link.write_page(LEG, index, 40, vec![7; 100]).unwrap()));
        let pages: Vec<_> = (0..66).map(|_| page(&peer, &cells)).collect();
        assert!(pages[..64].iter().all(|(held, bytes)| held.is_some() && *bytes == [7; 100]));
        assert_eq!((pages[64].0, pages[65].0), (None, None));
        let freed = pages[9].0.unwrap();
        peer.send(&ToPrefill::Taken { cell: freed.cell }, &[]);
        let again = (0..200).find_map(|index| {
            link.write_page(LEG, index, 40, vec![8; 50]).unwrap();
            page(&peer, &cells).0
        });
        assert_eq!(again, Some(Held { bytes: 50, ..freed }));
    });
}

#[test]
fn memory_that_there_is_not_ends_the_connection() {
    let nowhere = FabricError::Malformed("a page in a cell where there are none");
    let (length, limit) = (LIMITS.page_bytes + 1, LIMITS.page_bytes);
    let long = FabricError::Oversize { what: "a page", length, limit };
    for (bytes, why) in [(2, nowhere), (length, long)] {
        let room = Room::of(FabricKind::Shm);
        let listener = room.listener();
        let (decode, heard) = decode(&room.address, RETRY);
        let peer = RawPeer::answer(&listener);
        peer.shake(&decode, &heard, LEG);
        decode.publish(LEG, &[40]).unwrap();
        let held = Some(Held { cell: 0, bytes: bytes.try_into().unwrap() });
        peer.send(&ToDecode::Page { leg: LEG, index: 0, page: 40, checksum: 0, held }, &[]);
        assert_eq!(next(&heard), Heard::LegFailed(LEG, LegFailure::Disconnected(why)));
    }
}

#[test]
fn memory_has_its_cells_back_once_their_pages_are_taken() {
    let room = Room::of(FabricKind::Shm);
    let (prefill, lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[40]);
    next(&lists);
    let link = prefill.to(0).unwrap();
    for index in 0..200 {
        link.write_page(LEG, 0, 40, vec![index; 1000]).unwrap();
        assert_eq!(next(&heard), Heard::Page(LEG, 0, 40, vec![index; 1000]), "cells come back");
    }
}

/// Seconds that so many pages take from one end to the other.
fn seconds_for(pages: u32, kind: FabricKind) -> f64 {
    let room = Room::of(kind);
    let (prefill, lists) = prefill(&room.address);
    let (decode, heard) = decode(&room.address, RETRY);
    grant(&decode, &heard, LEG, &[40]);
    next(&lists);
    let link = prefill.to(0).unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        let page = || vec![3; LIMITS.page_bytes];
        scope.spawn(move || (0..pages).for_each(|_| link.write_page(LEG, 0, 40, page()).unwrap()));
        (0..pages).for_each(|_| drop(next(&heard)));
    });
    begun.elapsed().as_secs_f64()
}

/// `cargo test -p lockstep-runtime --lib rate_of_pages -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn rate_of_pages() {
    const PAGES: u32 = 4000;
    let mut seconds = [const { Vec::new() }; 3];
    for _ in 0..5 {
        for (kind, seconds) in [FabricKind::Shm, FabricKind::Unix, FabricKind::Tcp].iter().zip(&mut seconds) {
            seconds.push(seconds_for(PAGES, *kind));
        }
    }
    let [shm, unix, tcp] = seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        seconds[2]
    });
    let rate = f64::from(PAGES) * LIMITS.page_bytes as f64 / 1e6 / shm;
    eprintln!("shm {rate:.0} MB/s, {:.2} x unix, {:.2} x tcp; medians of five", unix / shm, tcp / shm);
}
