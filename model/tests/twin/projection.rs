//! A state of the agreed level as the modules of `spec/tla` write it. Every field is either in the picture or asserted to be what it
//! always is there, so that the picture loses nothing: as many pictures as states.

use crate::value::Value;
use lockstep_model::agreed_level::{AgreedLevel, Ghost};
use lockstep_model::decode::setting::DecodeSetting;
use lockstep_spec::decode::evidence::Grant;
use lockstep_spec::decode::phase::{Outcome, Phase, Tenant};
use lockstep_spec::decode::request::Request;
use lockstep_spec::host::{Copy, Direction};
use lockstep_spec::ids::{Attempt, CopyId, ForwardId, Generation, HostPageId, PageId, RequestId, SlotIndex};
use lockstep_spec::poll::Reason;
use lockstep_spec::table::{Flight, Flights, Row, Slot, State};

/// The state's picture, without its variant.
pub(crate) fn picture(setting: &DecodeSetting, level: &AgreedLevel) -> Value {
    let AgreedLevel { state, ghosts, violation } = level;
    // A decode group keeps nothing.
    let State { slots, pool, flights, closing, paused, cache: _, host } = state;
    assert!(!closing && !paused, "the group neither leaves nor pauses at this level");
    assert!(violation.is_none(), "only sound states have a picture");
    let ages = state.by_age(|_| true);
    for (age, slot) in (0..).map(RequestId).zip(&ages) {
        let id = state.occupant(*slot).map(|tenant| tenant.request.id);
        assert_eq!(id, Some(age), "request ids are ages");
    }
    let Flights { next, queue, pending } = flights;
    assert_eq!(next.0, queue.len() as u64, "the next forward's number is the length of the queue");
    let agreed = Value::record([
        ("table", slots.iter().map(|slot| entry(setting, slot)).collect()),
        ("ages", ages.into_iter().map(slot_number).collect()),
        ("free", Value::Set(pool.free().iter().copied().map(page_number).collect())),
        ("hosts", Value::Set(host.free().iter().copied().map(host_number).collect())),
        ("copies", (0..).map(CopyId).zip(host.copies()).map(copy).collect()),
        ("flights", (0..).map(ForwardId).zip(queue).map(plan).collect()),
        ("verdicts", pending.iter().map(|rows| rows.iter().copied().map(Value::Flag).collect()).collect()),
    ]);
    let fabric = ghosts.iter().map(remote).collect();
    Value::record([("agreed", agreed), ("fabric", fabric), ("fault", Value::text("none"))])
}

fn slot_number(slot: SlotIndex) -> Value {
    Value::Number(slot.index() as u64 + 1)
}

fn page_number(page: PageId) -> Value {
    Value::Number(u64::from(page.0) + 1)
}

fn host_number(page: HostPageId) -> Value {
    Value::Number(u64::from(page.0) + 1)
}

fn page_list(pages: &[PageId]) -> Value {
    pages.iter().copied().map(page_number).collect()
}

fn entry(setting: &DecodeSetting, slot: &Slot<Tenant>) -> Value {
    let Slot { generation, attempt, occupant } = slot;
    assert_eq!(
        (*generation, *attempt),
        (Generation(0), Attempt(0)),
        "one occupant and attempt of a slot live"
    );
    let Some(Tenant { request, phase, pages, host_pages, generated }) = occupant else {
        return Value::record([("phase", Value::text("free"))]);
    };
    let (phase, outcome) = phase_words(*phase);
    Value::record([
        ("phase", Value::text(phase)),
        ("kind", Value::Number(kind(setting, request))),
        ("pages", page_list(pages)),
        ("copy", host_pages.iter().copied().map(host_number).collect()),
        ("generated", Value::Number(u64::from(*generated))),
        ("outcome", Value::text(outcome)),
    ])
}

/// Index of a request's kind, from 1.
fn kind(setting: &DecodeSetting, request: &Request) -> u64 {
    let same = |kind: &lockstep_model::decode::setting::RequestKind| kind.request(request.id) == *request;
    let index = setting.kinds.iter().position(same);
    index.expect("a request is exactly as its kind makes it") as u64 + 1
}

fn phase_words(phase: Phase) -> (&'static str, &'static str) {
    match phase {
        Phase::Bootstrapping => ("bootstrapping", "none"),
        Phase::Handshaken => ("handshaken", "none"),
        Phase::Transferring => ("transferring", "none"),
        Phase::Ready => ("ready", "none"),
        Phase::Running => ("running", "none"),
        Phase::Retracting => ("retracting", "none"),
        Phase::Retracted => ("retracted", "none"),
        Phase::Stored => ("stored", "none"),
        Phase::Restoring => ("restoring", "none"),
        Phase::Draining(outcome) => ("draining", outcome_word(outcome)),
    }
}

fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Stop => "stop",
        Outcome::Length => "length",
        Outcome::Aborted => "aborted",
        Outcome::Failed(Reason::TransferFailed) => "transfer-failed",
        Outcome::Failed(Reason::Corrupt) => "corrupt",
        Outcome::Failed(Reason::WrongLeg) => "wrong-leg",
        Outcome::Failed(Reason::HandshakeFailed) => "handshake-failed",
        Outcome::Failed(Reason::DeadlinePassed) => "deadline-passed",
        Outcome::Failed(Reason::Revoked) => "revoked",
        Outcome::Failed(Reason::FirstTokenDiffers) => "first-token-differs",
        Outcome::Failed(Reason::NeverFits) => "never-fits",
    }
}

fn plan((number, flight): (ForwardId, &Flight)) -> Value {
    let Flight { id, rows } = flight;
    assert_eq!(*id, number, "a forward's number is its place in the queue");
    rows.iter()
        .map(|Row { slot, position, tokens, pages }| {
            assert_eq!(*tokens, 1, "a row of the decode side is one token");
            let position = Value::Number(u64::from(*position));
            Value::record([("slot", slot_number(*slot)), ("position", position), ("pages", page_list(pages))])
        })
        .collect()
}

fn copy((number, copy): (CopyId, &Copy)) -> Value {
    let Copy { id, direction, page, host } = copy;
    assert_eq!(*id, number, "a copy's number is its place in the queue");
    let way = match direction {
        Direction::Store => "store",
        Direction::Load => "load",
    };
    Value::record([("way", Value::text(way)), ("page", page_number(*page)), ("host", host_number(*host))])
}

fn remote(Ghost { grant, pages, whole }: &Ghost) -> Value {
    let grant = match grant {
        Grant::None => "none",
        Grant::Queued => "queued",
        Grant::Published => "published",
        Grant::Cancelling => "cancelling",
        Grant::Revoking => "revoking",
    };
    Value::record([
        ("grant", Value::text(grant)),
        ("pages", page_list(pages)),
        ("whole", Value::Flag(*whole)),
    ])
}
