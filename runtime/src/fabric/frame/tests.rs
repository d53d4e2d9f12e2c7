//! Frames alone: there and back, bounds, garbage, checksums.

use super::*;
use lockstep_spec::ids::{Attempt, Epoch, Generation, SlotIndex};

const LEG: Leg = Leg { epoch: Epoch(1), slot: SlotIndex(2), generation: Generation(3), attempt: Attempt(4) };
const LIMITS: FabricLimits = FabricLimits {
    page_bytes: 16,
    pages_per_leg: 4,
    queued_frames: 1,
    enqueue_deadline: Duration::ZERO,
    write_deadline: Duration::ZERO,
};

fn wire(frame: &Frame) -> Vec<u8> {
    [&frame.head[..], &frame.body[..]].concat()
}

#[test]
fn frame_survives_the_wire() {
    let page = ToDecode::Page { leg: LEG, index: 1, page: u32::MAX, checksum: 5 };
    let bytes = wire(&Frame::new(&page, vec![7; 16]).unwrap());
    let mut incoming = Incoming::new(&bytes[..], LIMITS);
    assert_eq!(incoming.read().unwrap(), (page, &[7; 16][..]));
    assert_eq!(incoming.read::<ToDecode>(), Err(FabricError::Closed));
}

#[test]
fn frame_longest_list_and_reason_fit_the_head_limit() {
    let everything = Leg {
        epoch: Epoch(u64::MAX),
        slot: SlotIndex(u32::MAX),
        generation: Generation(u64::MAX),
        attempt: Attempt(u64::MAX),
    };
    let list = ToPrefill::List { leg: everything, pages: vec![u32::MAX; 4] };
    let bytes = wire(&Frame::new(&list, Vec::new()).unwrap());
    assert_eq!(Incoming::new(&bytes[..], LIMITS).read::<ToPrefill>().unwrap().0, list);
    let reason = bounded_reason(&"é".repeat(1000));
    assert_eq!(reason.len(), REASON_BYTES);
    let fail = ToDecode::Fail { leg: everything, reason };
    let bytes = wire(&Frame::new(&fail, Vec::new()).unwrap());
    assert_eq!(Incoming::new(&bytes[..], LIMITS).read::<ToDecode>().unwrap().0, fail);
}

#[test]
fn frame_garbage_and_long_lengths_are_refused_before_they_are_read() {
    let garbage = [0xff; 64];
    let error = Incoming::new(&garbage[..], LIMITS).read::<ToDecode>().unwrap_err();
    assert!(matches!(error, FabricError::Oversize { what: "a frame's head", .. }), "{error}");
    let mut long_body = [0; 64];
    long_body[4] = 17;
    let error = Incoming::new(&long_body[..], LIMITS).read::<ToDecode>().unwrap_err();
    assert_eq!(error, FabricError::Oversize { what: "a page", length: 17, limit: 16 });
    let mut left_over = wire(&Frame::new(&ToDecode::Opened { version: 1 }, Vec::new()).unwrap());
    left_over[0] += 1;
    left_over.push(0);
    let error = Incoming::new(&left_over[..], LIMITS).read::<ToDecode>().unwrap_err();
    assert!(matches!(error, FabricError::Malformed(_)), "{error}");
}

#[test]
fn checksum_covers_bytes_and_place() {
    let reference = checksum(LEG, 1, 2, b"page");
    assert_ne!(reference, checksum(LEG, 1, 2, b"pagf"));
    assert_ne!(reference, checksum(LEG, 2, 2, b"page"));
    assert_ne!(reference, checksum(LEG, 1, 3, b"page"));
    assert_ne!(reference, checksum(Leg { attempt: Attempt(5), ..LEG }, 1, 2, b"page"));
}
