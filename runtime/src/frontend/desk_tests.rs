//! The desk without sockets: what ranks say against what clients get.

use super::*;
use crate::frontend::{Delivery, End};
use crate::wire::{Draw, Leg, Outcome, Request, Sampling};
use lockstep_spec::ids::{Attempt, Generation, SlotIndex};
use lockstep_spec::poll::Reason;
use lockstep_spec::ticket::Site;

const PREFILL: RankName = RankName { role: Role::Prefill, rank: 0 };
const ROOM: Room = Room { pages: 8, page_size: 16, slots: 2, context: 100 };

const PLAN: DeskPlan = DeskPlan {
    connections: 2,
    decode_ranks: 1,
    prefill_ranks: 1,
    max_queue: 2,
    vocabulary: 256,
    prefix: Prefix { page_size: 2, pages: 4 },
    silence_ticks: 6,
    stall_ticks: 3,
};

struct Ranks {
    desk: Arc<Desk>,
    epoch: Epoch,
    decode: mpsc::Receiver<FrontToRank>,
    prefill: mpsc::Receiver<FrontToRank>,
}

impl Ranks {
    /// Both ranks of the epoch that the desk begins.
    fn join(desk: Arc<Desk>) -> Self {
        let epoch = desk.begin_epoch();
        let [decode, prefill] = [DECODE_LEADER, PREFILL].map(|name| {
            desk.process_started(name, 1);
            desk.join(Seat { epoch, name }, 1).unwrap()
        });
        Self { desk, epoch, decode, prefill }
    }

    fn ready(self) -> Self {
        self.hear(DECODE_LEADER, RankToFront::Ready(ROOM)).unwrap();
        self.hear(PREFILL, RankToFront::Ready(Room { pages: 4, ..ROOM })).unwrap();
        self
    }

    fn hear(&self, name: RankName, message: RankToFront) -> Result<(), GroupFault> {
        self.desk.hear(Seat { epoch: self.epoch, name }, message)
    }
}

fn joined() -> Ranks {
    Ranks::join(Desk::new(PLAN))
}

fn ready() -> Ranks {
    joined().ready()
}

fn submitted(id: u64, generated: u32) -> FrontToRank {
    let id = RequestId(id);
    FrontToRank::Submit(Request {
        id,
        prompt_tokens: 2,
        max_tokens: 4,
        generated,
        ignore_eos: true,
        sampling: Sampling::GREEDY,
    })
}

fn submission() -> Submission {
    Submission { prompt: vec![1, 2], max_tokens: 4, ignore_eos: true, sampling: Sampling::GREEDY, room: None }
}

fn token(request: u64, index: u32) -> RankToFront {
    RankToFront::Token { request, index, token: 7, ended: None }
}

#[test]
fn desk_takes_requests_when_all_are_ready_and_knows_the_least_room() {
    let ranks = joined();
    assert_eq!(ranks.desk.submit(submission()).unwrap_err(), ApiError::Starting);
    ranks.hear(DECODE_LEADER, RankToFront::Ready(ROOM)).unwrap();
    assert_eq!(ranks.desk.room(), Err(ApiError::Starting));
    ranks.hear(PREFILL, RankToFront::Ready(Room { pages: 4, ..ROOM })).unwrap();
    assert_eq!(ranks.desk.room(), Ok(Room { pages: 4, ..ROOM }));
}

#[test]
fn desk_hands_a_request_over_and_answers_its_leg() {
    let mut ranks = ready();
    let live = ranks.desk.submit(submission()).unwrap();
    assert_eq!(ranks.decode.try_recv(), Ok(submitted(0, 0)));
    ranks.hear(DECODE_LEADER, token(0, 0)).unwrap();
    let leg = Leg { epoch: Epoch(1), slot: SlotIndex(0), generation: Generation(0), attempt: Attempt(2) };
    ranks.hear(DECODE_LEADER, RankToFront::LegWanted { request: 0, leg, generated: 1 }).unwrap();
    assert_eq!(
        ranks.prefill.try_recv(),
        Ok(FrontToRank::Leg {
            leg,
            acceptance: 0,
            tokens: vec![1, 2, 7],
            keys: PLAN.prefix.keys(&[1, 2]),
            draw: Draw { sampling: Sampling::GREEDY, index: 1 }
        })
    );
    drop(live);
    assert_eq!(ranks.decode.try_recv(), Ok(FrontToRank::Abort { request: 0 }));
}

