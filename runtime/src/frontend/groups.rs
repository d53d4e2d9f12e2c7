//! What the ranks of one epoch have said of themselves. Without I/O; time is ticks and instants handed in.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use tokio::sync::mpsc;

use super::goal::Goal;
use crate::wire::{FrontToRank, Progress, RankName, Role, Room, Seat};
use lockstep_spec::ids::Epoch;
use lockstep_spec::ticket::Site;

/// How far a rank is. A rank only moves down this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RankState {
    /// Its process was started.
    Starting,
    /// It has said hello.
    Joined,
    /// Its model is loaded and its group is formed.
    Ready,
    /// It was ready and has not been heard for too long.
    Silent,
    /// It has said what is fatal, or its connection is gone.
    Fatal,
    /// Its process has ended.
    Ended,
}

/// One rank in the body of `/health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RankHealth {
    /// The index.
    pub rank: u32,
    /// The process id; absent before its start.
    pub pid: Option<u32>,
    /// The epoch it told last.
    pub epoch: u64,
    /// The round it told last.
    pub round: u64,
    /// Where the last collective was that it told of; absent before its first report.
    pub site: Option<Site>,
    /// Slots in use, as it told last.
    pub slots_used: u32,
    /// Slots that it has; 0 until it is ready.
    pub slots: u32,
    /// Free KV pages, as it told last.
    pub pages_free: u32,
    /// KV pages that it has; 0 until it is ready.
    pub pages: u32,
    /// Milliseconds since it was heard last; absent before its hello.
    pub age_ms: Option<u64>,
    /// How far it is.
    pub state: RankState,
}

/// One group in the body of `/health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupHealth {
    /// Which group.
    pub role: Role,
    /// Its ranks, by index.
    pub ranks: Vec<RankHealth>,
}

/// What is known of one rank.
#[derive(Debug)]
pub(crate) struct Rank {
    pub(crate) state: RankState,
    pid: Option<u32>,
    outbox: Option<mpsc::Sender<FrontToRank>>,
    pub(crate) room: Option<Room>,
    pub(crate) progress: Option<Progress>,
    heard: Option<Instant>,
    quiet_ticks: u32,
    goal: Goal,
}

impl Rank {
    fn new() -> Self {
        Self {
            state: RankState::Starting,
            pid: None,
            outbox: None,
            room: None,
            progress: None,
            heard: None,
            quiet_ticks: 0,
            goal: Goal::new(),
        }
    }

    /// Takes note of a sign of life.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = Some(now);
        self.quiet_ticks = 0;
    }

    pub(crate) fn advance(&mut self, state: RankState) {
        self.state = self.state.max(state);
        if self.state >= RankState::Fatal {
            self.outbox = None;
        }
    }

    /// Counts a tick; `true` when the rank has just become silent.
    fn tick(&mut self, limit: u32) -> bool {
        self.quiet_ticks = self.quiet_ticks.saturating_add(1);
        let silent = self.quiet_ticks > limit;
        if silent {
            self.advance(RankState::Silent);
        }
        silent
    }

    /// Seconds since it was heard, for messages.
    fn silence(&self) -> f32 {
        self.heard.map_or(0.0, |heard| heard.elapsed().as_secs_f32())
    }

    fn health(&self, rank: u32, now: Instant) -> RankHealth {
        let progress = self.progress.unwrap_or_default();
        let age = self.heard.map(|heard| now.saturating_duration_since(heard).as_millis());
        let age_ms = age.map(|age| u64::try_from(age).unwrap_or(u64::MAX));
        let Progress { epoch, round, site, slots_used, pages_free, .. } = progress;
        let (slots, pages) = self.room.map_or((0, 0), |room| (room.slots, room.pages));
        let (pid, state) = (self.pid, self.state);
        RankHealth { rank, pid, epoch, round, site, slots_used, slots, pages_free, pages, age_ms, state }
    }
}

/// The ranks of both groups in one epoch.
#[derive(Debug)]
pub(crate) struct Groups {
    epoch: Epoch,
    ranks: BTreeMap<RankName, Rank>,
}

impl Groups {
    /// Both groups, of these sizes, before any rank of them is started.
    pub(crate) fn new(epoch: Epoch, decode: u32, prefill: u32) -> Self {
        let decode = (0..decode).map(|rank| RankName { role: Role::Decode, rank });
        let prefill = (0..prefill).map(|rank| RankName { role: Role::Prefill, rank });
        Self { epoch, ranks: decode.chain(prefill).map(|name| (name, Rank::new())).collect() }
    }

    /// Their epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The rank of this name.
    pub(crate) fn rank(&mut self, name: RankName) -> Option<&mut Rank> {
        self.ranks.get_mut(&name)
    }

