//! What the proofs reach, all together: each reason of a decision, each way from phase to phase, each failure, each kind of fact, and
//! each kind of step of what is more than one group. A protocol whose outcomes nobody reaches is not checked, however much holds.
//!
//! ```text
//!  a world's step ─▶ Environment::note_… ─▶ explore::Notes ─▶ Outcome::covered ─▶ Coverage ─▶ table, CHECKS.md, exit 20
//! ```
//! Reading order: [`Points`] (a role's list), [`decode`] and [`prefill`] (the two lists), [`steps`] (what is taken, not
//! decided), [`Coverage`] (the sum over runs).

pub mod decode;
pub mod prefill;
mod reasons;
pub mod steps;
mod sum;

pub use sum::{Coverage, Reached};

use crate::explore::Notes;
use crate::world::Standing;
use lockstep_spec::poll::Reason;
use lockstep_spec::why::Why;

/// What the runs of one role should reach. The points are numbered in this order: outcomes, failures, facts, and each change from phase
/// to phase, drawn or not.
#[derive(Debug)]
pub struct Points {
    /// Name of the role.
    pub role: &'static str,
    /// Kinds of fact.
    pub facts: &'static [&'static str],
    /// Phases of an occupant; the first means that the slot is free.
    pub phases: &'static [&'static str],
    /// The drawn ways from phase to phase in one decision.
    pub arcs: &'static [(usize, usize)],
    /// Points that no run need reach, by name, with the reason.
    pub excused: &'static [(&'static str, &'static str)],
}

impl Points {
    /// Names of all points.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let whys = reasons::WHYS.iter().map(|why| format!("outcome {why:?}"));
        let failures = reasons::FAILURES.iter().map(|failure| format!("failure {failure:?}"));
        let facts = self.facts.iter().map(|fact| format!("fact {fact}"));
        let all = whys.chain(failures).chain(facts).chain(self.arc_names());
        all.map(|point| format!("{}: {point}", self.role)).collect()
    }

    fn arc_names(&self) -> impl Iterator<Item = String> {
        let phases = self.phases.len();
        (0..phases * phases).map(move |arc| {
            let (from, to) = (arc / phases, arc % phases);
            let drawn = if self.arcs.contains(&(from, to)) { "" } else { UNDRAWN };
            format!("{} → {}{drawn}", self.phases[from], self.phases[to])
        })
    }

    /// Why a point need not be reached, if so.
    #[must_use]
    pub fn excuse(&self, name: &str) -> Option<&'static str> {
        excuse(self.role, self.excused, name)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.arcs_from() + self.phases.len() * self.phases.len()
    }

    fn facts_from() -> usize {
        reasons::WHYS.len() + reasons::FAILURES.len()
    }

    fn arcs_from(&self) -> usize {
        Self::facts_from() + self.facts.len()
    }

    /// Notes why a decision did what it did.
    pub fn note_why(why: Why, notes: &mut Notes) {
        notes.note(why as usize);
    }

    /// Notes how an occupant failed.
    pub fn note_failure(failure: Reason, notes: &mut Notes) {
        notes.note(reasons::WHYS.len() + failure as usize);
    }

    /// Notes the `fact`-th kind of fact.
    pub fn note_fact(fact: usize, notes: &mut Notes) {
        notes.note(Self::facts_from() + fact);
    }

    /// Notes how a decision moved the occupants of all slots.
    pub fn note_arcs(&self, before: &[Standing], after: &[Standing], notes: &mut Notes) {
        for (before, after) in before.iter().zip(after) {
            if before.generation == after.generation {
                self.note_arc(before.phase, after.phase, notes);
            } else {
                self.note_arc(before.phase, 0, notes);
                self.note_arc(0, after.phase, notes);
            }
        }
    }

    fn note_arc(&self, from: usize, to: usize, notes: &mut Notes) {
        if from != to {
            notes.note(self.arcs_from() + from * self.phases.len() + to);
        }
    }
}

/// Why the point of this name, which begins with its list's, is excused there, if so.
fn excuse(list: &str, excused: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    let point = name.strip_prefix(list)?.strip_prefix(": ")?;
    excused.iter().find(|(excused, _)| *excused == point).map(|(_, why)| *why)
}

/// Ends the name of a change of phase that must not be reached.
const UNDRAWN: &str = ", which is not drawn";
