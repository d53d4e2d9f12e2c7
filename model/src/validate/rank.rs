//! One rank's trace against its machine: each line must be what the machine, its queue and its surroundings allow next.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::rendezvous::{Control, Device};
use crate::validate::log::{LineOf, Log, LogError};
use crate::validate::surroundings::{Answer, FactOf, Forwards, Judged, Surroundings};
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::fault::Fault;
use lockstep_spec::machine::{Fact, Local, RankMachine};
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};
use lockstep_spec::ticket::{Communicator, Site, SiteName};
use lockstep_spec::trace::{Closing, Observation};
use serde_json::Value;

/// Most observations that may wait in a rank's queue: far more than its bounds let in.
const MOST_WAITING: usize = 1 << 20;

/// Most that one input says.
const MOST_OBSERVATIONS: usize = 2;
/// Most slots, ranks and pages of a group that runs: its command line takes no more.
const MOST_SLOTS: u32 = 4096;
const MOST_PAGES: u32 = 1 << 24;

/// Refuses sizes that no group has, before anything is made of them.
fn bounded(configuration: &GroupConfiguration) -> Result<(), String> {
    let GroupConfiguration { ranks, slots, pages, .. } = configuration;
    let fits = *ranks <= MOST_SLOTS && *slots <= MOST_SLOTS && *pages <= MOST_PAGES;
    if fits { Ok(()) } else { Err(format!("no group has {ranks} ranks, {slots} slots and {pages} pages")) }
}

/// How the ranks of the group meet.
#[derive(Debug)]
pub struct Meeting {
    /// On the control communicator.
    pub control: Control<Site>,
    /// On the device communicator.
    pub device: Device<Site>,
}

/// What the machine did, and the trace has yet to tell.
#[derive(Debug)]
enum Owed<E> {
    Enter(Posted<Site>),
    Do(Local<E>),
    End(Option<Fault>),
}

/// What a line leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It is taken.
    Taken,
    /// It has to wait until other ranks' traces have gone on: for what.
    Waits(&'static str),
    /// It is not a step of the model, for this reason.
    Leaves(String),
}

/// A rank whose trace is being taken again.
#[derive(Debug)]
pub struct Rank<R: Judged> {
    /// Its trace.
    pub log: Log,
    /// How its trace ends, once it is read.
    pub closing: Option<Closing>,
    /// Its machine.
    pub machine: RankMachine<R>,
    index: usize,
    next: Option<LineOf<FactOf<R>>>,
    around: R::Around,
    forwards: Forwards,
    /// How many of those that wait did so when the loop turned last.
    stale: usize,
    /// Put into the queue and not received.
    waiting: VecDeque<Vec<Observation<FactOf<R>>>>,
    /// Received, and not taken by the machine.
    due: VecDeque<FactOf<R>>,
    answer: Answer<FactOf<R>>,
    owed: VecDeque<Owed<R::Effect>>,
}

impl<R: Judged> Rank<R> {
    /// A rank whose trace is at its first line.
    ///
    /// # Errors
    /// A configuration that no group can run with.
    pub fn new(log: Log) -> Result<Self, LogError> {
        let (rank, configuration) = (log.header.rank, Arc::new(log.header.configuration.clone()));
        bounded(&configuration).map_err(|why| log.damaged(why))?;
        let around = R::Around::new(&configuration);
        let machine =
            RankMachine::new(configuration, rank).map_err(|error| log.damaged(error.to_string()))?;
        Ok(Self {
            log,
            closing: None,
            machine,
            index: rank.0 as usize,
            next: None,
            around,
            forwards: Forwards::default(),
            stale: 0,
            waiting: VecDeque::new(),
            due: VecDeque::new(),
            answer: Answer::NONE,
            owed: VecDeque::new(),
        })
    }

    /// Takes lines until one has to wait or leaves the model; nothing at the end of the trace.
    ///
    /// # Errors
    /// A line that is not what a rank writes.
    pub fn advance(&mut self, meeting: &mut Meeting) -> Result<Option<Step>, LogError> {
        loop {
            let line = match self.next.take() {
                Some(line) => line,
                None => match self.log.read()? {
                    Some(line) => line,
                    None if self.closing.is_some() && self.log.cut_off() > 0 => {
                        let bytes = self.log.cut_off();
                        let why = format!("{bytes} bytes follow the line that closes the trace");
                        return Err(self.log.damaged(why));
                    }
                    None => return Ok(None),
                },
            };
            if self.closing.is_some() {
                return Err(self.log.damaged("lines follow the one that closes the trace".to_owned()));
            }
            match self.take(&line, meeting)? {
                Step::Taken => {}
                waits @ Step::Waits(_) => {
                    self.next = Some(line);
                    return Ok(Some(waits));
                }
                leaves @ Step::Leaves(_) => return Ok(Some(leaves)),
            }
        }
    }

