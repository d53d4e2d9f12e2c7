//! What several peers make of one leg. A rank meets every rank of the other group that has some of its heads: with groups of equal size that
//! is one, else several; and a leg is shaken, listed, received or written once it is so for all of them. Nothing here is decided: what all
//! have said becomes one report, in the place of the last.

use std::collections::{BTreeMap, BTreeSet};

use crate::fabric::{DecodeInbound, PrefillInbound, Row};
use lockstep_spec::decode::evidence::{LegFact, MetadataRow};
use lockstep_spec::ids::{Leg, SlotIndex, TokenId};

/// What peers have said of the latest leg of each decode slot.
#[derive(Debug)]
struct Legs<T> {
    peers: usize,
    slots: BTreeMap<SlotIndex, (Leg, T)>,
}

impl<T: Default> Legs<T> {
    fn new(peers: usize) -> Self {
        Self { peers, slots: BTreeMap::new() }
    }

    /// What was said of a leg, unless a later one has made it void.
    fn of(&mut self, leg: Leg) -> Option<&mut T> {
        let (latest, said) = self.slots.entry(leg.slot).or_insert_with(|| (leg, T::default()));
        if *latest < leg {
            (*latest, *said) = (leg, T::default());
        }
        (*latest == leg).then_some(said)
    }
}

/// What the prefill ranks of a leg have brought.
#[derive(Debug, Default)]
struct Brought {
    shaken: BTreeSet<usize>,
    rows: BTreeMap<usize, Row>,
}

/// The decode side.
#[derive(Debug)]
pub(super) struct Reception(Legs<Brought>);

impl Reception {
    /// Of legs that so many prefill ranks bring.
    pub(super) fn new(peers: usize) -> Self {
        Self(Legs::new(peers))
    }

    /// What follows from a report of peer `peer` for the machine.
    pub(super) fn hears(&mut self, peer: usize, inbound: &DecodeInbound<'_>) -> Vec<(Leg, LegFact)> {
        let peers = self.0.peers;
        match *inbound {
            DecodeInbound::HandshakeReady { leg } => {
                let shaken = self.0.of(leg).is_some_and(|brought| {
                    brought.shaken.insert(peer);
                    brought.shaken.len() == peers
                });
                if shaken { vec![(leg, LegFact::HandshakeDone)] } else { Vec::new() }
            }
            DecodeInbound::HandshakeFailed { leg, .. } => vec![(leg, LegFact::HandshakeFailed)],
            DecodeInbound::LegFailed { leg, .. } => {
                vec![(leg, LegFact::HandshakeFailed), (leg, LegFact::TransferFailed)]
            }
            DecodeInbound::Corrupt { leg, .. } => vec![(leg, unsound(leg))],
            DecodeInbound::Row { leg, row } => self.row(peer, leg, row).into_iter().collect(),
            DecodeInbound::Page { .. } | DecodeInbound::PeerGone { .. } => Vec::new(),
        }
    }

    /// The rows of all peers are one row.
    fn row(&mut self, peer: usize, leg: Leg, row: Row) -> Option<(Leg, LegFact)> {
        let peers = self.0.peers;
        let brought = self.0.of(leg)?;
        brought.rows.insert(peer, row);
        if brought.rows.len() < peers {
            return None;
        }
        let same = brought.rows.values().all(|other| *other == row);
        let whole = MetadataRow { echo: row.echo, token: TokenId(row.first_token), sound: true };
        Some((leg, if same { LegFact::RowLanded(whole) } else { unsound(leg) }))
    }
}

/// A row that cannot be used.
pub(super) fn unsound(leg: Leg) -> LegFact {
    LegFact::RowLanded(MetadataRow { echo: leg, token: TokenId(0), sound: false })
}

/// The prefill side.
#[derive(Debug)]
pub(super) struct Dispatch {
    /// By peer: the pages that it has listed.
    lists: Legs<BTreeMap<usize, Vec<u32>>>,
    /// The peers to which a leg is written. Also of legs that a later one has made void: their writes are still to be settled.
    written: BTreeMap<Leg, BTreeSet<usize>>,
}

impl Dispatch {
    /// Of legs that go to so many decode ranks.
    pub(super) fn new(peers: usize) -> Self {
        Self { lists: Legs::new(peers), written: BTreeMap::new() }
    }

