//! The anteroom: ranks that launchers started wait here until every rank of both groups has come; then an epoch can begin. Without I/O.
//!
//! Whoever waits has never served: a process that has served in an epoch ends with it. So an epoch's ranks are all new to it, whatever
//! their launchers do, and in whichever order.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::wire::{Assignment, Enlistment, RankName, Role, Seat, Terms, version};
use lockstep_spec::ids::Epoch;

/// What launchers' ranks must be, and what they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPlan {
    /// Digest of the model's `config.json`.
    pub model: u64,
    /// What both groups have in common.
    pub terms: Terms,
    /// How long clients wait for ranks that were lost.
    pub absence: Duration,
}

/// A rank that waits.
#[derive(Debug)]
pub(crate) struct Recruit {
    /// What it said of itself.
    pub(crate) enlistment: Enlistment,
    /// The machine from which it called.
    pub(crate) host: IpAddr,
    /// Takes what it is to do; closed once its connection has ended.
    pub(crate) call: oneshot::Sender<Call>,
}

/// What a rank that waits is to do.
#[derive(Debug)]
pub(crate) enum Call {
    /// Leave: the deployment ends.
    Leave,
    /// Leave: there is no place for it; and whether there never will be.
    Refuse { why: String, for_good: bool },
    /// Take this seat.
    Serve {
        /// The seat.
        seat: Seat,
        /// What it needs to serve.
        assignment: Assignment,
        /// Notified once, it cuts the rank off.
        cut: Arc<Notify>,
    },
}

/// Those who wait.
#[derive(Debug)]
pub(crate) struct Anteroom {
    plan: CallPlan,
    waiting: BTreeMap<RankName, Recruit>,
}

impl Anteroom {
    /// Nobody waits yet.
    pub(crate) fn new(plan: CallPlan) -> Self {
        Self { plan, waiting: BTreeMap::new() }
    }

    /// Lets a rank wait, or refuses it; tells which, and in words for the operator.
    pub(crate) fn admit(&mut self, recruit: Recruit) -> String {
        self.forget_gone();
        let (host, pid) = (recruit.host, recruit.enlistment.pid);
        let name = RankName { role: recruit.enlistment.role, rank: recruit.enlistment.rank };
        let stranger = self.stranger(&recruit.enlistment, name);
        let for_good = stranger.is_some();
        if let Some(why) = stranger.or_else(|| self.second(name)) {
            // One that is gone need not be told.
            recruit.call.send(Call::Refuse { why: why.clone(), for_good }).ok();
            return format!("{name} ({host}, pid {pid}) is refused: {why}");
        }
        self.waiting.insert(name, recruit);
        let absent = self.absent();
        let state =
            if absent.is_empty() { "all are there".into() } else { format!("still to come: {absent}") };
        format!("{name} ({host}, pid {pid}) waits for an epoch; {state}")
    }

    /// How long clients wait for ranks that were lost.
    pub(crate) fn absence(&self) -> Duration {
        self.plan.absence
    }

    /// What tells a rank from those of this deployment.
    fn stranger(&self, enlistment: &Enlistment, name: RankName) -> Option<String> {
        let Enlistment { version: theirs, model, rank, size, kv_type, .. } = enlistment;
        let (ours, wanted) = (version(), self.plan.terms.sizes.of(name.role));
        if *theirs != ours {
            return Some(format!(
                "it is lockstep {:?}, and this {ours}: start the same program everywhere",
                theirs.chars().take(100).collect::<String>()
            ));
        }
        if *size != wanted || *rank >= wanted {
            let role = name.role;
            return Some(format!(
                "it is rank {rank} of {size}, and the {role} group has {wanted} ranks: compare --tp (or --{role}-tp) with the launcher's number"
            ));
        }
        if *model != self.plan.model {
            return Some("the config.json of its model is another: name the same model with --model".into());
        }
        let others = self
            .waiting
            .values()
            .map(|recruit| &recruit.enlistment.kv_type)
            .find(|other| *other != kv_type)?;
        Some(format!(
            "its keys and values are {kv_type:.9?}, and those of a rank that waits {others:?}: give all the same --kv-type"
        ))
    }

    /// Who is in a rank's place already.
    fn second(&self, name: RankName) -> Option<String> {
        let other = self.waiting.get(&name)?;
        let (host, pid) = (other.host, other.enlistment.pid);
        Some(format!("another process ({host}, pid {pid}) waits in this place: start each rank once"))
    }