    fn take(&mut self, line: &LineOf<FactOf<R>>, meeting: &mut Meeting) -> Result<Step, LogError> {
        if let Some(always) = self.answer.always.take_if(|_| ends_answers(line)) {
            return Ok(Step::Leaves(format!("the machine was not told {} before this", text(&always))));
        }
        self.answer.perhaps.take_if(|_| ends_answers(line));
        Ok(match line {
            LineOf::Opened(_) => return Err(self.log.damaged("a trace is opened once".to_owned())),
            LineOf::Skipped(lines) => {
                return Err(self.log.damaged(format!(
                    "{lines} lines are left out here: only a whole trace, as `serve --trace` writes it, can be judged"
                )));
            }
            LineOf::Seen(seen) => return self.see(seen),
            LineOf::Received => self.receive(),
            LineOf::Drained => self.drained(),
            LineOf::Took(event) => self.event(event, meeting),
            LineOf::Entered(posted) => self.entered(posted, meeting),
            LineOf::Did(local) => self.did(local),
            LineOf::Closed(closing) => self.closed(closing),
        })
    }

    fn see(&mut self, seen: &[Observation<FactOf<R>>]) -> Result<Step, LogError> {
        let strange = |seen: &Observation<_>| match seen {
            Observation::Part(leg, _) => leg.slot.0 >= MOST_SLOTS,
            Observation::Detached(_) | Observation::Fact(_) | Observation::PeerGone => false,
        };
        if seen.len() > MOST_OBSERVATIONS || seen.iter().any(strange) {
            return Err(self.log.damaged("no single input says this much, or names such a slot".to_owned()));
        }
        if self.waiting.len() == MOST_WAITING {
            let why =
                format!("{MOST_WAITING} observations wait in the rank's queue, more than its bounds let in");
            return Err(self.log.damaged(why));
        }
        self.waiting.push_back(seen.to_vec());
        Ok(Step::Taken)
    }

    fn receive(&mut self) -> Step {
        if let Some(fact) = self.due.front() {
            return Step::Leaves(format!("another input is received, and {} was never taken", text(fact)));
        }
        let Some(seen) = self.waiting.pop_front() else {
            return Step::Leaves("an input is received that was never seen".to_owned());
        };
        self.stale = self.stale.saturating_sub(1);
        seen.into_iter().for_each(|observation| self.around.follow(observation, &mut self.due));
        Step::Taken
    }

    fn drained(&self) -> Step {
        match (self.waiting.front(), self.due.front()) {
            (None, None) => Step::Taken,
            (Some(seen), _) => {
                Step::Leaves(format!("the queue is found empty, and {} was never received", told(seen)))
            }
            (None, Some(fact)) => {
                Step::Leaves(format!("the queue is found empty, and {} was never taken", text(fact)))
            }
        }
    }

    fn event(&mut self, event: &Event<FactOf<R>, Site>, meeting: &mut Meeting) -> Step {
        match event {
            Event::Fact(fact) => self.fact(fact, meeting),
            Event::Turn => self.turn(),
            Event::Completed { ticket, payload } => {
                let told = Posted { ticket: *ticket, payload: payload.clone() };
                self.completed(told, meeting)
            }
        }
    }

    fn turn(&mut self) -> Step {
        if let Some(fact) = self.due.front() {
            return Step::Leaves(format!("the loop turns, and {} was never taken", text(fact)));
        }
        if let Some(owed) = self.owed.front() {
            return Step::Leaves(format!("the loop turns, and the rank has yet to {}", owed.text()));
        }
        if let Some(seen) = self.waiting.front().filter(|_| self.stale > 0) {
            return Step::Leaves(format!("the loop turns twice, and {} was never received", told(seen)));
        }
        self.stale = self.waiting.len();
        self.step(Event::Turn)
    }

