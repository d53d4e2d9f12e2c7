//! The rank loop led along a written trace: what reaches it, when a round is due and what comes out of its collectives is read from the
//! trace, and what it does is held against it. So every way that the checker has explored can be gone by the loop that is deployed.
//!
//! ```text
//!  trace ──▶ Script ──┬─ inputs, ticks, bells, outcomes ──▶ Driver
//!                     └◀── events, entries, deeds ──────────┘
//! ```
//! The loop, its machine, its queue of inputs and its record are the real ones; pace, collectives, device and the role's hands are scripted.

use super::decode;
use super::device::{self, Batch, BatchRow, Command};
use super::driver::{Driver, Front, Surroundings};
use super::error::RankError;
use super::hands::{FactOf, Hands};
use super::inputs::{Inbox, Input, Inputs};
use super::pacing::Pace;
use super::recorder::Recorder;
use crate::fabric::PrefillInbound;
use crate::group::{Collectives, GroupError, Tag};
use crate::wire::{Draw, FrontToRank, RankEnd, Sampling, WireError};
use lockstep_spec::agreed::Words;
use lockstep_spec::decode::Decode;
use lockstep_spec::ids::{Epoch, PageId, RequestId, Round};
use lockstep_spec::machine::{Fact, Local, RankMachine};
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::PrefillLeg;
use lockstep_spec::program::{Event, Posted};
use lockstep_spec::role::Role;
use lockstep_spec::table::Row;
use lockstep_spec::ticket::{Communicator, Kind, Site, SiteName, Ticket};
use lockstep_spec::trace::{GroupName, Header, Line};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How the loop left its trace, or why it could not be led along it.
#[derive(Debug, thiserror::Error)]
pub enum Departure {
    /// The loop did something else than the trace says.
    #[error("line {line}: the trace says {expected}, and the rank {happened}")]
    Differs {
        /// Number of the line, from 1.
        line: usize,
        /// What the trace says.
        expected: String,
        /// What the rank did.
        happened: String,
    },
    /// The trace is of another protocol.
    #[error(
        "the trace is of the protocol {theirs}, and this build's is {}; write it anew",
        lockstep_spec::FINGERPRINT
    )]
    OtherProtocol {
        /// The protocol's fingerprint.
        theirs: String,
    },
    /// A line is not one of a trace.
    #[error("line {line} of the trace: {why}")]
    Unreadable {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The loop could not be set up.
    #[error("the rehearsal does not begin: {0}")]
    Unprepared(String),
}

/// Leads a rank's loop along `trace`, from its first round to the trace's end, and returns the number of its rounds.
///
/// # Errors
/// [`Departure`], at the first line that the loop does not keep to.
pub fn rehearse(trace: &str) -> Result<u64, Departure> {
    let first = trace.lines().next().unwrap_or_default();
    let header = match parsed::<Decode>(first, 1)? {
        Line::Opened(header) => header,
        Line::Skipped(_)
        | Line::Seen(_)
        | Line::Received
        | Line::Drained
        | Line::Took(_)
        | Line::Entered(_)
        | Line::Did(_)
        | Line::Closed(_) => {
            let why = "it must say whose trace it is: the trace must be whole".to_owned();
            return Err(Departure::Unreadable { line: 1, why });
        }
    };
    if header.protocol != lockstep_spec::FINGERPRINT {
        return Err(Departure::OtherProtocol { theirs: header.protocol });
    }
    match header.group {
        GroupName::Decode => lead::<Decode>(header, trace),
        GroupName::Prefill => lead::<Prefill>(header, trace),
    }
}

/// A line with facts of role `R`; deeds are compared as they are written.
type LineOf<R> = Line<FactOf<R>, Value>;

fn parsed<R: Role>(text: &str, line: usize) -> Result<LineOf<R>, Departure> {
    serde_json::from_str(text).map_err(|error| Departure::Unreadable { line, why: error.to_string() })
}

/// How a role's facts come in.
trait Rehearsed: Role {
    /// The input that brings an arrival.
    fn arrives(arrival: Self::Arrival) -> Input;

    /// The input that brings a fact of this role.
    fn seen(fact: Self::Fact) -> Input;

    /// What an input says beside what it says to every role's machine.
    fn fact(input: &Input) -> Option<FactOf<Self>>;
}

