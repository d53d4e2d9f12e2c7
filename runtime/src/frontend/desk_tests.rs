//! The desk without sockets: what ranks say against what clients get.

use super::*;
use crate::frontend::{Delivery, End};
use crate::wire::FinishReason;
use lockstep_spec::ids::{Attempt, Epoch, Generation, SlotIndex};

const PREFILL: RankName = RankName { role: Role::Prefill, rank: 0 };
const ROOM: Room = Room { pages: 8, page_size: 16, slots: 2, context: 100 };

struct Ranks {
    desk: Arc<Desk>,
    decode: mpsc::Receiver<FrontToRank>,
    prefill: mpsc::Receiver<FrontToRank>,
}

fn joined() -> Ranks {
    let desk = Desk::new(DeskPlan {
        decode_ranks: 1,
        prefill_ranks: 1,
        max_queue: 2,
        vocabulary: 256,
        silence_ticks: 3,
    });
    let [decode, prefill] = [(DECODE_LEADER, 1), (PREFILL, 2)].map(|(rank, pid)| {
        desk.process_started(rank, pid);
        desk.join(rank, pid).unwrap()
    });
    Ranks { desk, decode, prefill }
}

fn ready() -> Ranks {
    let ranks = joined();
    ranks.desk.hear(DECODE_LEADER, RankToFront::Ready(ROOM)).unwrap();
    ranks.desk.hear(PREFILL, RankToFront::Ready(Room { pages: 4, ..ROOM })).unwrap();
    ranks
}

fn submission() -> Submission {
    Submission { prompt: vec![1, 2], max_tokens: 4, ignore_eos: true }
}

fn token(request: u64, index: u32) -> RankToFront {
    RankToFront::Token { request, index, token: 7, ended: None }
}

#[test]
fn desk_takes_requests_when_all_are_ready_and_knows_the_least_room() {
    let ranks = joined();
    assert_eq!(ranks.desk.submit(submission()).unwrap_err(), ApiError::Starting);
    ranks.desk.hear(DECODE_LEADER, RankToFront::Ready(ROOM)).unwrap();
    assert_eq!(ranks.desk.room(), Err(ApiError::Starting));
    ranks.desk.hear(PREFILL, RankToFront::Ready(Room { pages: 4, ..ROOM })).unwrap();
    assert_eq!(ranks.desk.room(), Ok(Room { pages: 4, ..ROOM }));
}

#[test]
fn desk_hands_a_request_over_and_answers_its_leg() {
    let mut ranks = ready();
    let live = ranks.desk.submit(submission()).unwrap();
    let submit = FrontToRank::Submit { request: 0, prompt_tokens: 2, max_tokens: 4, ignore_eos: true };
    assert_eq!(ranks.decode.try_recv(), Ok(submit));
    ranks.desk.hear(DECODE_LEADER, token(0, 0)).unwrap();
    let leg = Leg { epoch: Epoch(1), slot: SlotIndex(0), generation: Generation(0), attempt: Attempt(2) };
    ranks.desk.hear(DECODE_LEADER, RankToFront::LegWanted { request: 0, leg, generated: 1 }).unwrap();
    assert_eq!(ranks.prefill.try_recv(), Ok(FrontToRank::Leg { leg, acceptance: 0, tokens: vec![1, 2, 7] }));
    drop(live);
    assert_eq!(ranks.decode.try_recv(), Ok(FrontToRank::Abort { request: 0 }));
}

#[test]
fn desk_aborts_nothing_that_has_ended() {
    let mut ranks = ready();
    let live = ranks.desk.submit(submission()).unwrap();
    let outcome = Outcome::Finished(FinishReason::Stop);
    ranks.desk.hear(DECODE_LEADER, RankToFront::Ended { request: 0, outcome }).unwrap();
    drop(live);
    assert!(matches!(ranks.decode.try_recv(), Ok(FrontToRank::Submit { .. })));
    assert!(ranks.decode.try_recv().is_err());
}

#[test]
fn desk_bounds_the_queue_until_the_group_has_ended_a_request() {
    let ranks = ready();
    let first = ranks.desk.submit(submission()).unwrap();
    let _second = ranks.desk.submit(submission()).unwrap();
    drop(first);
    assert_eq!(ranks.desk.submit(submission()).unwrap_err(), ApiError::QueueFull { limit: 2 });
    ranks.desk.hear(DECODE_LEADER, RankToFront::Ended { request: 0, outcome: Outcome::Aborted }).unwrap();
    assert!(ranks.desk.submit(submission()).is_ok());
}

#[test]
fn desk_faults_name_the_rank_that_is_out_of_place() {
    let ranks = ready();
    let fault = ranks.desk.hear(PREFILL, token(0, 0)).unwrap_err();
    assert_eq!(fault, GroupFault::OutOfPlace { rank: PREFILL, message: "token" });
    let fault = ranks.desk.hear(DECODE_LEADER, token(0, 0)).unwrap_err().to_string();
    assert_eq!(fault, "decode rank 0 broke the protocol: request 0 is not open");
    let hello = RankToFront::Hello { role: Role::Prefill, rank: 0, pid: 2 };
    assert!(ranks.desk.hear(PREFILL, hello).is_err());
}

#[tokio::test]
async fn desk_a_lost_prefill_group_ends_streams_and_aborts_them_in_decode() {
    let mut ranks = ready();
    let mut live = ranks.desk.submit(submission()).unwrap();
    ranks.desk.lose(Role::Prefill, "prefill rank 0 died".into());
    let lost = Delivery { token: None, end: Some(End::Lost("prefill rank 0 died".into())) };
    assert_eq!(live.next().await, lost);
    drop(live);
    assert!(matches!(ranks.decode.try_recv(), Ok(FrontToRank::Submit { .. })));
    assert_eq!(ranks.decode.try_recv(), Ok(FrontToRank::Abort { request: 0 }));
    assert!(ranks.decode.try_recv().is_err(), "once");
    let refused = ranks.desk.submit(submission()).unwrap_err();
    assert_eq!(refused, ApiError::Lost { reason: "prefill rank 0 died".into() });
}

#[test]
fn desk_keeps_stopping_whatever_is_lost_meanwhile() {
    let mut ranks = ready();
    ranks.desk.stop();
    assert_eq!(ranks.decode.try_recv(), Ok(FrontToRank::Shutdown));
    assert_eq!(ranks.prefill.try_recv(), Ok(FrontToRank::Shutdown));
    ranks.desk.lose(Role::Decode, "it left".into());
    assert_eq!(ranks.desk.room(), Err(ApiError::Stopping));
    assert_eq!(ranks.desk.health().code(), 503);
}

#[test]
fn desk_asks_a_rank_to_leave_that_comes_during_the_stop() {
    let desk = Desk::new(DeskPlan {
        decode_ranks: 1,
        prefill_ranks: 1,
        max_queue: 2,
        vocabulary: 256,
        silence_ticks: 3,
    });
    desk.process_started(DECODE_LEADER, 1);
    desk.stop();
    assert_eq!(desk.join(DECODE_LEADER, 1).unwrap().try_recv(), Ok(FrontToRank::Shutdown));
}