    /// The rank of this seat; none when the seat is of another epoch.
    pub(crate) fn seat(&mut self, seat: Seat) -> Option<&mut Rank> {
        if seat.epoch == self.epoch { self.rank(seat.name) } else { None }
    }

    /// Notes the process of a rank.
    pub(crate) fn started(&mut self, name: RankName, pid: u32) {
        if let Some(rank) = self.rank(name) {
            rank.pid = Some(pid);
        }
    }

    /// Binds a connection to its rank; `false` when this rank has one, or this process is not that rank's in this epoch.
    pub(crate) fn join(
        &mut self,
        seat: Seat,
        pid: u32,
        outbox: mpsc::Sender<FrontToRank>,
        now: Instant,
    ) -> bool {
        // A process that has ended already may still have left its last words.
        let expected = |rank: &&mut Rank| rank.heard.is_none() && rank.pid == Some(pid);
        let Some(rank) = self.seat(seat).filter(expected) else { return false };
        rank.outbox = Some(outbox);
        rank.advance(RankState::Joined);
        rank.heard(now);
        true
    }

    /// Sends to one rank; `false` when it is gone. A rank whose outbox is full does not read: it is cut off.
    pub(crate) fn send(&mut self, name: RankName, message: FrontToRank) -> bool {
        let Some(rank) = self.rank(name) else { return false };
        let sent = rank.outbox.as_ref().is_some_and(|outbox| outbox.try_send(message).is_ok());
        if !sent && rank.outbox.is_some() {
            rank.advance(RankState::Fatal);
        }
        sent
    }

    /// The names of a group's ranks, by index.
    pub(crate) fn names(&self, role: Role) -> Vec<RankName> {
        self.ranks.keys().copied().filter(|name| name.role == role).collect()
    }

    /// What every rank of both groups can hold; `None` until all have told.
    pub(crate) fn room(&self) -> Option<Room> {
        let rooms: Option<Vec<Room>> = self.ranks.values().map(|rank| rank.room).collect();
        rooms?.into_iter().reduce(smaller)
    }

    /// Counts one tick and names the ready ranks that have now been quiet for more than `limit` ticks, each once, and says so.
    ///
    /// Ticks, not instants: a front end that was stopped itself must not take its own sleep for the ranks'.
    pub(crate) fn tick(&mut self, limit: u32) -> Vec<(RankName, String)> {
        self.tick_goals();
        let ready = self.ranks.iter_mut().filter(|(_, rank)| rank.state == RankState::Ready);
        let silent = ready.filter_map(|(name, rank)| rank.tick(limit).then_some((name, rank)));
        silent
            .map(|(name, rank)| (*name, format!("{name} has been silent for {:.1} s", rank.silence())))
            .collect()
    }

    fn tick_goals(&mut self) {
        let furthest = self.furthest();
        for (name, rank) in &mut self.ranks {
            if let Some(told) = rank.progress {
                let furthest = furthest.get(&name.role).copied().unwrap_or_default();
                rank.goal.tick(told.round, furthest, told.awaits_forward);
            }
        }
    }

    /// The furthest round that a rank of each group has told.
    fn furthest(&self) -> BTreeMap<Role, u64> {
        let mut furthest = BTreeMap::new();
        for (name, told) in self.progress() {
            let round = furthest.entry(name.role).or_insert(0);
            *round = told.round.max(*round);
        }
        furthest
    }

    /// The first rank that has not come, for more than `limit` ticks, to a round where a peer has been, or to its next one although
    /// there is work; and what is known of it.
    pub(crate) fn stalled(&self, has_work: bool, limit: u32) -> Option<(RankName, String)> {
        let furthest = self.furthest();
        self.ranks.iter().find_map(|(name, rank)| {
            let (told, furthest) = (rank.progress?, furthest.get(&name.role).copied()?);
            let missed = rank.goal.missed(furthest, has_work, limit)?;
            let site = told.site.map_or("no collective".to_owned(), |site| format!("{site:?}"));
            let (epoch, round) = (told.epoch, told.round);
            Some((*name, format!("{name} {missed}; it was last at round {round} of epoch {epoch}, {site}")))
        })
    }

    /// Whether a rank tells that a slot of it is used.
    pub(crate) fn holds_work(&self) -> bool {
        self.ranks.values().any(|rank| rank.progress.is_some_and(|told| told.slots_used > 0))
    }

    /// The first rank that is not ready yet.
    pub(crate) fn unready(&self) -> Option<RankName> {
        self.ranks.iter().find(|(_, rank)| rank.room.is_none()).map(|(name, _)| *name)
    }

    /// The latest counters of every rank that has told them.
    pub(crate) fn progress(&self) -> BTreeMap<RankName, Progress> {
        self.ranks.iter().filter_map(|(name, rank)| Some((*name, rank.progress?))).collect()
    }

