//! Decode's front end where groups are replaced apart: the journal that the runtime executes, its line to the prefill side, and what it
//! would ask for again. Where they are not, there is no journal: what the group says ends there.

use crate::two_groups::ends::Told;
use crate::two_groups::pair::{Held, Pair};
use crate::two_groups::setting::Setting;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::phase::Outcome;
use lockstep_spec::decode::request::Request;
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::ids::{Epoch, RequestId};
use lockstep_spec::invariant::{ends, epoch_fenced, no_fault, token_exact};
use lockstep_spec::journal::{Journal, JournalFault, Received};
use lockstep_spec::machine::Fact;
use lockstep_spec::prefill::leg::PrefillLeg;
use lockstep_spec::prefill::rules::Rules as PrefillRules;

/// The line to the prefill side's front end, as decode's sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// It is known to have ended.
    Down,
    /// It has ended, and that is not known: what is said over it is lost.
    Lost,
    /// It carries words.
    Up,
}

/// What decode's front end knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrontEnd {
    /// Its journal.
    pub journal: Option<Journal>,
    /// Requests that the group is still to be told of.
    untold: Vec<Request>,
    /// Its line to prefill's front end.
    pub line: Line,
    /// The latest leg of each decode slot that was asked for in this epoch, by slot.
    pub wanted: Vec<PrefillLeg>,
    /// The first epoch of decode that prefill's ranks do not know, or will not know, to be over.
    pub told_since: Epoch,
}

impl FrontEnd {
    /// A front end that has taken nothing in.
    #[must_use]
    pub fn new(setting: &Setting) -> Self {
        let links = u32::try_from(setting.links()).unwrap_or(u32::MAX);
        let retries = if setting.coupling.parting.retries_each_link { 2 * links } else { 1 };
        let journal = setting.replacements.any().then(|| Journal::new(Epoch(0)).retrying(retries));
        Self { journal, untold: Vec::new(), line: Line::Up, wanted: Vec::new(), told_since: Epoch(0) }
    }

    /// Whether another request is taken in: one for each decode slot.
    #[must_use]
    pub fn takes(&self, setting: &Setting) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.open().len() < setting.decode.slots as usize)
    }

    /// Whether nothing is open, and there is a line.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.line == Line::Up && self.journal.as_ref().is_none_or(|journal| journal.open().is_empty())
    }

    /// The line's end is known.
    pub fn line_ends(&mut self, setting: &Setting) {
        self.line = Line::Down;
        if let Some(journal) = self.journal.as_mut().filter(|_| setting.coupling.parting.holds_back) {
            journal.prefill_left();
        }
    }

    /// Takes out what the group is to be told of, unless that is held back.
    fn submissions(&mut self) -> Vec<Request> {
        let held = self.journal.as_ref().is_some_and(Journal::is_away);
        if held { Vec::new() } else { std::mem::take(&mut self.untold) }
    }

    /// Another decode group takes the last one's place.
    pub fn next_epoch(&mut self) {
        self.wanted.clear();
        if let Some(journal) = &mut self.journal {
            journal.raise_epoch();
            self.untold = journal.submissions().collect();
        }
    }

    /// What a group says of a request.
    ///
    /// # Errors
    /// The violated property.
    fn record(&mut self, said: &Do) -> Held {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let epoch = journal.epoch();
        let (received, outcome) = match *said {
            Do::Emit { request, index, token, ended } => {
                (journal.token(epoch, (request, index), token, ended), ended)
            }
            Do::End { request, outcome } => (journal.ended(epoch, request, outcome), Some(outcome)),
            Do::Handshake { .. }
            | Do::Copy(_)
            | Do::Publish { .. }
            | Do::Withdraw { .. }
            | Do::Fence { .. }
            | Do::Seed { .. } => return Ok(()),
        };
        match (received.map_err(violated_by)?, outcome) {
            (Received::Again(request), _) => self.untold.push(request),
            // Nothing fails here but what a replacement explains: the client is not to be told of that.
            (Received::Taken, Some(Outcome::Failed(_))) => return Err(ends::PROPERTY.id),
            (Received::Taken | Received::Late, _) => {}
        }
        Ok(())
    }
}