#[test]
fn desk_aborts_nothing_that_has_ended() {
    let mut ranks = ready();
    let live = ranks.desk.submit(submission()).unwrap();
    ranks.hear(DECODE_LEADER, RankToFront::Ended { request: 0, outcome: Outcome::Stop }).unwrap();
    drop(live);
    assert!(matches!(ranks.decode.try_recv(), Ok(FrontToRank::Submit(_))));
    assert!(ranks.decode.try_recv().is_err());
}

#[test]
fn desk_bounds_the_queue_until_the_group_has_ended_a_request() {
    let ranks = ready();
    let first = ranks.desk.submit(submission()).unwrap();
    let _second = ranks.desk.submit(submission()).unwrap();
    drop(first);
    assert_eq!(ranks.desk.submit(submission()).unwrap_err(), ApiError::QueueFull { limit: 2 });
    ranks.hear(DECODE_LEADER, RankToFront::Ended { request: 0, outcome: Outcome::Aborted }).unwrap();
    assert!(ranks.desk.submit(submission()).is_ok());
}

#[test]
fn desk_faults_name_the_rank_that_is_out_of_place() {
    let ranks = ready();
    let fault = ranks.hear(PREFILL, token(0, 0)).unwrap_err();
    assert_eq!(fault, GroupFault::OutOfPlace { rank: PREFILL, message: "token" });
    let fault = ranks.hear(DECODE_LEADER, token(0, 0)).unwrap_err().to_string();
    assert_eq!(fault, "decode rank 0 broke the protocol: request 0 is not open");
    let hello = RankToFront::Hello { epoch: ranks.epoch, role: Role::Prefill, rank: 0, pid: 1 };
    assert!(ranks.hear(PREFILL, hello).is_err());
}

#[test]
fn desk_goes_on_in_the_next_epoch_in_acceptance_order() {
    let mut old = ready();
    let _first = old.desk.submit(submission()).unwrap();
    let gone = old.desk.submit(submission()).unwrap();
    old.hear(DECODE_LEADER, token(0, 0)).unwrap();
    old.desk.end_epoch("it died".into());
    assert_eq!(old.desk.health().code(), 503);
    drop(gone);
    let _meanwhile = old.desk.submit(submission()).unwrap();
    assert_eq!(old.desk.submit(submission()).unwrap_err(), ApiError::QueueFull { limit: 2 });
    while old.decode.try_recv().is_ok_and(|message| message != FrontToRank::Abort { request: 1 }) {}
    assert!(old.decode.try_recv().is_err(), "the old leader is told nothing more");

    let mut new = Ranks::join(Arc::clone(&old.desk)).ready();
    assert_eq!((old.epoch, new.epoch), (Epoch(1), Epoch(2)));
    let told = [new.decode.try_recv(), new.decode.try_recv(), new.decode.try_recv()];
    assert_eq!(told[..2], [Ok(submitted(0, 1)), Ok(submitted(2, 0))]);
    assert!(told[2].is_err(), "the request whose client left is not among them");
    let health = new.desk.health();
    assert_eq!((health.code().as_u16(), health.epoch, health.restarts), (200, 2, 1));
}