impl Rehearsed for Decode {
    fn arrives(request: Self::Arrival) -> Input {
        Input::Front(FrontToRank::Submit(request))
    }

    fn seen((leg, fact): Self::Fact) -> Input {
        Input::Leg(leg, fact)
    }

    fn fact(input: &Input) -> Option<FactOf<Self>> {
        decode::fact(input)
    }
}

/// A leg's parts are joined by its hands, so that its list stands for all of them here.
impl Rehearsed for Prefill {
    fn arrives(PrefillLeg { id, leg, tokens }: Self::Arrival) -> Input {
        let draw = Draw { sampling: Sampling::GREEDY, index: 0 };
        Input::Front(FrontToRank::Leg { leg, acceptance: id.0, tokens: vec![0; tokens as usize], draw })
    }

    fn seen((leg, fact): Self::Fact) -> Input {
        match fact {
            WriteFact::Listed => Input::Prefill(PrefillInbound::List { leg, pages: Vec::new() }),
            WriteFact::Revoked => Input::Prefill(PrefillInbound::Revoked { leg }),
            WriteFact::Written => Input::Prefill(PrefillInbound::Written { leg }),
            WriteFact::WriteFailed => Input::WriteFailed(leg),
        }
    }

    fn fact(input: &Input) -> Option<FactOf<Self>> {
        match input {
            Input::Front(FrontToRank::Leg { leg, acceptance, tokens, .. }) => {
                let (id, tokens) = (RequestId(*acceptance), u32::try_from(tokens.len()).ok()?);
                Some(Fact::Submitted(PrefillLeg { id, leg: *leg, tokens }))
            }
            Input::Prefill(PrefillInbound::List { leg, .. }) => Some(Fact::Role((*leg, WriteFact::Listed))),
            Input::Prefill(PrefillInbound::Revoked { leg }) => Some(Fact::Role((*leg, WriteFact::Revoked))),
            Input::Prefill(PrefillInbound::Written { leg }) => Some(Fact::Role((*leg, WriteFact::Written))),
            Input::WriteFailed(leg) => Some(Fact::Role((*leg, WriteFact::WriteFailed))),
            Input::Prefill(PrefillInbound::PeerGone { .. } | PrefillInbound::Rejected { .. })
            | Input::Front(FrontToRank::Abort { .. } | FrontToRank::Attach { .. } | FrontToRank::Dismiss)
            | Input::Front(FrontToRank::Submit(_))
            | Input::Front(FrontToRank::Pause | FrontToRank::Resume | FrontToRank::Shutdown)
            | Input::FrontGone(_)
            | Input::Leg(..)
            | Input::Retired { .. }
            | Input::DeviceFailed(_) => None,
        }
    }
}

/// The input that brings a fact; a tick is none.
fn input<R: Rehearsed>(fact: FactOf<R>) -> Option<Input> {
    match fact {
        Fact::Retired { forward, tokens } => Some(Input::Retired { forward, tokens, micros: 0 }),
        Fact::Submitted(arrival) => Some(R::arrives(arrival)),
        Fact::AbortWanted(request) => Some(Input::Front(FrontToRank::Abort { request: request.0 })),
        Fact::PauseWanted(true) => Some(Input::Front(FrontToRank::Pause)),
        Fact::PauseWanted(false) => Some(Input::Front(FrontToRank::Resume)),
        Fact::ShutdownWanted => Some(Input::Front(FrontToRank::Shutdown)),
        Fact::Broken => Some(Input::DeviceFailed(RankError::ThreadGone("device thread"))),
        Fact::Tick => None,
        Fact::Role(fact) => Some(R::seen(fact)),
    }
}

/// A line of the trace that the loop is led along.
struct Step<R: Role> {
    /// Its number in the trace, from 1.
    number: usize,
    text: String,
    line: LineOf<R>,
}

/// Who does what a line tells.
enum Doer {
    /// The loop alone.
    Loop,
    /// The role's hands, or the control communicator.
    Hands,
    /// The device.
    Device,
}