impl<D: DecodeRules, P: PrefillRules> Pair<D, P> {
    pub(super) fn submit(&mut self, setting: &Setting, kind: usize) -> Held {
        let kind = setting.kinds[kind];
        match &mut self.front_end.journal {
            Some(journal) => {
                let request = journal.accept(kind.request(RequestId(0)));
                self.front_end.untold.push(request);
                self.hand_over(setting)
            }
            None => {
                let request = kind.request(self.next_request());
                self.tell_decode(setting, 0, Fact::Submitted(request))
            }
        }
    }

    pub(super) fn abort(&mut self, setting: &Setting, request: RequestId) -> Held {
        if let Some(journal) = &mut self.front_end.journal
            && !journal.abandon(request)
        {
            return Ok(());
        }
        self.tell_decode(setting, 0, Fact::AbortWanted(request))
    }

    /// Tells the decode leader of what it is to be told of.
    pub(super) fn hand_over(&mut self, setting: &Setting) -> Held {
        let submissions = self.front_end.submissions();
        submissions.into_iter().try_for_each(|request| self.tell_decode(setting, 0, Fact::Submitted(request)))
    }

    /// The leader speaks for its group; it is heard at once.
    pub(super) fn hear(&mut self, rank: usize, said: &Do) -> Held {
        if rank == 0 { self.front_end.record(said) } else { Ok(()) }
    }

    /// The decode leader wants a leg of prefill.
    pub(super) fn want(&mut self, wanted: PrefillLeg) {
        if self.front_end.journal.is_some() {
            self.front_end.wanted.retain(|earlier| earlier.leg.slot != wanted.leg.slot);
            self.front_end.wanted.push(wanted.clone());
            self.front_end.wanted.sort_by_key(|wanted| wanted.leg.slot);
        }
        if self.front_end.line == Line::Up {
            self.tell_prefill_ranks(&Told::Leg(wanted));
        }
    }

    pub(super) fn tell_prefill_ranks(&mut self, told: &Told) {
        self.prefill_ends.iter_mut().for_each(|end| end.told.push(told.clone()));
    }

    /// Decode's front end has a line again: which epochs are over comes first, then what is still wanted, then what was held back.
    pub(super) fn begin_line(&mut self, setting: &Setting) -> Held {
        self.front_end.line = Line::Up;
        self.tell_epoch();
        if setting.coupling.parting.asks_again {
            let open = |wanted: &&PrefillLeg| {
                self.front_end.journal.as_ref().is_some_and(|journal| journal.open().contains_key(&wanted.id))
            };
            let wanted: Vec<PrefillLeg> = self.front_end.wanted.iter().filter(open).cloned().collect();
            wanted.into_iter().for_each(|wanted| self.tell_prefill_ranks(&Told::Leg(wanted)));
        }
        if let Some(journal) = &mut self.front_end.journal {
            journal.prefill_returned();
        }
        self.hand_over(setting)
    }

    /// Over a line, prefill's ranks are told which epochs of decode are over.
    pub(super) fn tell_epoch(&mut self) {
        if self.front_end.line == Line::Up && self.front_end.told_since < self.epoch {
            self.front_end.told_since = self.epoch;
            self.tell_prefill_ranks(&Told::Detach(self.epoch));
        }
    }
}

/// The property that a fault of the journal violates: it is the journal that notices.
fn violated_by(fault: JournalFault) -> &'static str {
    match fault {
        JournalFault::Unborn { .. } => epoch_fenced::PROPERTY.id,
        JournalFault::OutOfTurn { .. } => token_exact::PROPERTY.id,
        JournalFault::LegBeyondSent { .. } | JournalFault::Unknown(_) => no_fault::PROPERTY.id,
    }
}

impl Counters for FrontEnd {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Some(journal) = &mut self.journal {
            journal.visit(visit);
        }
        self.untold.visit(visit);
        for wanted in &mut self.wanted {
            visit(Counter::Request, &mut wanted.id.0);
            wanted.leg.visit(visit);
        }
    }
}
