//! How a group starts: what its ranks bring, and what they go round with.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::fault::{Fault, Identity};
use lockstep_spec::ids::{Epoch, RankIndex};
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};
use lockstep_spec::start::{Deed, Fact, NAME_WORDS, Offer, Preparation, Starting};
use lockstep_spec::ticket::{Kind, Site};

const ALL_OF_IT: Preparation = Preparation { connected: true, captured: true };

fn proposal() -> GroupConfiguration {
    GroupConfiguration {
        epoch: Epoch(3),
        ranks: 2,
        slots: 1,
        pages: 9,
        page_size: 2,
        flights: 1,
        chunk_tokens: 8,
        prefix_pages: 0,
        host_pages: 0,
        brief_words: GroupConfiguration::least_brief_words(1),
        deadline_ticks: 9,
        stop_tokens: Vec::new(),
        collectives: Collectives::Device,
        forwards: Forwards::Captured,
        votes: Votes::Host,
    }
}

fn offer(pages: u32, connects: bool) -> Offer {
    Offer { pages, connects, name: vec![7; NAME_WORDS] }
}

/// Two ranks that start, and the sites that they entered.
struct Group {
    ranks: [Starting; 2],
    entered: Vec<Site>,
    deeds: [Vec<Deed>; 2],
    fault: Option<Fault>,
}

impl Group {
    fn new(proposals: [GroupConfiguration; 2]) -> Self {
        let [first, second] = proposals;
        let rank = |proposal, rank| Starting::new(Arc::new(proposal), RankIndex(rank)).unwrap();
        Self {
            ranks: [rank(first, 0), rank(second, 1)],
            entered: Vec::new(),
            deeds: [vec![], vec![]],
            fault: None,
        }
    }

    /// Gives both ranks an event, and completes what both enter.
    fn step(&mut self, events: [Event<Fact, Site>; 2]) {
        let mut posted: [Option<Posted<Site>>; 2] = [None, None];
        for (rank, event) in events.into_iter().enumerate() {
            let mut effects = Vec::new();
            self.ranks[rank].step(event, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Enter(entry) if entry.ticket().kind == Kind::Connect => {
                        self.entered.push(Site::Connect)
                    }
                    Effect::Enter(entry) => posted[rank] = Some(entry.into()),
                    Effect::Local(deed) => self.deeds[rank].push(deed),
                    Effect::Fault(fault) => self.fault = Some(fault),
                    Effect::Leave => panic!("a start does not leave"),
                }
            }
        }
        let [Some(leader), Some(follower)] = posted else { return };
        assert_eq!(leader.ticket, follower.ticket);
        self.entered.push(leader.ticket.site);
        let mut payload = leader.payload;
        if leader.ticket.kind == Kind::MinReduce {
            payload.iter_mut().zip(follower.payload).for_each(|(word, other)| *word = other.min(*word));
        }
        let completed = Event::Completed { ticket: leader.ticket, payload };
        self.step([completed.clone(), completed]);
    }

    fn turn(&mut self) {
        self.step([Event::Turn, Event::Turn]);
    }

    fn offer(&mut self, offers: [Offer; 2]) {
        self.step(offers.map(|offer| Event::Fact(Fact::Offers(offer))));
        self.turn();
    }

    fn prepare(&mut self, preparations: [Preparation; 2]) {
        self.step(preparations.map(|preparation| Event::Fact(Fact::Prepared(preparation))));
        self.turn();
    }

    fn started(&self) -> &GroupConfiguration {
        let [first, second] = [&self.ranks[0], &self.ranks[1]].map(|rank| rank.started().unwrap().value());
        assert_eq!(first, second);
        first
    }
}

fn start(offers: [Offer; 2], preparations: [Preparation; 2]) -> Group {
    let mut group = Group::new([proposal(), proposal()]);
    group.offer(offers);
    group.prepare(preparations);
    group
}

#[test]
fn start_takes_what_every_rank_has() {
    let group = start([offer(5, true), offer(4, true)], [ALL_OF_IT; 2]);
    assert_eq!(*group.started(), GroupConfiguration { pages: 4, ..proposal() });
    assert_eq!(group.entered, [Site::Offer, Site::Name, Site::Connect, Site::Connect, Site::Ready]);
    let prepare = Deed::Prepare { pages: 4, name: Some(vec![7; NAME_WORDS]) };
    assert_eq!(group.deeds, [vec![prepare.clone()], vec![prepare]]);
}

#[test]
fn start_has_no_more_pages_than_were_proposed() {
    let group = start([offer(50, true), offer(40, true)], [ALL_OF_IT; 2]);
    assert_eq!(group.started().pages, 9);
}

