//! A round of two collectives: a poll whether everyone's request is ready, and a forward once it is.
//!
//! Under [`Rule::Local`] a rank whose own request is ready skips the poll: the early return that hangs a group.
//! Under [`Rule::Agreed`] every rank polls, and all go forward when the poll says so.

use stateright::{Model, Property};

use crate::explore::{
    Collective, Explorable, Happening, Lane, Live, Obligation, StateMarks, StepEvent, StepMarks,
};

/// How a rank decides which collective to enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// By the result of the last poll.
    Agreed,
    /// By what it sees alone.
    Local,
}

/// The protocol at one size.
#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    /// Number of ranks, at most 8.
    pub ranks: usize,
    /// How ranks decide.
    pub rule: Rule,
    /// Whether a request becomes ready on every rank if one waits long enough.
    pub arrivals_fair: bool,
}

/// A collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Site {
    /// The forward.
    Forward,
    /// The poll.
    Poll,
}

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Between collectives.
    Idle,
    /// It has decided what to enter.
    Decided(Site),
    /// It has entered, and waits for the others.
    Entered(Site),
}

/// What one rank knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rank {
    at: At,
    ready: bool,
    vote: bool,
}

/// The group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    ranks: Vec<Rank>,
    agreed: bool,
}

/// A step of the group or its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The request becomes ready on a rank.
    Arrive(usize),
    /// The collective that every rank has entered completes.
    Complete,
    /// A rank decides what to enter.
    Decide(usize),
    /// A rank enters what it has decided.
    Enter(usize),
}

impl Barrier {
    /// The guard by which a rank decides.
    fn decision(&self, group: &Group, rank: usize) -> Happening {
        let guard = match self.rule {
            Rule::Agreed => "the last poll said ready",
            Rule::Local => "the request here is ready",
        };
        let value = if self.decide(group, rank) == Site::Forward { "yes" } else { "no" };
        Happening::Decide { guard: guard.to_owned(), value: value.to_owned() }
    }

    fn decide(&self, group: &Group, rank: usize) -> Site {
        let forward = match self.rule {
            Rule::Agreed => group.agreed,
            Rule::Local => group.ranks[rank].ready,
        };
        if forward { Site::Forward } else { Site::Poll }
    }
}

/// The collective that all ranks have entered.
fn common_site(group: &Group) -> Option<Site> {
    let At::Entered(site) = group.ranks.first()?.at else { return None };
    group.ranks.iter().all(|rank| rank.at == At::Entered(site)).then_some(site)
}

fn complete(group: &mut Group) {
    match common_site(group) {
        Some(Site::Forward) => {
            group.agreed = false;
            group.ranks.fill(Rank { at: At::Idle, ready: false, vote: false });
        }
        Some(Site::Poll) => {
            group.agreed = group.ranks.iter().all(|rank| rank.vote);
            group.ranks.iter_mut().for_each(|rank| *rank = Rank { at: At::Idle, vote: false, ..*rank });
        }
        None => {}
    }
}

/// All ranks that have entered a collective have entered the same.
fn matched(_: &Barrier, group: &Group) -> bool {
    let entered = |site: Site| group.ranks.iter().any(|rank| rank.at == At::Entered(site));
    !(entered(Site::Forward) && entered(Site::Poll))
}

impl Model for Barrier {
    type State = Group;
    type Action = Step;

    fn init_states(&self) -> Vec<Group> {
        let rank = Rank { at: At::Idle, ready: false, vote: false };
        vec![Group { ranks: vec![rank; self.ranks], agreed: false }]
    }

    fn actions(&self, group: &Group, steps: &mut Vec<Step>) {
        for (index, rank) in group.ranks.iter().enumerate() {
            if !rank.ready {
                steps.push(Step::Arrive(index));
            }
            match rank.at {
                At::Idle => steps.push(Step::Decide(index)),
                At::Decided(_) => steps.push(Step::Enter(index)),
                At::Entered(_) => {}
            }
        }
        steps.extend(common_site(group).map(|_| Step::Complete));
    }

    fn next_state(&self, group: &Group, step: Step) -> Option<Group> {
        let mut next = group.clone();
        match step {
            Step::Arrive(rank) => next.ranks[rank].ready = true,
            Step::Complete => complete(&mut next),
            Step::Decide(rank) => next.ranks[rank].at = At::Decided(self.decide(group, rank)),
            Step::Enter(rank) => {
                let At::Decided(site) = group.ranks[rank].at else { return None };
                next.ranks[rank].at = At::Entered(site);
                next.ranks[rank].vote = site == Site::Poll && group.ranks[rank].ready;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("matched", matched),
            Property::sometimes("a forward is entered by all", |_, group| {
                common_site(group) == Some(Site::Forward)
            }),
        ]
    }
}

impl Explorable for Barrier {
    fn may_stop(&self, _group: &Group) -> bool {
        false
    }