impl<R: Role> Step<R> {
    fn doer(&self) -> Doer {
        match &self.line {
            Line::Entered(posted) => match posted.ticket.site.communicator() {
                Communicator::Control => Doer::Hands,
                Communicator::Device => Doer::Device,
            },
            Line::Did(deed) if deed.get("Launch").is_some() => Doer::Device,
            Line::Did(deed) if deed.get("Role").is_some() => Doer::Hands,
            Line::Did(_) | Line::Took(_) | Line::Opened(_) | Line::Skipped(_) => Doer::Loop,
            Line::Seen(_) | Line::Received | Line::Drained | Line::Closed(_) => Doer::Loop,
        }
    }

    /// Whether it only follows from the lines before.
    fn follows(&self) -> bool {
        !matches!(self.line, Line::Took(_))
    }
}

/// The trace, how far the loop was led along it, and what the loop did since it was last held against it.
struct Script<R: Role> {
    steps: Vec<Step<R>>,
    /// Index of the first step that was not brought to the loop.
    fed: usize,
    /// Index of the first step that the loop was not seen to take.
    checked: usize,
    inbox: Inbox,
    recorder: Arc<Recorder>,
    commands: Receiver<Command>,
    /// What hands and control communicator were asked for, as lines.
    by_hands: VecDeque<String>,
    /// What the device was asked for, as lines.
    by_device: VecDeque<String>,
    rounds: u64,
    departure: Option<Departure>,
    ended: bool,
}

impl<R: Rehearsed> Script<R> {
    fn next(&mut self) -> Option<&LineOf<R>> {
        while self.steps.get(self.fed).is_some_and(Step::follows) {
            self.fed += 1;
        }
        self.steps.get(self.fed).map(|step| &step.line)
    }

    /// Whether a round is due. What comes before it is put into the loop's queue; at the trace's end, that all is over.
    fn round_is_due(&mut self) -> bool {
        while self.departure.is_none() {
            let fact = match self.next() {
                Some(Line::Took(Event::Fact(fact))) => fact.clone(),
                Some(Line::Took(Event::Turn)) => {
                    self.fed += 1;
                    return true;
                }
                Some(_) | None => break,
            };
            let Some(input) = input::<R>(fact) else { return false };
            let _gone = self.inbox.send(input);
            self.fed += 1;
        }
        if !std::mem::replace(&mut self.ended, true) {
            let over = WireError::Closed { peer: "the script".to_owned() };
            let _gone = self.inbox.send(Input::FrontGone(over));
        }
        false
    }

    fn ticks(&mut self) -> bool {
        let ticks = matches!(self.next(), Some(Line::Took(Event::Fact(Fact::Tick))));
        self.fed += usize::from(ticks);
        ticks
    }

    /// What comes out of the collective that the loop enters.
    fn outcome(&mut self, tag: &Tag) -> Result<Words, GroupError> {
        let outcome = match self.next() {
            Some(Line::Took(Event::Completed { ticket, payload }))
                if super::collective::tag(ticket) == *tag =>
            {
                Ok(payload.clone())
            }
            Some(_) | None => Err(GroupError::Misuse("the trace has no outcome of this collective")),
        };
        self.fed += usize::from(outcome.is_ok());
        outcome
    }

    fn round_ended(&mut self) {
        self.rounds += 1;
        self.check();
    }

    /// Holds what the loop recorded, and what it asked for, against the trace.
    fn check(&mut self) {
        let launched = self.commands.try_iter().flat_map(|command| commanded::<R>(&command));
        self.by_device.extend(launched);
        let told = |line: &String| {
            ["{\"took\"", "{\"entered\"", "{\"did\""].iter().any(|kind| line.starts_with(kind))
        };
        let lines: Vec<String> = self.recorder.take_kept().into_iter().filter(told).collect();
        let checked = lines.iter().try_for_each(|line| self.keeps_to(line));
        let checked = checked.and_then(|()| match self.by_hands.pop_front().or(self.by_device.pop_front()) {
            Some(more) => Err(self.differs(format!("asked for what it did not record: {more}"))),
            None => Ok(()),
        });
        self.departure = self.departure.take().or(checked.err());
    }

