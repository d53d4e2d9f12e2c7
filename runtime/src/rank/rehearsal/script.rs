//! The trace: what is read from it, and what the loop did, held against it.

use super::roles::{Rehearsed, input};
use super::{Departure, LineOf};
use crate::group::{GroupError, Tag};
use crate::rank::collective::tag;
use crate::rank::device::{BatchRow, Command};
use crate::rank::error::RankError;
use crate::rank::hands::FactOf;
use crate::rank::inputs::{Inbox, Input};
use crate::rank::recorder::Recorder;
use crate::wire::WireError;
use lockstep_spec::agreed::Words;
use lockstep_spec::ids::PageId;
use lockstep_spec::machine::{Fact, Local};
use lockstep_spec::program::{Event, Posted};
use lockstep_spec::role::Role;
use lockstep_spec::table::Row;
use lockstep_spec::ticket::{Site, SiteName};
use lockstep_spec::trace::Line;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// A line of the trace that the loop is led along.
pub(super) struct Step<R: Role> {
    /// Its number in the trace, from 1.
    pub(super) number: usize,
    pub(super) text: String,
    pub(super) line: LineOf<R>,
    /// Whether it is a fact that the rank's hands tell its machine at once.
    pub(super) at_once: bool,
}

/// Who does what a line tells.
enum Doer {
    /// The loop alone.
    Loop,
    /// The role's hands, or the collectives that the rank awaits.
    Hands,
    /// The device, with the forward that was made ready before.
    Device,
}

impl<R: Role> Step<R> {
    fn doer(&self) -> Doer {
        match &self.line {
            Line::Entered(posted) if posted.ticket.site.awaited() => Doer::Hands,
            Line::Entered(_) => Doer::Device,
            Line::Did(deed) if deed.get("Role").is_some() => Doer::Hands,
            Line::Did(_) | Line::Took(_) | Line::Opened(_) | Line::Skipped(_) => Doer::Loop,
            Line::Seen(_) | Line::Received | Line::Drained | Line::Closed(_) => Doer::Loop,
        }
    }

    /// The fact that the machine takes here.
    fn fact(&self) -> Option<FactOf<R>> {
        match &self.line {
            Line::Took(Event::Fact(fact)) => Some(fact.clone()),
            Line::Took(Event::Turn | Event::Completed { .. }) | Line::Entered(_) | Line::Did(_) => None,
            Line::Opened(_) | Line::Skipped(_) | Line::Seen(_) => None,
            Line::Received | Line::Drained | Line::Closed(_) => None,
        }
    }

    /// Whether it only follows from the lines before.
    fn follows(&self) -> bool {
        !matches!(self.line, Line::Took(_))
    }
}

/// The trace, how far the loop was led along it, and what the loop did since it was last held against it.
pub(super) struct Script<R: Role> {
    steps: Vec<Step<R>>,
    /// Whether the rank leaves at the trace's end.
    leaves: bool,
    /// Index of the first step that was not brought to the loop.
    fed: usize,
    /// Index of the first step that the loop was not seen to take.
    checked: usize,
    inbox: Inbox,
    recorder: Arc<Recorder>,
    commands: Receiver<Command>,
    /// What hands and awaited collectives were asked for, as lines.
    pub(super) by_hands: VecDeque<String>,
    /// What the device was asked for, as lines: what is launched, and that it is entered.
    by_device: VecDeque<[String; 2]>,
    /// Launches that were recorded, and that the device was not asked for.
    launches: VecDeque<String>,
    /// Whether the outcome of the last vote in the device's queue is on its way.
    voted: bool,
    rounds: u64,
    departure: Option<Departure>,
    ended: bool,
}

impl<R: Rehearsed> Script<R> {
    /// The steps of a trace, for a loop with these inputs, this record and this device.
    pub(super) fn new(
        (steps, leaves): (Vec<Step<R>>, bool),
        inbox: Inbox,
        recorder: Arc<Recorder>,
        commands: Receiver<Command>,
    ) -> Self {
        let (by_hands, by_device, launches, voted) =
            (VecDeque::new(), VecDeque::new(), VecDeque::new(), false);
        let (fed, checked, rounds, departure, ended) = (0, 0, 0, None, false);
        Self {
            steps,
            leaves,
            fed,
            checked,
            inbox,
            recorder,
            commands,
            by_hands,
            by_device,
            launches,
            voted,
            rounds,
            departure,
            ended,
        }
    }

    /// The number of rounds, if the loop that ended so has kept to the trace to its end.
    pub(super) fn verdict(&mut self, lived: &Result<(), RankError>) -> Result<u64, Departure> {
        self.check();
        // What does not leave goes on until the script is over, a collective has no outcome, or its machine ends.
        let goes_on =
            matches!(lived, Err(RankError::Front(_) | RankError::Group(_) | RankError::Protocol(_)));
        let as_told = if self.leaves { lived.is_ok() } else { goes_on };
        let ended = || lived.as_ref().map_or_else(|error| format!("ended: {error}"), |()| "left".to_owned());
        match self.departure.take() {
            Some(departure) => Err(departure),
            None if self.checked < self.steps.len() || !as_told => Err(self.differs(ended())),
            None => Ok(self.rounds),
        }
    }

    fn next(&mut self) -> Option<&LineOf<R>> {
        while self.steps.get(self.fed).is_some_and(Step::follows) {
            self.fed += 1;
        }
        self.steps.get(self.fed).map(|step| &step.line)
    }