    fn completed(&mut self, told: Posted<Site>, meeting: &mut Meeting) -> Step {
        if !meeting.control.waits(self.index) {
            return Step::Leaves(format!("{} completed, and the rank had entered nothing", told.ticket));
        }
        if !meeting.control.takes(self.index) {
            return Step::Waits("for a collective that it entered and others did not");
        }
        let queued = told.ticket.site.communicator() == Communicator::Device;
        if queued && meeting.device.queue(self.index).first() != Some(&told.ticket) {
            return Step::Leaves(format!("{} completed, and not what was queued before it", told.ticket));
        }
        match meeting.control.take(self.index) {
            Err(property) => Step::Leaves(format!("the ranks entered different collectives (`{property}`)")),
            Ok(outcome) if outcome != told => {
                Step::Leaves(format!("{} brought other words than the ranks' entries give", told.ticket))
            }
            Ok(Posted { ticket, payload }) => {
                if queued {
                    meeting.device.retire(self.index);
                }
                self.step(Event::Completed { ticket, payload })
            }
        }
    }

    fn fact(&mut self, fact: &FactOf<R>, meeting: &mut Meeting) -> Step {
        if let Fact::Retired { .. } = fact
            && self.due.front() == Some(fact)
            && self.forwards.next().is_some()
            && !meeting.device.completes(self.index)
        {
            return Step::Waits("for a forward that it launched and others did not");
        }
        if let (Fact::Retired { .. }, Some(ahead)) = (fact, meeting.device.queue(self.index).first())
            && ahead.site.awaited()
        {
            return Step::Leaves(format!("the machine took {}, before what came out of {ahead}", text(fact)));
        }
        if let Err(why) = self.is_told(fact) {
            return Step::Leaves(why);
        }
        if !self.allows(fact) {
            return self.pointless(fact);
        }
        match fact {
            Fact::Retired { .. } => {
                self.forwards.finished();
                meeting.device.retire(self.index);
            }
            Fact::Role(fact) => self.around.took_place(fact),
            Fact::Copied(_)
            | Fact::Submitted(_)
            | Fact::AbortWanted(_)
            | Fact::PauseWanted(_)
            | Fact::ShutdownWanted
            | Fact::Broken
            | Fact::Tick => {}
        }
        self.step(Event::Fact(fact.clone()))
    }

    /// Whether the machine is told what it is to be told next.
    fn is_told(&mut self, fact: &FactOf<R>) -> Result<(), String> {
        let Answer { always, perhaps } = &mut self.answer;
        if always.is_some() && always.as_ref() != Some(fact) {
            return Err(format!("the machine took {}, before what it had to be told at once", text(fact)));
        }
        if always.take().is_some()
            || perhaps.take_if(|perhaps| perhaps == fact).is_some()
            || *fact == Fact::Tick
        {
            return Ok(());
        }
        *perhaps = None;
        match self.due.pop_front() {
            Some(due) if due == *fact => Ok(()),
            Some(due) => Err(format!("the machine took {}, and {} came first", text(fact), text(&due))),
            None => Err(format!("the machine took {}, which the loop did not receive", text(fact))),
        }
    }

    fn allows(&self, fact: &FactOf<R>) -> bool {
        match fact {
            Fact::Retired { forward, tokens } => self.forwards.finishes(*forward, tokens),
            Fact::Copied(copy) => self.machine.next_copy().is_some_and(|next| next.id == *copy),
            Fact::Submitted(_) | Fact::AbortWanted(_) | Fact::PauseWanted(_) => self.machine.leads(),
            Fact::ShutdownWanted | Fact::Broken | Fact::Tick => true,
            Fact::Role(fact) => self.around.allows(fact),
        }
    }

    /// What the model does not know of may reach a rank if it changes nothing there.
    fn pointless(&mut self, fact: &FactOf<R>) -> Step {
        let (mut after, mut effects) = (self.machine.clone(), Vec::new());
        after.step(Event::Fact(fact.clone()), &mut effects);
        if after == self.machine && effects.is_empty() {
            return Step::Taken;
        }
        Step::Leaves(format!("the machine took {}, which cannot happen there", text(fact)))
    }

    /// No fault is a step of the model, but the one that is voted when a rank was told that something of it broke.
    fn step(&mut self, event: Event<FactOf<R>, Site>) -> Step {
        let mut effects = Vec::new();
        self.machine.step(event, &mut effects);
        self.owed.extend(effects.into_iter().map(|effect| match effect {
            Effect::Enter(entry) => Owed::Enter(entry.into()),
            Effect::Local(local) => Owed::Do(local),
            Effect::Fault(fault) => Owed::End(Some(fault)),
            Effect::Leave => Owed::End(None),
        }));
        match self.owed.back() {
            Some(Owed::End(Some(fault))) if *fault != Fault::Raised => {
                Step::Leaves(format!("the machine ends, which none does in the model: {fault}"))
            }
            Some(_) | None => Step::Taken,
        }
    }