#[tokio::test]
async fn desk_takes_no_word_of_an_epoch_that_is_over() {
    let old = ready();
    let mut live = old.desk.submit(submission()).unwrap();
    old.desk.end_epoch("it died".into());
    let mut new = Ranks::join(Arc::clone(&old.desk));
    let leg = Leg { epoch: Epoch(1), slot: SlotIndex(0), generation: Generation(0), attempt: Attempt(0) };
    for late in [
        token(0, 0),
        RankToFront::Ended { request: 0, outcome: Outcome::Aborted },
        RankToFront::LegWanted { request: 0, leg, generated: 3 },
        RankToFront::Ready(ROOM),
        RankToFront::Progress(Progress { round: 9, ..Progress::default() }),
    ] {
        old.hear(DECODE_LEADER, late).unwrap();
    }
    assert!(new.prefill.try_recv().is_err());
    assert_eq!(new.desk.unready(), Some(DECODE_LEADER));
    assert!(new.desk.progress().is_empty());
    old.desk.link_ended(Seat { epoch: old.epoch, name: DECODE_LEADER });
    let new = new.ready();
    new.hear(DECODE_LEADER, token(0, 0)).unwrap();
    assert_eq!(live.next().await, Delivery { token: Some(7), end: None });
}

#[tokio::test]
async fn desk_submits_a_request_once_more_whose_transfer_failed() {
    let mut ranks = ready();
    let mut live = ranks.desk.submit(submission()).unwrap();
    let failed = || RankToFront::Ended { request: 0, outcome: Outcome::Failed(Reason::TransferFailed) };
    ranks.hear(DECODE_LEADER, failed()).unwrap();
    assert_eq!(
        [ranks.decode.try_recv(), ranks.decode.try_recv()],
        [Ok(submitted(0, 0)), Ok(submitted(0, 0))]
    );
    ranks.hear(DECODE_LEADER, failed()).unwrap();
    assert!(matches!(live.next().await.end, Some(End::Failed(_))));
}

#[tokio::test]
async fn desk_a_loss_for_good_ends_streams_and_hears_nothing_more() {
    let ranks = ready();
    let mut live = ranks.desk.submit(submission()).unwrap();
    ranks.desk.lose("prefill rank 0 died".into());
    let lost = Delivery { token: None, end: Some(End::Lost("prefill rank 0 died".into())) };
    assert_eq!(live.next().await, lost);
    ranks.hear(DECODE_LEADER, token(0, 0)).unwrap();
    ranks.desk.explain("prefill rank 0 died; so did rank 1".into());
    let refused = ranks.desk.submit(submission()).unwrap_err();
    assert_eq!(refused, ApiError::Lost { reason: "prefill rank 0 died; so did rank 1".into() });
}

#[test]
fn desk_holds_requests_back_under_a_pause_within_the_bound() {
    let mut ranks = ready();
    ranks.desk.pause(true).unwrap();
    assert_eq!(
        [ranks.decode.try_recv(), ranks.prefill.try_recv()],
        [Ok(FrontToRank::Pause), Ok(FrontToRank::Pause)]
    );
    let gone = ranks.desk.submit(submission()).unwrap();
    let _waits = ranks.desk.submit(submission()).unwrap();
    assert_eq!(ranks.desk.submit(submission()).unwrap_err(), ApiError::QueueFull { limit: 2 });
    drop(gone);
    assert!(ranks.decode.try_recv().is_err(), "the group is told of neither");
    let health = ranks.desk.health();
    assert_eq!(
        (health.status, health.code().as_u16(), health.paused, health.queue),
        ("paused", 200, true, 1)
    );
    ranks.desk.pause(false).unwrap();
    assert_eq!(
        [ranks.decode.try_recv(), ranks.decode.try_recv()],
        [Ok(FrontToRank::Resume), Ok(submitted(1, 0))]
    );
    assert!(ranks.decode.try_recv().is_err());
}

