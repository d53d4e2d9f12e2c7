//! What a configuration says of itself: the terms on which ranks meet, and the room that it has.

use lockstep_spec::FINGERPRINT;
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::digest::Digest;
use lockstep_spec::ids::{Epoch, TokenId};
use std::collections::BTreeSet;

fn configuration() -> GroupConfiguration {
    GroupConfiguration {
        epoch: Epoch(0),
        ranks: 2,
        slots: 2,
        pages: 4,
        page_size: 2,
        flights: 1,
        prefix_pages: 0,
        host_pages: 0,
        brief_words: 32,
        chunk_tokens: 8,
        deadline_ticks: 3,
        stop_tokens: vec![TokenId(9)],
        collectives: Collectives::Host,
        forwards: Forwards::Eager,
        votes: Votes::Host,
    }
}

#[test]
fn configuration_differs_in_its_terms_with_each_field() {
    let changes: [fn(&mut GroupConfiguration); 14] = [
        |other| other.ranks = 1,
        |other| other.slots = 1,
        |other| other.pages = 1,
        |other| other.page_size = 1,
        |other| other.flights = 2,
        |other| other.prefix_pages = 1,
        |other| other.host_pages = 1,
        |other| other.brief_words = 99,
        |other| other.chunk_tokens = 1,
        |other| other.deadline_ticks = 1,
        |other| other.stop_tokens.push(TokenId(8)),
        |other| other.collectives = Collectives::Device,
        |other| other.forwards = Forwards::Captured,
        |other| other.votes = Votes::Stream,
    ];
    let others = changes.map(|change| {
        let mut other = configuration();
        change(&mut other);
        other.terms()
    });
    let terms: BTreeSet<u64> = others.into_iter().chain([configuration().terms()]).collect();
    assert_eq!(terms.len(), changes.len() + 1, "no two of them are the same");
    let later = GroupConfiguration { epoch: Epoch(1), ..configuration() };
    assert_eq!(later.terms(), configuration().terms(), "the epoch is compared apart from them");
}

/// Ranks that were built from other sources must not meet, however alike they are configured.
#[test]
fn configuration_has_the_version_of_the_protocol_among_its_terms() {
    let built_from = |fingerprint: &str| {
        let own = configuration();
        let (sizes, kept) = ([2, 2, 4, 2, 1, 8, 32, 3_u32], [0, 0_u32]);
        let (sizes, kept) = (sizes.each_ref(), kept.each_ref());
        Digest::of(&(fingerprint, sizes, kept, own.stop_tokens, own.collectives, own.forwards, own.votes))
    };
    assert_eq!(configuration().terms(), built_from(FINGERPRINT));
    assert_ne!(configuration().terms(), built_from("other sources"));
}

#[test]
fn configuration_rounds_up_to_whole_pages() {
    assert_eq!([0, 1, 2, 3, 4, 5].map(|positions| configuration().pages_for(positions)), [0, 1, 1, 2, 2, 3]);
}
