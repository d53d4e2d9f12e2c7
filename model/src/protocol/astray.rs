//! Faults for nothing: one rank goes astray at one site. A protocol that holds must notice, or it is not shown at these bounds that the site
//! matters.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lockstep_spec::program::Posted;

use super::checked::Checked;
use super::collective::{Meeting, Operation};
use super::design::{Protocol, SiteOf};
use super::state::Step;
use crate::explore::{Settings, actions, fingerprint, message_of};
use crate::runs::{Progress, Runner, Verdict};
use stateright::Model;

/// States looked at for sites: those that a group meets at, it meets at soon.
const MOST_STATES: usize = 20_000;

/// What a rank does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Manner {
    /// It does not enter, and goes on as if its own words had come out.
    Skips,
    /// It enters with a shape that is one more.
    Oversizes,
    /// It enters, and goes on with its own words instead of what came out.
    TrustsItself,
}

/// A rank that goes astray at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Astray<S> {
    rank: usize,
    site: S,
    manner: Manner,
}

impl<S: Meeting> Astray<S> {
    fn applies(&self, manner: Manner, rank: usize, site: S) -> bool {
        (self.manner, self.rank, self.site) == (manner, rank, site)
    }

    /// Whether the rank does not enter.
    pub(super) fn skips(&self, rank: usize, site: S) -> bool {
        self.applies(Manner::Skips, rank, site)
    }

    /// Whether the rank takes its own words for the outcome.
    pub(super) fn trusts_itself(&self, rank: usize, site: S) -> bool {
        self.applies(Manner::TrustsItself, rank, site)
    }

    /// What the rank enters instead.
    pub(super) fn bend(&self, rank: usize, mut posted: Posted<S>) -> Posted<S> {
        posted.ticket.shape += u64::from(self.applies(Manner::Oversizes, rank, posted.ticket.site));
        posted
    }
}

impl<S: fmt::Debug> fmt::Display for Astray<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, site, manner } = self;
        match manner {
            Manner::Skips => write!(formatter, "rank {rank} skips {site:?}"),
            Manner::Oversizes => write!(formatter, "rank {rank} enters {site:?} with another shape"),
            Manner::TrustsItself => write!(formatter, "rank {rank} goes on from {site:?} with its own words"),
        }
    }
}

/// A fault and what came of it.
pub(super) struct Strayed {
    /// The fault, as a sentence.
    pub(super) what: String,
    /// What exploring found.
    pub(super) found: Found,
}

/// What exploring with a fault found.
pub(super) enum Found {
    /// A verdict.
    Verdict(Verdict),
    /// A rank that panics: it noticed, if not well.
    Panicked(String),
    /// The protocol cannot be judged.
    Unfit(String),
}

/// Lets a rank go astray in every manner at every site, one at a time.
pub(super) fn stray<P: Protocol>(checked: &Checked<P>, settings: &Settings<'_>) -> Vec<Strayed> {
    let each = faults(checked).into_iter().map(|astray| {
        let explore = || Progress(checked.astray(astray)).run(settings);
        let found = match catch_unwind(AssertUnwindSafe(explore)) {
            Ok(Ok(outcome)) => Found::Verdict(outcome.verdict),
            Ok(Err(error)) => Found::Unfit(error.to_string()),
            Err(panic) => Found::Panicked(message_of(&*panic)),
        };
        Strayed { what: astray.to_string(), found }
    });
    each.collect()
}

/// The last member of each site, in each manner that makes a difference there.
fn faults<P: Protocol>(checked: &Checked<P>) -> Vec<Astray<SiteOf<P>>> {
    let ranks = checked.0.ranks().len();
    let of_site = |site: SiteOf<P>| {
        let collective = site.collective();
        let rank = (0..ranks).rev().find(|rank| collective.members.has(*rank));
        let own_words = match collective.operation {
            Operation::Barrier => None,
            Operation::Broadcast { root } if Some(root) == rank => None,
            Operation::Broadcast { .. }
            | Operation::Gather
            | Operation::Maximum
            | Operation::Minimum
            | Operation::Sum => Some(Manner::TrustsItself),
        };
        let manners = [Manner::Skips, Manner::Oversizes].into_iter().chain(own_words);
        rank.into_iter().flat_map(move |rank| {
            manners.clone().map(move |manner| Astray { rank, site, manner }).collect::<Vec<_>>()
        })
    };
    sites(checked).into_iter().flat_map(of_site).collect()
}

/// The sites at which the group meets.
fn sites<P: Protocol>(checked: &Checked<P>) -> BTreeSet<SiteOf<P>> {
    let mut open = VecDeque::from(checked.init_states());
    let mut known: BTreeSet<u128> = open.iter().map(fingerprint).collect();
    let mut sites = BTreeSet::new();
    while let Some(state) = open.pop_front().filter(|_| known.len() < MOST_STATES) {
        for action in actions(checked, &state) {
            if let Step::Take(_, ticket) = &action {
                sites.insert(ticket.site);
            }
            let next = checked.next_state(&state, action);
            open.extend(next.filter(|next| known.insert(fingerprint(next))));
        }
    }
    sites
}