    /// The report of peer `peer`, if it is now that of all. A list that is not the others' is none: the leg waits until its deadline.
    pub(super) fn hears(&mut self, peer: usize, inbound: PrefillInbound) -> Option<PrefillInbound> {
        let peers = self.lists.peers;
        match inbound {
            PrefillInbound::List { leg, pages } => {
                let lists = self.lists.of(leg)?;
                lists.insert(peer, pages.clone());
                let listed = lists.len() == peers && lists.values().all(|list| *list == pages);
                listed.then_some(PrefillInbound::List { leg, pages })
            }
            PrefillInbound::Written { leg } => {
                let written = self.written.entry(leg).or_default();
                written.insert(peer);
                if written.len() < peers {
                    return None;
                }
                self.written.remove(&leg);
                Some(PrefillInbound::Written { leg })
            }
            gone @ PrefillInbound::PeerGone { .. } => {
                // The hands have the writes of all legs settled then, and ask for all lists again.
                self.lists.slots.values_mut().for_each(|(_, lists)| lists.clear());
                self.written.clear();
                Some(gone)
            }
            other @ (PrefillInbound::Rejected { .. } | PrefillInbound::Revoked { .. }) => Some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::FabricError;
    use lockstep_spec::ids::{Attempt, Epoch, Generation};

    fn leg(attempt: u64) -> Leg {
        let (epoch, slot, generation) = (Epoch(1), SlotIndex(3), Generation(1));
        Leg { epoch, slot, generation, attempt: Attempt(attempt) }
    }

    fn row(token: u32) -> Row {
        Row { echo: leg(1), first_token: token }
    }

    #[test]
    fn reception_reports_what_all_peers_have_said() {
        let mut reception = Reception::new(2);
        let ready = |attempt| DecodeInbound::HandshakeReady { leg: leg(attempt) };
        assert_eq!(reception.hears(0, &ready(1)), []);
        assert_eq!(reception.hears(0, &ready(1)), [], "one peer twice is not two");
        assert_eq!(reception.hears(1, &ready(1)), [(leg(1), LegFact::HandshakeDone)]);
        let landed = |token| DecodeInbound::Row { leg: leg(1), row: row(token) };
        assert_eq!(reception.hears(1, &landed(7)), []);
        let whole = MetadataRow { echo: leg(1), token: TokenId(7), sound: true };
        assert_eq!(reception.hears(0, &landed(7)), [(leg(1), LegFact::RowLanded(whole))]);
    }

    #[test]
    fn reception_of_different_rows_is_of_none() {
        let mut reception = Reception::new(2);
        let landed = |token| DecodeInbound::Row { leg: leg(1), row: row(token) };
        assert_eq!(reception.hears(0, &landed(7)), []);
        assert_eq!(reception.hears(1, &landed(8)), [(leg(1), unsound(leg(1)))]);
    }

    #[test]
    fn reception_forgets_a_leg_for_a_later_one() {
        let mut reception = Reception::new(2);
        let ready = |attempt| DecodeInbound::HandshakeReady { leg: leg(attempt) };
        assert_eq!(reception.hears(0, &ready(1)), []);
        assert_eq!(reception.hears(0, &ready(2)), []);
        assert_eq!(reception.hears(1, &ready(1)), [], "it is void");
        assert_eq!(reception.hears(1, &ready(2)), [(leg(2), LegFact::HandshakeDone)]);
    }

    #[test]
    fn reception_fails_a_leg_with_one_peer() {
        let why = FabricError::Silent;
        let failed = Reception::new(3).hears(2, &DecodeInbound::HandshakeFailed { leg: leg(1), why });
        assert_eq!(failed, [(leg(1), LegFact::HandshakeFailed)]);
        let corrupt = Reception::new(3).hears(2, &DecodeInbound::Corrupt { leg: leg(1), index: 0 });
        assert_eq!(corrupt, [(leg(1), unsound(leg(1)))]);
    }

    #[test]
    fn dispatch_reports_a_list_and_its_writing_once_all_have_said_so() {
        let mut dispatch = Dispatch::new(2);
        let list = |pages: &[u32]| PrefillInbound::List { leg: leg(1), pages: pages.to_vec() };
        let written = || PrefillInbound::Written { leg: leg(1) };
        assert_eq!(dispatch.hears(0, list(&[4, 5])), None);
        assert_eq!(dispatch.hears(1, list(&[4, 6])), None, "another list than the other's");
        assert_eq!(dispatch.hears(1, list(&[4, 5])), Some(list(&[4, 5])));
        assert_eq!(dispatch.hears(1, written()), None);
        assert_eq!(dispatch.hears(0, written()), Some(written()));
        let revoked = PrefillInbound::Revoked { leg: leg(1) };
        assert_eq!(dispatch.hears(1, revoked.clone()), Some(revoked));
    }

    /// Or its slot and pages are held for ever.
    #[test]
    fn dispatch_settles_the_writes_of_a_leg_that_is_void() {
        for peers in [1, 2] {
            let mut dispatch = Dispatch::new(peers);
            let written = || PrefillInbound::Written { leg: leg(1) };
            for attempt in [1, 2] {
                let list = || PrefillInbound::List { leg: leg(attempt), pages: vec![4] };
                let heard = (0..peers).filter_map(|peer| dispatch.hears(peer, list())).count();
                assert_eq!(heard, 1);
            }
            let heard: Vec<_> = (0..peers).filter_map(|peer| dispatch.hears(peer, written())).collect();
            assert_eq!(heard, [written()]);
            assert!(dispatch.written.is_empty());
        }
    }

    #[test]
    fn dispatch_asks_all_for_their_lists_again_when_one_is_gone() {
        let mut dispatch = Dispatch::new(2);
        let list = |attempt| PrefillInbound::List { leg: leg(attempt), pages: vec![4] };
        assert_eq!(dispatch.hears(0, list(1)), None);
        let gone = PrefillInbound::PeerGone { epoch: 1, why: FabricError::Closed };
        assert_eq!(dispatch.hears(0, gone.clone()), Some(gone));
        assert_eq!(dispatch.hears(1, list(1)), None);
        assert_eq!(dispatch.hears(0, list(1)), Some(list(1)));
    }
}
