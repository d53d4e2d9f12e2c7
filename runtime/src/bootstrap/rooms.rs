//! Which data-parallel group serves a room: what was said last, for two minutes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::error::Refusal;

/// How long a room is known; as long as in SGLang.
pub(super) const LIFE: Duration = Duration::from_secs(120);
/// Most rooms that are known at once.
pub(super) const MOST_ROOMS: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Entry {
    dp_rank: u32,
    since: Instant,
}

impl Entry {
    fn lives(&self, now: Instant) -> bool {
        now.duration_since(self.since) < LIFE
    }
}

/// The rooms that are known.
#[derive(Debug, Default)]
pub(super) struct Rooms(BTreeMap<u64, Entry>);

impl Rooms {
    /// Notes who serves `room`; a room that is known already is the newest speaker's.
    pub(super) fn register(&mut self, room: u64, dp_rank: u32, now: Instant) -> Result<(), Refusal> {
        if self.0.len() >= MOST_ROOMS {
            self.0.retain(|_, entry| entry.lives(now));
        }
        if self.0.len() >= MOST_ROOMS && !self.0.contains_key(&room) {
            return Err(Refusal::RoomsFull(MOST_ROOMS));
        }
        self.0.insert(room, Entry { dp_rank, since: now });
        Ok(())
    }

    /// Who serves each of `rooms`; those that are not known are left out.
    pub(super) fn dp_ranks(&self, rooms: &[u64], now: Instant) -> BTreeMap<u64, u32> {
        let known = |room: &u64| {
            self.0.get(room).filter(|entry| entry.lives(now)).map(|entry| (*room, entry.dp_rank))
        };
        rooms.iter().filter_map(known).collect()
    }
}