    fn entered(&mut self, posted: &Posted<Site>, meeting: &mut Meeting) -> Step {
        match self.owed.pop_front() {
            Some(Owed::Enter(owed)) if owed == *posted => {}
            Some(Owed::Enter(owed)) if owed.ticket == posted.ticket => {
                return Step::Leaves(format!(
                    "the rank entered {} with other words than its machine",
                    owed.ticket
                ));
            }
            Some(owed) => {
                return Step::Leaves(format!(
                    "the rank entered {}, and had to {}",
                    posted.ticket,
                    owed.text()
                ));
            }
            None => {
                return Step::Leaves(format!("the rank entered {}, and had nothing to enter", posted.ticket));
            }
        }
        let Posted { ticket, .. } = posted;
        if ticket.site.communicator() == Communicator::Device
            && let Err(property) = meeting.device.enter(self.index, *ticket)
        {
            return Step::Leaves(format!("{ticket} is not what others entered (`{property}`)"));
        }
        if ticket.site.awaited() {
            meeting.control.enter(self.index, posted.clone());
        }
        Step::Taken
    }

    fn did(&mut self, told: &Value) -> Step {
        let owed = match self.owed.pop_front() {
            Some(Owed::Do(owed)) if serde_json::to_value(&owed).is_ok_and(|owed| owed == *told) => owed,
            Some(owed) => return Step::Leaves(format!("the rank did {told}, and had to {}", owed.text())),
            None => return Step::Leaves(format!("the rank did {told}, and had nothing to do")),
        };
        match owed {
            Local::Launch { forward, rows } => self.forwards.launch(forward, rows.len()),
            Local::Role(effect) => {
                self.around.does(&effect);
                self.answer = R::answer(&effect);
            }
            Local::Decided(_) => {}
        }
        Step::Taken
    }

    fn closed(&mut self, closing: &Closing) -> Step {
        self.closing = Some(closing.clone());
        match (closing, self.owed.front()) {
            (Closing::Failed(_), _) | (Closing::Left, Some(Owed::End(None))) => Step::Taken,
            (Closing::Left, Some(owed)) => Step::Leaves(format!("the rank left, and had to {}", owed.text())),
            (Closing::Left, None) => Step::Leaves("the rank left, and its machine did not".to_owned()),
        }
    }

    /// What the model allows next.
    #[must_use]
    pub fn allowed(&self) -> Vec<String> {
        let owed = self.owed.front().map(Owed::text);
        let due = self.due.front().map(text);
        let forward = self.forwards.next().map(|forward| format!("forward {forward} retires"));
        let copy = self.machine.next_copy().map(|copy| format!("copy {} completes", copy.id));
        let facts = self.around.allowed().into_iter().map(|fact| text::<FactOf<R>>(&Fact::Role(fact)));
        owed.into_iter().chain(due).chain(forward).chain(copy).chain(facts).collect()
    }
}

impl<E: std::fmt::Debug> Owed<E> {
    fn text(&self) -> String {
        match self {
            Self::Enter(posted) => format!("enter {}", posted.ticket),
            Self::Do(local) => format!("do {}", text(local)),
            Self::End(Some(fault)) => format!("end: {fault}"),
            Self::End(None) => "leave".to_owned(),
        }
    }
}

/// Whether what a rank is told at once can no longer be told after this line.
fn ends_answers<F>(line: &LineOf<F>) -> bool {
    match line {
        LineOf::Opened(_) | LineOf::Skipped(_) | LineOf::Seen(_) | LineOf::Took(Event::Fact(_)) => false,
        LineOf::Closed(_) => false,
        LineOf::Received | LineOf::Drained | LineOf::Entered(_) | LineOf::Did(_) => true,
        LineOf::Took(Event::Turn | Event::Completed { .. }) => true,
    }
}

fn told<F: std::fmt::Debug>(seen: &[Observation<F>]) -> String {
    seen.first().map_or_else(|| "an input".to_owned(), text)
}

fn text<T: std::fmt::Debug>(value: &T) -> String {
    format!("{value:?}")
}