    /// The ranks that have not come; empty when all have.
    pub(crate) fn absent(&self) -> String {
        let absent = self.names().filter(|name| !self.waiting.contains_key(name));
        absent.map(|name| name.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Whether every rank waits, and none has gone meanwhile.
    pub(crate) fn is_full(&mut self) -> bool {
        self.forget_gone();
        self.names().all(|name| self.waiting.contains_key(&name))
    }

    /// Takes those who wait out, each with what it needs to serve in `epoch`. To be asked for when all are there.
    pub(crate) fn muster(&mut self, epoch: Epoch) -> Vec<(Seat, Assignment, Recruit)> {
        let terms = self.plan.terms;
        let waiting = std::mem::take(&mut self.waiting);
        let meeting = |role| Some(waiting.get(&RankName { role, rank: 0 })?.enlistment.listens);
        let meetings = BTreeMap::from([Role::Decode, Role::Prefill].map(|role| (role, meeting(role))));
        let mustered = waiting.into_iter().filter_map(|(name, recruit)| {
            let meeting = meetings.get(&name.role).copied().flatten()?;
            Some((Seat { epoch, name }, Assignment { epoch, meeting, terms }, recruit))
        });
        mustered.collect()
    }

    /// Sends everybody away.
    pub(crate) fn clear(&mut self, call: impl Fn() -> Call) {
        for recruit in std::mem::take(&mut self.waiting).into_values() {
            // One that is gone need not be told.
            recruit.call.send(call()).ok();
        }
    }

    fn names(&self) -> impl Iterator<Item = RankName> + use<> {
        let sizes = self.plan.terms.sizes;
        [Role::Decode, Role::Prefill]
            .into_iter()
            .flat_map(move |role| (0..sizes.of(role)).map(move |rank| RankName { role, rank }))
    }

    fn forget_gone(&mut self) {
        self.waiting.retain(|_, recruit| !recruit.call.is_closed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Mode;
    use crate::wire::{Keeping, Meeting, Sizes};
    use std::net::{Ipv4Addr, SocketAddr};

    fn plan() -> CallPlan {
        let terms = Terms {
            deployment: 1,
            sizes: Sizes { decode: 2, prefill: 2 },
            bootstrap: SocketAddr::from(([0, 0, 0, 0], 8998)),
            handshake_tries: 2,
            mode: Mode::Overlap,
            slots: 3,
            pages: 4,
            page_size: 5,
            chunk_tokens: 6,
            keeping: Keeping { prefix_pages: 7, host_pages: 8, swap_pages: 9 },
            unchecked: false,
        };
        CallPlan { model: 7, terms, absence: Duration::ZERO }
    }

    fn enlistment(role: Role, rank: u32) -> Enlistment {
        let port = 100 + u16::try_from(rank).unwrap();
        let at = |host| SocketAddr::from(([10, 0, 0, host], port));
        let listens = Meeting { control: at(1), device: at(2) };
        Enlistment {
            version: version(),
            model: 7,
            role,
            rank,
            size: 2,
            pid: 9,
            kv_type: "f32".into(),
            listens,
        }
    }

    fn come(anteroom: &mut Anteroom, enlistment: Enlistment) -> (String, oneshot::Receiver<Call>) {
        let (call, called) = oneshot::channel();
        let host = Ipv4Addr::LOCALHOST.into();
        (anteroom.admit(Recruit { enlistment, host, call }), called)
    }

    const ALL: [(Role, u32); 4] =
        [(Role::Prefill, 1), (Role::Decode, 0), (Role::Prefill, 0), (Role::Decode, 1)];

    #[test]
    fn anteroom_musters_an_epoch_once_all_are_there() {
        let mut anteroom = Anteroom::new(plan());
        let mut links = Vec::new();
        for (role, rank) in ALL {
            assert!(!anteroom.is_full());
            links.push(come(&mut anteroom, enlistment(role, rank)));
        }
        assert!(links[1].0.ends_with("still to come: decode rank 1, prefill rank 0"), "{}", links[1].0);
        assert!(links[3].0.ends_with("all are there"), "{}", links[3].0);
        assert!(anteroom.is_full());
        let mustered = anteroom.muster(Epoch(3));
        assert_eq!(mustered.len(), 4);
        for (seat, assignment, recruit) in mustered {
            assert_eq!((seat.epoch, assignment.epoch), (Epoch(3), Epoch(3)));
            assert_eq!(recruit.enlistment.rank, seat.name.rank);
            assert_eq!(assignment.meeting, enlistment(seat.name.role, 0).listens, "that of rank 0");
        }
        assert!(!anteroom.is_full(), "nobody is called twice");
    }

    #[test]
    fn anteroom_does_not_count_whoever_has_gone() {
        let mut anteroom = Anteroom::new(plan());
        let mut links: Vec<_> =
            ALL.iter().map(|&(role, rank)| come(&mut anteroom, enlistment(role, rank)).1).collect();
        drop(links.pop());
        assert!(!anteroom.is_full());
        assert_eq!(anteroom.absent(), "decode rank 1");
        let (_, link) = come(&mut anteroom, enlistment(Role::Decode, 1));
        assert!(anteroom.is_full(), "its place is free again");
        anteroom.clear(|| Call::Leave);
        assert!(matches!(link.blocking_recv(), Ok(Call::Leave)));
    }

    #[test]
    fn anteroom_refuses_whom_there_is_no_place_for() {
        let mut anteroom = Anteroom::new(plan());
        let _waits = come(&mut anteroom, enlistment(Role::Decode, 0));
        let mine = || enlistment(Role::Decode, 1);
        for (refused, why) in [
            (Enlistment { version: "0 old".into(), ..mine() }, "start the same program"),
            (Enlistment { size: 4, ..mine() }, "--tp"),
            (Enlistment { rank: 2, ..mine() }, "--tp"),
            (Enlistment { model: 8, ..mine() }, "--model"),
            (Enlistment { kv_type: "bf16".into(), ..mine() }, "--kv-type"),
            (enlistment(Role::Decode, 0), "start each rank once"),
        ] {
            let (words, link) = come(&mut anteroom, refused);
            let Ok(Call::Refuse { why: told, for_good }) = link.blocking_recv() else { panic!("{words}") };
            assert_eq!(for_good, why != "start each rank once", "another may leave its place");
            assert!(told.contains(why) && words.ends_with(&told), "{why}: {words}");
        }
        assert_eq!(anteroom.absent(), "decode rank 1, prefill rank 0, prefill rank 1");
    }
}
