//! Frames alone: there and back, bounds, garbage, checksums.

use super::*;
use lockstep_spec::ids::{Attempt, Epoch, Generation, SlotIndex};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

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
    let page = ToDecode::Page { leg: LEG, index: 1, page: u32::MAX, checksum: 5, held: None };
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

/// A frame's first bytes, with checksums that are right.
fn prefix(head: u32, body: u32, bytes: &[u8]) -> Vec<u8> {
    let lengths = [head.to_le_bytes(), body.to_le_bytes()].concat();
    let checks = [crc32fast::hash(&lengths).to_le_bytes(), crc32fast::hash(bytes).to_le_bytes()].concat();
    [lengths, checks, bytes.to_vec()].concat()
}

#[test]
fn frame_long_lengths_and_garbage_are_refused_before_they_are_read() {
    let read = |bytes: Vec<u8>| Incoming::new(&bytes[..], LIMITS).read::<ToDecode>().map(drop).unwrap_err();
    let error = read(prefix(u32::MAX, 0, &[]));
    assert!(matches!(error, FabricError::Oversize { what: "a frame's head", .. }), "{error}");
    assert_eq!(read(prefix(4, 17, &[0; 4])), FabricError::Oversize { what: "a page", length: 17, limit: 16 });
    assert_eq!(read(prefix(2, 0, &[0xff; 2])), FabricError::Malformed("an unknown message"));
    let opened = wire(&Frame::new(&ToDecode::Opened { version: 1, memory: None }, Vec::new()).unwrap());
    let left_over = [&opened[PREFIX_BYTES..], &[0]].concat();
    assert_eq!(read(prefix(4, 0, &left_over)), FabricError::Malformed("a head with bytes left over"));
}

#[test]
fn frame_a_flipped_bit_is_noticed_wherever_it_is() {
    let row = ToDecode::Row { leg: LEG, row: Row { echo: LEG, first_token: 300 } };
    let page =
        ToDecode::Page { leg: LEG, index: 1, page: 2, checksum: checksum(LEG, 1, 2, &[7; 16]), held: None };
    for (message, body) in [(row, Vec::new()), (page, vec![7; 16])] {
        let whole = wire(&Frame::new(&message, body).unwrap());
        for bit in 0..8 * whole.len() {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let mut incoming = Incoming::new(&flipped[..], LIMITS);
            let noticed =
                incoming.read::<ToDecode>().map_or(true, |(message, body)| !is_whole(&message, body));
            assert!(noticed, "bit {bit} of {message:?}");
        }
    }
}

fn legs() -> impl Strategy<Value = Leg> {
    (any::<u64>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(epoch, slot, generation, attempt)| {
        Leg {
            epoch: Epoch(epoch),
            slot: SlotIndex(slot),
            generation: Generation(generation),
            attempt: Attempt(attempt),
        }
    })
}

/// What a connection brings, read until it ends; memory stays within the limits whatever the lengths say.
fn read_all(bytes: &[u8]) -> (Vec<ToDecode>, FabricError) {
    let (mut incoming, mut read) = (Incoming::new(bytes, LIMITS), Vec::new());
    loop {
        let message = incoming.read::<ToDecode>().map(|(message, _)| message);
        assert!(incoming.head.capacity() <= 2 * LIMITS.head_bytes(), "{} bytes", incoming.head.capacity());
        assert!(incoming.body.capacity() <= 2 * LIMITS.page_bytes, "{} bytes", incoming.body.capacity());
        match message {
            Ok(message) => read.push(message),
            Err(why) => return (read, why),
        }
    }
}

proptest! {
    #[test]
    fn frame_of_arbitrary_bytes_is_refused(bytes in vec(any::<u8>(), 0..200), head in 0..40_u32, body in 0..40_u32) {
        prop_assert_eq!(read_all(&bytes).0, []);
        // Behind lengths and checksums that are right.
        read_all(&prefix(head, body, &bytes[..bytes.len().min(head as usize)]));
    }

    #[test]
    fn frame_survives_whatever_it_names(leg in legs(), index in any::<u32>(), page in any::<u32>(), bytes in vec(any::<u8>(), 0..16)) {
        let message = ToDecode::Page { leg, index, page, checksum: checksum(leg, index, page, &bytes), held: None };
        let whole = wire(&Frame::new(&message, bytes.clone()).unwrap());
        let mut incoming = Incoming::new(&whole[..], LIMITS);
        prop_assert_eq!(incoming.read().unwrap(), (message, &bytes[..]));
    }

    #[test]
    fn frame_that_is_cut_or_changed_is_not_read_as_another(leg in legs(), token in any::<u32>(), at in any::<Index>(), change in 1..=u8::MAX) {
        let message = ToDecode::Row { leg, row: Row { echo: leg, first_token: token } };
        let whole = wire(&Frame::new(&message, Vec::new()).unwrap());
        let cut = &whole[..at.index(whole.len())];
        prop_assert_eq!(read_all(cut), (vec![], FabricError::Closed));
        let mut changed = whole.clone();
        changed[at.index(whole.len())] ^= change;
        prop_assert_eq!(read_all(&changed).0, []);
    }
}

#[test]
fn checksum_covers_bytes_and_place() {
    let reference = checksum(LEG, 1, 2, b"page");
    assert_ne!(reference, checksum(LEG, 1, 2, b"pagf"));
    assert_ne!(reference, checksum(LEG, 2, 2, b"page"));
    assert_ne!(reference, checksum(LEG, 1, 3, b"page"));
    assert_ne!(reference, checksum(Leg { attempt: Attempt(5), ..LEG }, 1, 2, b"page"));
}