    fn keeps_to(&mut self, recorded: &str) -> Result<(), Departure> {
        let recorded = recorded.trim_end();
        let Some(step) = self.steps.get(self.checked).filter(|step| step.text == recorded) else {
            return Err(self.differs(format!("went on with {recorded}")));
        };
        let asked = match step.doer() {
            Doer::Loop => Some(recorded.to_owned()),
            Doer::Hands => self.by_hands.pop_front(),
            Doer::Device => self.by_device.pop_front(),
        };
        if asked.as_deref() != Some(recorded) {
            return Err(
                self.differs(format!("recorded so, and asked for {}", asked.as_deref().unwrap_or("nothing")))
            );
        }
        self.checked += 1;
        Ok(())
    }

    fn differs(&self, happened: String) -> Departure {
        let step = self.steps.get(self.checked);
        let line = step.or(self.steps.last()).map_or(1, |step| step.number);
        let expected = step.map_or_else(|| "nothing more".to_owned(), |step| step.text.clone());
        Departure::Differs { line, expected, happened }
    }
}

/// A deed as the rank records it.
fn did<R: Role>(deed: Local<R::Effect>) -> String {
    written(&Line::<FactOf<R>, _>::Did(deed))
}

fn entered<R: Role>(posted: Posted<Site>) -> String {
    written(&LineOf::<R>::Entered(posted))
}

fn written(line: &impl serde::Serialize) -> String {
    serde_json::to_string(line).unwrap_or_default()
}

/// What a command to the device tells: only forwards are pushed by the loop itself.
fn commanded<R: Role>(command: &Command) -> Vec<String> {
    match command {
        Command::Forward { entry, forward, batch } => {
            let rows = batch.iter().map(row).collect();
            vec![did::<R>(Local::Launch { forward: *forward, rows }), entered::<R>(entry.clone().into())]
        }
        Command::Seed { .. } | Command::Expect { .. } | Command::WritePage { .. } | Command::Fence { .. } => {
            vec!["a command that is not the loop's".to_owned()]
        }
        Command::Send { .. } | Command::Fail { .. } | Command::Abandon { .. } => {
            vec!["a command that is not the loop's".to_owned()]
        }
    }
}

fn row(row: &BatchRow) -> Row {
    let pages = row.pages.iter().map(|page| PageId(*page)).collect();
    Row {
        slot: row.slot,
        position: row.position,
        tokens: u32::try_from(row.tokens.len()).unwrap_or(u32::MAX),
        pages,
    }
}

/// The script, as each of those who act it has it.
struct Scripted<R: Role>(Rc<RefCell<Script<R>>>);

impl<R: Role> Clone for Scripted<R> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<R: Rehearsed> Pace for Scripted<R> {
    fn stir(&mut self) {}

    fn round_ended(&mut self, _: bool) {
        self.0.borrow_mut().round_ended();
    }

    /// What is not due at once is in the queue.
    fn due_in(&mut self, _: bool) -> Duration {
        if self.0.borrow_mut().round_is_due() { Duration::ZERO } else { Duration::from_millis(1) }
    }

    fn overdue(&self) -> bool {
        false
    }

    fn ticks(&mut self) -> bool {
        self.0.borrow_mut().ticks()
    }

    fn reports(&mut self) -> bool {
        false
    }
}

impl<R: Rehearsed> Hands for Scripted<R> {
    type Role = R;

    fn take(&mut self, input: Input, facts: &mut Vec<FactOf<R>>) -> Result<(), RankError> {
        facts.extend(R::fact(&input));
        Ok(())
    }

    fn perform(&mut self, effect: R::Effect, _: &mut Vec<FactOf<R>>) -> Result<(), RankError> {
        self.0.borrow_mut().by_hands.push_back(did::<R>(Local::Role(effect)));
        Ok(())
    }

    fn batch(&self, _: &RankMachine<R>, rows: Vec<Row>) -> Result<Batch, RankError> {
        let row = |Row { slot, position, tokens, pages }: Row| BatchRow {
            slot,
            position,
            tokens: vec![0; tokens as usize],
            pages: pages.iter().map(|page| page.0).collect(),
            draw: None,
        };
        Ok(rows.into_iter().map(row).collect())
    }
}

/// One rank's end of a group that is not there.
struct Absent<R: Role> {
    script: Scripted<R>,
    rank: usize,
    size: usize,
}