#[test]
fn start_joins_no_communicator_that_one_rank_cannot_join() {
    let apart = Preparation { connected: false, captured: true };
    for offers in
        [[offer(5, true), offer(5, false)], [Offer { name: vec![], ..offer(5, true) }, offer(5, true)]]
    {
        let group = start(offers, [apart; 2]);
        assert_eq!(group.started().collectives, Collectives::Host);
        assert_eq!(group.entered, [Site::Offer, Site::Ready]);
        assert_eq!(group.deeds[1], [Deed::Prepare { pages: 5, name: None }]);
    }
}

#[test]
fn start_gives_up_a_communicator_that_one_rank_has_not_joined() {
    let group =
        start([offer(5, true), offer(5, true)], [ALL_OF_IT, Preparation { connected: false, ..ALL_OF_IT }]);
    assert_eq!(group.started().collectives, Collectives::Host);
    assert!(group.deeds.iter().all(|deeds| deeds.last() == Some(&Deed::Disconnect)));
}

#[test]
fn start_replays_no_forward_that_one_rank_has_not_captured() {
    let group =
        start([offer(5, true), offer(5, true)], [ALL_OF_IT, Preparation { captured: false, ..ALL_OF_IT }]);
    assert_eq!(group.started(), &GroupConfiguration { pages: 5, forwards: Forwards::Eager, ..proposal() });
}

#[test]
fn start_faults_on_other_terms_another_epoch_and_no_room() {
    let others = [
        (GroupConfiguration { slots: 2, brief_words: 99, ..proposal() }, Fault::Diverged(Identity::Terms)),
        (GroupConfiguration { epoch: Epoch(4), ..proposal() }, Fault::Diverged(Identity::Epoch)),
    ];
    for (other, fault) in others {
        let mut group = Group::new([proposal(), other]);
        // Their tickets differ in the epoch, which a transport finds; the words must show it, too.
        let mut posted = Vec::new();
        for (rank, starting) in group.ranks.iter_mut().enumerate() {
            let mut effects = Vec::new();
            starting.step(Event::Fact(Fact::Offers(offer(5, true))), &mut effects);
            starting.step(Event::Turn, &mut effects);
            let Some(Effect::Enter(entry)) = effects.pop() else { panic!("rank {rank} offers") };
            posted.push(Posted::from(entry));
        }
        let payload: Vec<u64> =
            posted[0].payload.iter().zip(&posted[1].payload).map(|(a, b)| *a.min(b)).collect();
        let completed = [0, 1]
            .map(|rank: usize| Event::Completed { ticket: posted[rank].ticket, payload: payload.clone() });
        group.step(completed);
        assert_eq!(group.fault, Some(fault));
    }
    let mut group = Group::new([proposal(), proposal()]);
    group.offer([offer(5, true), offer(0, true)]);
    assert_eq!(group.fault, Some(Fault::NoRoom));
}

#[test]
fn start_faults_on_a_completion_that_nobody_asked_for() {
    let mut rank: Starting = Starting::new(Arc::new(proposal()), RankIndex(0)).unwrap();
    let mut effects = Vec::new();
    rank.step(Event::Fact(Fact::Offers(offer(5, true))), &mut effects);
    rank.step(Event::Turn, &mut effects);
    let Some(Effect::Enter(entry)) = effects.pop() else { panic!("it offers") };
    let ticket = *entry.ticket();
    rank.step(Event::Completed { ticket, payload: vec![1] }, &mut effects);
    assert!(matches!(effects.pop(), Some(Effect::Fault(Fault::WrongShape { .. }))));
    let mut rank: Starting = Starting::new(Arc::new(proposal()), RankIndex(0)).unwrap();
    rank.step(Event::Completed { ticket, payload: vec![] }, &mut effects);
    assert_eq!(effects.pop(), Some(Effect::Fault(Fault::Unasked(ticket))));
}

/// The ranks could join and capture, and are not asked to.
#[test]
fn start_does_nothing_that_the_leader_did_not_propose() {
    let modest =
        GroupConfiguration { collectives: Collectives::Host, forwards: Forwards::Eager, ..proposal() };
    let mut group = Group::new([modest.clone(), modest.clone()]);
    group.offer([offer(9, true), offer(9, true)]);
    group.prepare([ALL_OF_IT; 2]);
    assert_eq!(group.started(), &modest);
    assert_eq!(group.entered, [Site::Offer, Site::Ready]);
    let prepare = [Deed::Prepare { pages: 9, name: None }];
    assert_eq!(group.deeds, [prepare.clone(), prepare], "nothing is to be given up either");
}