    fn lanes(&self, group: &Group) -> Vec<Lane> {
        let yes = |flag: bool| if flag { "yes" } else { "no" };
        let rank = |(index, rank): (usize, &Rank)| {
            Lane::new(format!("rank {index}"))
                .with("request", if rank.ready { "ready" } else { "awaited" })
                .with("at", at_text(rank.at))
        };
        let agreed = Lane::new("all").with("agreed", yes(group.agreed));
        group.ranks.iter().enumerate().map(rank).chain([agreed]).collect()
    }

    fn name_of_action(&self, step: &Step) -> String {
        match step {
            Step::Arrive(rank) => format!("request ready on rank {rank}"),
            Step::Complete => "collective completes".to_owned(),
            Step::Decide(rank) => format!("rank {rank} decides"),
            Step::Enter(rank) => format!("rank {rank} enters"),
        }
    }

    fn events(&self, before: &Group, step: &Step, after: &Group) -> Vec<StepEvent> {
        match step {
            Step::Arrive(rank) => {
                vec![StepEvent::on(*rank, Happening::Fact { fact: "request ready".to_owned() })]
            }
            Step::Complete => entered(before, |collective| Happening::Complete { collective }),
            Step::Decide(rank) => vec![StepEvent::on(*rank, self.decision(before, *rank))],
            Step::Enter(_) if !matched(self, after) => {
                entered(after, |collective| Happening::Mismatch { collective })
            }
            Step::Enter(rank) => entered(after, |collective| Happening::Enter { collective })
                .into_iter()
                .filter(|event| event.lane == Some(*rank))
                .collect(),
        }
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["arrive", "complete", "decide", "enter"]
    }

    fn kind_of_action(&self, step: &Step) -> usize {
        match step {
            Step::Arrive(_) => 0,
            Step::Complete => 1,
            Step::Decide(_) => 2,
            Step::Enter(_) => 3,
        }
    }
}

/// What happens to each collective that a rank has entered.
fn entered(group: &Group, happens: fn(Collective) -> Happening) -> Vec<StepEvent> {
    let site = |rank: &Rank| match rank.at {
        At::Entered(site) => Some(Collective::new("group", format!("{site:?}"))),
        At::Idle | At::Decided(_) => None,
    };
    let sites = group.ranks.iter().enumerate().filter_map(|(index, rank)| Some((index, site(rank)?)));
    sites.map(|(index, collective)| StepEvent::on(index, happens(collective))).collect()
}

fn at_text(at: At) -> &'static str {
    match at {
        At::Idle => "idle",
        At::Decided(Site::Forward) => "to-forward",
        At::Decided(Site::Poll) => "to-poll",
        At::Entered(Site::Forward) => "FORWARD",
        At::Entered(Site::Poll) => "POLL",
    }
}

/// Fairness constraints: arrival on each rank, then the moves of each rank, then completion.
impl Live for Barrier {
    fn goal_property(&self) -> &'static str {
        "ends"
    }

    fn obligations(&self) -> Vec<Obligation> {
        let owed = |rank| Obligation { property: "ends", subject: format!("the request on rank {rank}") };
        (0..self.ranks).map(owed).collect()
    }

    fn fairness(&self) -> Vec<String> {
        let arrivals = (0..self.ranks).map(|rank| format!("arrival on rank {rank}"));
        let moves = (0..self.ranks).map(|rank| format!("moves of rank {rank}"));
        arrivals.chain(moves).chain(["completion".to_owned()]).collect()
    }

    fn mark_state(&self, group: &Group) -> StateMarks {
        let mut marks =
            StateMarks { goal: common_site(group) == Some(Site::Forward), ..StateMarks::default() };
        for (index, rank) in group.ranks.iter().enumerate() {
            marks.pending |= u32::from(rank.ready) << index;
            marks.enabled |= u32::from(!rank.ready && self.arrivals_fair) << index;
            marks.enabled |= u32::from(!matches!(rank.at, At::Entered(_))) << (self.ranks + index);
        }
        marks.enabled |= u32::from(common_site(group).is_some()) << (2 * self.ranks);
        marks
    }

    fn mark_step(&self, from: &Group, step: &Step, _to: &Group) -> StepMarks {
        let served = common_site(from) == Some(Site::Forward) && *step == Step::Complete;
        let taken = match step {
            Step::Arrive(rank) => *rank,
            Step::Complete => 2 * self.ranks,
            Step::Decide(rank) | Step::Enter(rank) => self.ranks + rank,
        };
        StepMarks { benign: true, discharged: if served { u32::MAX } else { 0 }, taken: 1 << taken }
    }
}