impl<R: Rehearsed> Absent<R> {
    /// Notes what was entered, and reads what comes out of it.
    fn meet(&self, tag: Tag, kind: Kind, payload: &[u64]) -> Result<Words, GroupError> {
        let mut script = self.script.0.borrow_mut();
        let site = Site::ALL.into_iter().find(|site| site.code() == tag.site);
        let ticket =
            |site| Ticket { epoch: Epoch(tag.epoch), round: Round(tag.round), site, kind, shape: tag.shape };
        let Some(ticket) = site.map(ticket).filter(|ticket| super::collective::tag(ticket) == tag) else {
            return Err(GroupError::Misuse("the tag is of no site, or of another kind"));
        };
        script.by_hands.push_back(entered::<R>(Posted { ticket, payload: payload.to_vec() }));
        script.outcome(&tag)
    }
}

impl<R: Rehearsed> Collectives for Absent<R> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce_min(&mut self, tag: Tag, values: &mut [u64], _: Duration) -> Result<(), GroupError> {
        let outcome = self.meet(tag, Kind::MinReduce, values)?;
        if outcome.len() != values.len() {
            return Err(GroupError::Misuse("the trace's outcome has another length"));
        }
        values.copy_from_slice(&outcome);
        Ok(())
    }

    fn broadcast(
        &mut self,
        tag: Tag,
        _: usize,
        payload: Option<&[u8]>,
        _: usize,
        _: Duration,
    ) -> Result<Vec<u8>, GroupError> {
        let words: Words =
            payload.unwrap_or_default().as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let outcome = self.meet(tag, Kind::Broadcast, &words)?;
        Ok(outcome.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    fn wait_for_leader(&mut self, _: Duration) -> Result<bool, GroupError> {
        Ok(self.script.0.borrow_mut().round_is_due())
    }
}

fn lead<R: Rehearsed>(header: Header, trace: &str) -> Result<u64, Departure> {
    let unprepared = |error: &dyn std::fmt::Display| Departure::Unprepared(error.to_string());
    let Header { rank, configuration, .. } = header;
    let (pages, size) = (configuration.pages, configuration.ranks as usize);
    let machine = RankMachine::<R>::new(Arc::new(configuration), rank).map_err(|error| unprepared(&error))?;
    let recorder = Arc::default();
    let (inbox, inputs) = Inputs::new(&recorder);
    let (device, commands) = device::queue(pages, 1);
    // Nobody listens: the loop is never due to report.
    let (line, _front_end) = UnixStream::pair().map_err(|error| unprepared(&error))?;
    let front = Front::new(RankEnd::of(line).map_err(|error| unprepared(&error))?.sender);
    let script = Scripted(Rc::new(RefCell::new(Script {
        steps: steps(trace)?,
        fed: 0,
        checked: 0,
        inbox,
        recorder,
        commands,
        by_hands: VecDeque::new(),
        by_device: VecDeque::new(),
        rounds: 0,
        departure: None,
        ended: false,
    })));
    let control = Absent { script: script.clone(), rank: rank.0 as usize, size };
    let surroundings = Surroundings { control, pace: script.clone(), device, inputs, front };
    let lived = Driver::new(machine, script.clone(), surroundings).run();
    let mut script = script.0.borrow_mut();
    script.check();
    if let Some(departure) = script.departure.take() {
        return Err(departure);
    }
    if script.checked < script.steps.len() {
        let how = lived.map_or_else(|error| format!("ended: {error}"), |()| "left".to_owned());
        return Err(script.differs(how));
    }
    Ok(script.rounds)
}

/// What the loop is to do, of all that a trace says.
fn steps<R: Role>(trace: &str) -> Result<Vec<Step<R>>, Departure> {
    let mut steps = Vec::new();
    for (number, text) in (1..).zip(trace.lines()) {
        let line = parsed::<R>(text, number)?;
        match line {
            Line::Took(_) | Line::Entered(_) | Line::Did(_) => {
                steps.push(Step { number, text: text.to_owned(), line });
            }
            Line::Opened(_) | Line::Seen(_) | Line::Received | Line::Drained | Line::Closed(_) => {}
            Line::Skipped(_) => {
                let why = "lines are left out here: the trace must be whole".to_owned();
                return Err(Departure::Unreadable { line: number, why });
            }
        }
    }
    Ok(steps)
}