    /// Whether every rank has told that it is paused, or that it is not.
    pub(crate) fn agree_on_pause(&self, paused: bool) -> bool {
        self.ranks.values().all(|rank| rank.progress.is_some_and(|progress| progress.paused == paused))
    }

    /// Notes that ranks are about to be paused, or not: what they told before counts no more.
    pub(crate) fn expect_pause(&mut self, paused: bool) {
        for progress in self.ranks.values_mut().filter_map(|rank| rank.progress.as_mut()) {
            progress.paused = !paused;
        }
    }

    /// Whether every rank tells that it holds nothing.
    pub(crate) fn is_drained(&self) -> bool {
        let holds_nothing = |rank: &Rank| {
            let told = rank.progress.zip(rank.room);
            told.is_some_and(|(progress, room)| progress.slots_used == 0 && progress.pages_free == room.pages)
        };
        self.ranks.values().all(holds_nothing)
    }

    /// Both groups as `/health` shows them.
    pub(crate) fn health(&self, now: Instant) -> Vec<GroupHealth> {
        [Role::Decode, Role::Prefill].map(|role| self.group_health(role, now)).into()
    }

    fn group_health(&self, role: Role, now: Instant) -> GroupHealth {
        let ranks = self.ranks.iter().filter(|(name, _)| name.role == role);
        GroupHealth { role, ranks: ranks.map(|(name, rank)| rank.health(name.rank, now)).collect() }
    }
}

/// What both of two can hold.
pub(crate) fn smaller(left: Room, right: Room) -> Room {
    Room {
        pages: left.pages.min(right.pages),
        page_size: left.page_size.min(right.page_size),
        slots: left.slots.min(right.slots),
        context: left.context.min(right.context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(2);
    const LEADER: RankName = RankName { role: Role::Decode, rank: 0 };

    fn seat(name: RankName) -> Seat {
        Seat { epoch: EPOCH, name }
    }

    fn joined() -> (Groups, mpsc::Receiver<FrontToRank>) {
        let (outbox, inbox) = mpsc::channel(1);
        let mut groups = Groups::new(EPOCH, 1, 1);
        groups.started(LEADER, 7);
        assert!(groups.join(seat(LEADER), 7, outbox, Instant::now()));
        (groups, inbox)
    }

    #[test]
    fn groups_bind_only_the_process_that_was_started_and_once() {
        let (mut groups, _inbox) = joined();
        let (outbox, _) = mpsc::channel(1);
        let mut joins = |seat, pid| groups.join(seat, pid, outbox.clone(), Instant::now());
        assert!(!joins(seat(LEADER), 7), "twice");
        let other = RankName { role: Role::Prefill, rank: 0 };
        assert!(!joins(seat(other), 8), "not started");
        groups.started(other, 8);
        let mut joins = |seat, pid| groups.join(seat, pid, outbox.clone(), Instant::now());
        assert!(!joins(seat(other), 9), "another process");
        assert!(!joins(seat(RankName { rank: 5, ..other }), 8), "no such rank");
        assert!(!joins(Seat { epoch: Epoch(1), name: other }, 8), "an epoch that is over");
        assert!(joins(seat(other), 8));
    }

    #[test]
    fn groups_let_an_ended_rank_say_its_last_words() {
        let mut groups = Groups::new(EPOCH, 1, 1);
        groups.started(LEADER, 7);
        groups.rank(LEADER).unwrap().advance(RankState::Ended);
        let (outbox, _) = mpsc::channel(1);
        assert!(groups.join(seat(LEADER), 7, outbox, Instant::now()));
        assert_eq!(groups.rank(LEADER).unwrap().state, RankState::Ended);
        assert!(!groups.send(LEADER, FrontToRank::Shutdown));
    }

    #[test]
    fn groups_cut_a_rank_off_that_does_not_read() {
        let (mut groups, mut inbox) = joined();
        assert!(groups.send(LEADER, FrontToRank::Shutdown));
        assert!(!groups.send(LEADER, FrontToRank::Shutdown));
        assert_eq!(inbox.try_recv(), Ok(FrontToRank::Shutdown));
        assert_eq!(inbox.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        assert_eq!(groups.health(Instant::now())[0].ranks[0].state, RankState::Fatal);
    }

    #[test]
    fn groups_name_a_ready_rank_that_is_quiet_for_too_long() {
        let (mut groups, _inbox) = joined();
        assert!(groups.tick(0).is_empty(), "not ready yet: its model is loading");
        groups.rank(LEADER).unwrap().advance(RankState::Ready);
        assert!(groups.tick(1).is_empty());
        groups.rank(LEADER).unwrap().heard(Instant::now());
        assert!(groups.tick(1).is_empty());
        let named = groups.tick(1);
        assert!(
            matches!(named.as_slice(), [(LEADER, why)] if why.starts_with("decode rank 0 has been silent for "))
        );
        assert!(groups.tick(1).is_empty(), "named once");
    }
}