#[test]
fn desk_a_pause_is_settled_once_every_rank_has_told_so_after_it() {
    let ranks = ready();
    let tell = |name, paused| {
        ranks.hear(name, RankToFront::Progress(Progress { paused, ..Progress::default() })).unwrap();
        ranks.desk.is_pause_settled(paused)
    };
    assert!(!tell(DECODE_LEADER, false), "prefill has told nothing");
    assert!(tell(PREFILL, false));
    ranks.desk.pause(true).unwrap();
    assert!(!ranks.desk.is_pause_settled(true));
    assert!(!tell(DECODE_LEADER, true));
    assert!(tell(PREFILL, true));
    assert!(!ranks.desk.is_pause_settled(false), "nobody has asked for that since");
    ranks.desk.pause(false).unwrap();
    ranks.desk.pause(true).unwrap();
    assert!(!ranks.desk.is_pause_settled(true), "what was told before the last word does not count");
}

#[test]
fn desk_a_pause_holds_for_the_next_epoch() {
    let old = ready();
    let _open = old.desk.submit(submission()).unwrap();
    old.desk.pause(true).unwrap();
    old.desk.end_epoch("it died".into());
    let mut new = Ranks::join(Arc::clone(&old.desk)).ready();
    assert_eq!(
        [new.decode.try_recv(), new.prefill.try_recv()],
        [Ok(FrontToRank::Pause), Ok(FrontToRank::Pause)]
    );
    assert!(new.decode.try_recv().is_err(), "what was open waits");
    assert!(!new.desk.is_pause_settled(true));
    new.desk.pause(false).unwrap();
    assert_eq!(
        [new.decode.try_recv(), new.decode.try_recv()],
        [Ok(FrontToRank::Resume), Ok(submitted(0, 0))]
    );
}

#[test]
fn desk_health_turns_red_when_rounds_stop_and_work_exists() {
    let ranks = ready();
    let tick = |ticks: u32, round| {
        let tell = |_| {
            let told = Progress { epoch: 1, round, site: Some(Site::Vote), ..Progress::default() };
            for name in [DECODE_LEADER, PREFILL] {
                ranks.hear(name, RankToFront::Progress(told)).unwrap();
            }
            ranks.desk.tick()
        };
        (0..ticks).flat_map(tell).collect::<Vec<_>>()
    };
    assert_eq!(tick(20, 5), [], "idle");
    assert_eq!(ranks.desk.health().status, "ok");
    tick(1, 6);
    let _works = ranks.desk.submit(submission()).unwrap();
    assert_eq!(tick(3, 6), []);
    assert_eq!(ranks.desk.health().status, "ok", "not yet");
    assert_eq!(tick(1, 6), []);
    let health = ranks.desk.health();
    assert_eq!((health.status, health.code().as_u16()), ("stalled", 503));
    let reason = health.reason.unwrap();
    assert!(reason.starts_with("decode rank 0 has not come to round 7 for "), "{reason}");
    assert!(reason.ends_with("it was last at round 6 of epoch 1, Vote"), "{reason}");
    tick(1, 7);
    assert_eq!(ranks.desk.health().status, "ok", "rounds go on");
    let found = tick(7, 7);
    assert!(matches!(found.as_slice(), [(DECODE_LEADER, why)] if why.contains("round 8")), "{found:?}");
}

#[test]
fn desk_keeps_stopping_whatever_is_lost_meanwhile() {
    let mut ranks = ready();
    ranks.desk.stop();
    assert_eq!(ranks.decode.try_recv(), Ok(FrontToRank::Shutdown));
    assert_eq!(ranks.prefill.try_recv(), Ok(FrontToRank::Shutdown));
    ranks.desk.lose("it left".into());
    assert_eq!(ranks.desk.room(), Err(ApiError::Stopping));
    assert_eq!(ranks.desk.health().code(), 503);
}

#[test]
fn desk_asks_a_rank_to_leave_that_comes_during_the_stop() {
    let desk = Desk::new(PLAN);
    desk.process_started(DECODE_LEADER, 1);
    desk.stop();
    let seat = Seat { epoch: FIRST_EPOCH, name: DECODE_LEADER };
    assert_eq!(desk.join(seat, 1).unwrap().try_recv(), Ok(FrontToRank::Shutdown));
}
