//! What surrounds the client, and an account of what it may do, kept apart from it.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_spec::handshake::{Deed, Fact, Outcome, Retry};
use lockstep_spec::ids::Leg;

use super::Place;

/// What the client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Errand {
    #[default]
    None,
    Finding,
    Opening(Place),
    Open {
        at: Place,
        ticks: u32,
    },
}

/// The prefill rank, the connection, and what the client owes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Around {
    /// Where the prefill rank is; the first place if it has not moved.
    moved: bool,
    gone: bool,
    errand: Errand,
    /// Whether the place that is opened was not asked for.
    known: bool,
    /// The place that refused last, until it is asked for anew.
    refused: Option<Place>,
    since_ticks: u32,
    pause_ticks: u32,
    /// Whether the pause is over, and the next attempt has not begun.
    due: bool,
    greeted: BTreeSet<Leg>,
    /// Legs without an answer, and for how many ticks.
    waiting: BTreeMap<Leg, u32>,
    ready: BTreeSet<Leg>,
    /// On the open connection.
    said: BTreeSet<Leg>,
    /// What is to be told with the step.
    owed: BTreeMap<Leg, Outcome>,
    /// What the client did that it may not.
    wrong: bool,
}

impl Around {
    fn place(&self) -> Place {
        if self.moved { Place::Second } else { Place::First }
    }

    /// What may reach the client, first hellos aside: what it waits for, and what it does not, which is to change nothing.
    pub(super) fn facts(&self) -> Vec<Fact<Place>> {
        let mut facts = vec![Fact::Tick, Fact::Unfound, Fact::Refused, Fact::Lost];
        for leg in self.waiting.keys().chain(&self.ready) {
            facts.extend([Fact::Withdrawn(*leg), Fact::Hello(*leg)]);
        }
        // Who is asked may not know yet that it moved, or that it is gone.
        facts.push(Fact::Found(Place::First));
        facts.extend(self.moved.then_some(Fact::Found(Place::Second)));
        match self.errand {
            Errand::None | Errand::Finding => facts.push(Fact::Opened),
            Errand::Opening(place) => {
                facts.extend((place == self.place() && !self.gone).then_some(Fact::Opened));
            }
            // An answer may come twice, or late.
            Errand::Open { .. } => facts.extend(self.said.iter().map(|leg| Fact::Acknowledged(*leg))),
        }
        facts
    }

    pub(super) fn has_greeted(&self, leg: Leg) -> bool {
        self.greeted.contains(&leg)
    }

    pub(super) fn may_move(&self) -> bool {
        !self.moved && !self.gone
    }

    pub(super) fn may_go(&self) -> bool {
        !self.gone
    }

    pub(super) fn moves(&mut self) {
        self.moved = true;
    }

    pub(super) fn goes(&mut self) {
        self.gone = true;
    }

    pub(super) fn told(&mut self, fact: &Fact<Place>, retry: Retry) {
        match (fact.clone(), self.errand) {
            (Fact::Tick, _) => self.tick(retry),
            (Fact::Hello(leg), _) => {
                if self.greeted.insert(leg) {
                    self.waiting.insert(leg, 0);
                }
            }
            (Fact::Withdrawn(leg), _) => {
                self.waiting.remove(&leg);
                self.ready.remove(&leg);
            }
            (Fact::Unfound, Errand::Finding) => self.errand = Errand::None,
            (Fact::Opened, Errand::Opening(at)) => self.errand = Errand::Open { at, ticks: 0 },
            (Fact::Refused, Errand::Opening(place)) => {
                self.refused = Some(place);
                self.errand = Errand::None;
            }
            (Fact::Lost, Errand::Open { ticks, .. }) => {
                if ticks > retry.interval_ticks {
                    self.pause_ticks = 0;
                }
                self.errand = Errand::None;
                self.said.clear();
                let ended = self.waiting.keys().chain(&self.ready).map(|leg| (*leg, Outcome::Disconnected));
                self.owed.extend(ended);
            }
            (Fact::Acknowledged(leg), _) => {
                if self.waiting.contains_key(&leg) {
                    self.owed.insert(leg, Outcome::Ready);
                }
            }
            // Found: the client opens what it was told, if it asked. All else comes when it is not waited for.
            (
                Fact::Found(_) | Fact::Unfound | Fact::Opened | Fact::Refused | Fact::Lost,
                Errand::None | Errand::Finding | Errand::Opening(_) | Errand::Open { .. },
            ) => {}
        }
    }

    fn tick(&mut self, retry: Retry) {
        self.since_ticks = (self.since_ticks + 1).min(retry.interval_ticks);
        if let Errand::Open { ticks, .. } = &mut self.errand {
            *ticks = (*ticks + 1).min(retry.interval_ticks + 1);
        }
        self.due = self.errand == Errand::None && self.since_ticks >= self.pause_ticks;
        for (leg, ticks) in &mut self.waiting {
            *ticks += 1;
            if *ticks == retry.patience_ticks {
                self.owed.insert(*leg, Outcome::Exhausted);
            }
        }
    }

    pub(super) fn does(&mut self, deed: &Deed<Place>, retry: Retry) {
        match *deed {
            Deed::Find => {
                self.attempt(retry);
                self.errand = Errand::Finding;
                self.known = false;
                self.refused = None;
            }
            Deed::Open(place) => {
                if self.errand != Errand::Finding {
                    self.attempt(retry);
                    self.known = true;
                }
                self.wrong |= self.refused == Some(place);
                self.errand = Errand::Opening(place);
            }
            Deed::Say(leg) => {
                let open = matches!(self.errand, Errand::Open { .. });
                self.wrong |= !open || !self.waiting.contains_key(&leg) || !self.said.insert(leg);
            }
            Deed::Tell(leg, outcome) => {
                self.wrong |= self.owed.remove(&leg) != Some(outcome);
                self.waiting.remove(&leg);
                match outcome {
                    Outcome::Ready => self.ready.insert(leg),
                    Outcome::Exhausted | Outcome::Disconnected => self.ready.remove(&leg),
                };
            }
        }
    }

    fn attempt(&mut self, retry: Retry) {
        self.wrong |= self.errand != Errand::None || self.since_ticks < self.pause_ticks;
        self.due = false;
        self.since_ticks = 0;
        self.pause_ticks = (2 * self.pause_ticks).clamp(retry.first_ticks, retry.interval_ticks);
    }

    /// Whether the client did nothing that it may not, and all that it must.
    pub(super) fn is_sound(&self) -> bool {
        let open = matches!(self.errand, Errand::Open { .. });
        let all_said = !open || self.waiting.keys().all(|leg| self.said.contains(leg));
        !self.wrong && !self.due && self.owed.is_empty() && all_said && (open || self.ready.is_empty())
    }

    pub(super) fn anyone_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn is_open_at(&self, place: Place) -> bool {
        matches!(self.errand, Errand::Open { at, .. } if at == place)
    }

    pub(super) fn opens_known(&self) -> bool {
        self.known && matches!(self.errand, Errand::Opening(_))
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn pause_ticks(&self) -> u32 {
        self.pause_ticks
    }
}
