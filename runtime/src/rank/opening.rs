//! The start of a group on one rank: spec's [`Starting`] with the rank's device and the group's transport.

use std::sync::Arc;
use std::time::Duration;

use super::collective::meet;
use super::error::RankError;
use crate::group::Collectives;
use lockstep_spec::agreed::{Entry, Words};
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::fault::Fault;
use lockstep_spec::invariant::start_sound;
use lockstep_spec::program::{Effect, Event, RankProgram};
use lockstep_spec::start::{Deed, Fact, Offer, Preparation, Starting};
use lockstep_spec::ticket::{Kind, Ticket};

/// How long a rank waits for one that still looks at its device, or prepares: they allocate memory, and join a communicator.
const PATIENCE: Duration = Duration::from_secs(60);

/// A device communicator that a rank is to join: the entry that lets it, and the communicator's name.
pub(super) type Joining = (Entry, Words);

/// What a rank's device does in a start. Everything here ends by itself.
pub(super) trait Prepare {
    /// Looks at what there is.
    fn offer(&mut self) -> Result<Offer, RankError>;

    /// Takes memory for so many pages, joins the communicator if there is one to join, and captures its graphs.
    fn prepare(&mut self, pages: u32, joining: Option<Joining>) -> Result<Preparation, RankError>;

    /// Gives up the communicator that it has joined, or tried to.
    fn disconnect(&mut self);
}

/// Goes through the start, and returns what the group has agreed to go round with.
pub(super) fn open(
    mut machine: Starting,
    control: &mut impl Collectives,
    device: &mut impl Prepare,
    last_ticket: &mut Option<Ticket>,
) -> Result<Arc<GroupConfiguration>, RankError> {
    let offer = device.offer()?;
    let mut next = Event::Fact(Fact::Offers(offer.clone()));
    let (mut joining, mut preparation) = (None, Preparation { connected: false, captured: false });
    loop {
        let mut effects = Vec::new();
        machine.step(next, &mut effects);
        if let Some(configuration) = machine.started() {
            let configuration = Arc::clone(configuration.value());
            if !start_sound::holds(&configuration, &[(&offer, preparation)]) {
                return Err(Fault::Invariant(start_sound::PROPERTY.id).into());
            }
            if effects.contains(&Effect::Local(Deed::Disconnect)) {
                device.disconnect();
            }
            return Ok(configuration);
        }
        next = Event::Turn;
        for effect in effects {
            match effect {
                Effect::Enter(entry) => {
                    let ticket = *entry.ticket();
                    *last_ticket = Some(ticket);
                    match meet(control, &entry, PATIENCE)? {
                        Some(payload) => next = Event::Completed { ticket, payload },
                        None => joining = Some(entry).filter(|_| ticket.kind == Kind::Connect),
                    }
                }
                Effect::Local(Deed::Prepare { pages, name }) => {
                    preparation = device.prepare(pages, joining.take().zip(name))?;
                    next = Event::Fact(Fact::Prepared(preparation));
                }
                Effect::Local(Deed::Disconnect) => device.disconnect(),
                Effect::Fault(fault) => return Err(fault.into()),
                Effect::Leave => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Threads;
    use lockstep_spec::configuration::{Collectives as Where, Forwards, Votes};
    use lockstep_spec::ids::{Epoch, RankIndex};
    use lockstep_spec::start::NAME_WORDS;

    /// A device that says what it is told to say.
    struct Scripted {
        offer: Offer,
        preparation: Preparation,
        prepared: Option<(u32, Option<Words>)>,
        disconnected: bool,
    }

    impl Prepare for Scripted {
        fn offer(&mut self) -> Result<Offer, RankError> {
            Ok(self.offer.clone())
        }

        fn prepare(&mut self, pages: u32, joining: Option<Joining>) -> Result<Preparation, RankError> {
            self.prepared = Some((pages, joining.map(|(_, name)| name)));
            Ok(self.preparation)
        }

        fn disconnect(&mut self) {
            self.disconnected = true;
        }
    }

    fn device(pages: u32, connects: bool, connected: bool) -> Scripted {
        let offer = Offer { pages, connects, name: vec![u64::from(pages); NAME_WORDS] };
        let preparation = Preparation { connected, captured: true };
        Scripted { offer, preparation, prepared: None, disconnected: false }
    }

    fn proposal(ranks: u32) -> GroupConfiguration {
        GroupConfiguration {
            epoch: Epoch(4),
            ranks,
            slots: 1,
            pages: 100,
            page_size: 1,
            flights: 1,
            chunk_tokens: 1,
            prefix_pages: 0,
            host_pages: 0,
            brief_words: GroupConfiguration::least_brief_words(1),
            deadline_ticks: 1,
            stop_tokens: Vec::new(),
            collectives: Where::Device,
            forwards: Forwards::Captured,
            votes: Votes::Host,
        }
    }

    /// Starts a group of threads with these devices.
    fn start<const N: usize>(devices: [Scripted; N]) -> Vec<(Scripted, Arc<GroupConfiguration>)> {
        let members = Threads::form(N, 1 << 16);
        let ranks = (0..).zip(members).zip(devices);
        let threads: Vec<_> = ranks
            .map(|((rank, mut member), mut device)| {
                std::thread::spawn(move || {
                    let proposal = Arc::new(proposal(u32::try_from(N).unwrap()));
                    let machine = Starting::new(proposal, RankIndex(rank)).unwrap();
                    let started = open(machine, &mut member, &mut device, &mut None).unwrap();
                    (device, started)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    #[test]
    fn opening_agrees_on_the_fewest_pages_and_names_the_communicator_to_all() {
        let ranks = start([device(7, true, true), device(5, true, true), device(6, true, true)]);
        for (device, started) in ranks {
            assert_eq!(*started, GroupConfiguration { pages: 5, ..proposal(3) });
            assert_eq!(device.prepared, Some((5, Some(vec![7; NAME_WORDS]))), "the leader's name");
            assert!(!device.disconnected);
        }
    }

    #[test]
    fn opening_gives_up_on_all_ranks_what_one_has_not_joined() {
        for (device, started) in start([device(7, true, true), device(7, true, false)]) {
            assert_eq!(started.collectives, Where::Host);
            assert!(device.disconnected);
        }
    }

    #[test]
    fn opening_joins_nothing_where_one_rank_cannot() {
        for (device, started) in start([device(7, true, false), device(7, false, false)]) {
            assert_eq!(started.collectives, Where::Host);
            assert_eq!((device.prepared, device.disconnected), (Some((7, None)), false));
        }
    }
}