    /// Notes what the hands were asked for; what they tell the machine at once is read from the lines behind it.
    pub(super) fn act(&mut self, deed: String) -> Vec<FactOf<R>> {
        let follow = self.steps[self.fed..].iter().take_while(|step| step.follows());
        let place = follow.into_iter().position(|step| step.text == deed);
        self.fed += place.map_or(0, |place| place + 1);
        self.by_hands.push_back(deed);
        let told = self.steps[self.fed..].iter().take_while(|step| place.is_some() && step.at_once);
        let facts: Vec<FactOf<R>> = told.filter_map(Step::fact).collect();
        self.fed += facts.len();
        facts
    }

    /// Whether a round is due. What comes before it is put into the loop's queue; at the trace's end, that all is over.
    pub(super) fn round_is_due(&mut self) -> bool {
        if self.departure.is_none() && !self.feed() {
            return false;
        }
        let due = self.departure.is_none() && matches!(self.next(), Some(Line::Took(Event::Turn)));
        self.fed += usize::from(due);
        if !due {
            self.end();
        }
        due
    }

    /// Puts the facts that come next into the loop's queue. Whether that is all of them: a tick comes from the loop's own clock.
    fn feed(&mut self) -> bool {
        while let Some(Line::Took(Event::Fact(fact))) = self.next() {
            let Some(input) = input::<R>(fact.clone()) else { return false };
            let _gone = self.inbox.send(input);
            self.fed += 1;
        }
        true
    }

    /// Says that all is over, once.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            let over = WireError::Closed { peer: "the script".to_owned() };
            let _gone = self.inbox.send(Input::FrontGone(over));
        }
    }

    /// Puts what comes out of the vote in the device's queue into the loop's queue, behind what comes before it.
    pub(super) fn vote_comes_out(&mut self) {
        if self.voted || !self.feed() {
            return;
        }
        let Some(Line::Took(Event::Completed { ticket, payload })) = self.next() else { return self.end() };
        let outcome = Input::Voted { ticket: *ticket, payload: payload.clone() };
        let _gone = self.inbox.send(outcome);
        (self.fed, self.voted) = (self.fed + 1, true);
    }

    /// Notes that the loop enters a vote in the device's queue.
    pub(super) fn enters_vote(&mut self, entered: String) {
        self.by_hands.push_back(entered);
        self.voted = false;
    }

    pub(super) fn ticks(&mut self) -> bool {
        let ticks = matches!(self.next(), Some(Line::Took(Event::Fact(Fact::Tick))));
        self.fed += usize::from(ticks);
        ticks
    }

    /// What comes out of the collective that the loop enters.
    pub(super) fn outcome(&mut self, entered: &Tag) -> Result<Words, GroupError> {
        let outcome = match self.next() {
            Some(Line::Took(Event::Completed { ticket, payload })) if tag(ticket) == *entered => {
                Ok(payload.clone())
            }
            Some(_) | None => Err(GroupError::Misuse("the trace has no outcome of this collective")),
        };
        self.fed += usize::from(outcome.is_ok());
        outcome
    }

    pub(super) fn round_ended(&mut self) {
        self.rounds += 1;
        self.check();
    }

    /// Holds what the loop recorded, and what it asked for, against the trace.
    pub(super) fn check(&mut self) {
        let launched = self.commands.try_iter().map(|command| commanded::<R>(&command));
        self.by_device.extend(launched);
        let told = |line: &String| {
            ["{\"took\"", "{\"entered\"", "{\"did\""].iter().any(|kind| line.starts_with(kind))
        };
        let lines: Vec<String> = self.recorder.take_kept().into_iter().filter(told).collect();
        let checked = lines.iter().try_for_each(|line| self.keeps_to(line));
        let of_device = |asked: [String; 2]| asked.concat();
        let more =
            |script: &mut Self| script.by_hands.pop_front().or(script.by_device.pop_front().map(of_device));
        let checked = checked.and_then(|()| match more(self) {
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
        if recorded.starts_with("{\"did\":{\"Launch") {
            self.launches.push_back(recorded.to_owned());
        }
        let asked = match step.doer() {
            Doer::Loop => Some(recorded.to_owned()),
            Doer::Hands => self.by_hands.pop_front(),
            Doer::Device => self.by_device.pop_front().and_then(|[launched, entered]| {
                (self.launches.pop_front().as_ref() == Some(&launched)).then_some(entered)
            }),
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
pub(super) fn did<R: Role>(deed: Local<R::Effect>) -> String {
    written(&Line::<FactOf<R>, _>::Did(deed))
}

pub(super) fn entered<R: Role>(posted: Posted<Site>) -> String {
    written(&LineOf::<R>::Entered(posted))
}

fn written(line: &impl serde::Serialize) -> String {
    serde_json::to_string(line).unwrap_or_default()
}

/// What a command to the device tells: only forwards are pushed by the loop itself.
fn commanded<R: Role>(command: &Command) -> [String; 2] {
    match command {
        Command::Forward { entry, forward, batch } => {
            let rows = batch.iter().map(row).collect();
            [did::<R>(Local::Launch { forward: *forward, rows }), entered::<R>(entry.clone().into())]
        }
        Command::Seed { .. }
        | Command::Expect { .. }
        | Command::WritePage { .. }
        | Command::Fence { .. }
        | Command::Vote(_)
        | Command::Send { .. }
        | Command::Fail { .. }
        | Command::Copy(_)
        | Command::Abandon { .. } => ["a command that is not the loop's".to_owned(), String::new()],
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
