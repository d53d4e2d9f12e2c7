//! What crosses the wire: briefs in words, and what the minimum of votes means.

use lockstep_spec::agreed::Words;
use lockstep_spec::brief::{Arrival, Brief};
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, MAX_FLIGHTS, Votes};
use lockstep_spec::decode::request::{Request, Sampling};
use lockstep_spec::fault::{Fault, Identity};
use lockstep_spec::ids::{Attempt, BlockKey, Epoch, Generation, Leg, RequestId, Round, SlotIndex, TokenId};
use lockstep_spec::poll::KvPoll;
use lockstep_spec::prefill::leg::PrefillLeg;
use lockstep_spec::vote::{Ballot, FirstToken, NEUTRAL, Outcome, SlotVote};
use proptest::collection::vec;
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that this thread asks for.
struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it is; counting touches no memory that it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + layout.size());
        // SAFETY: the caller keeps this method's contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn asked<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ASKED.get();
    let result = work();
    (result, ASKED.get() - before)
}

fn samplings() -> impl Strategy<Value = Sampling> {
    (any::<u64>(), any::<u32>()).prop_map(|(seed, temperature_milli)| Sampling { seed, temperature_milli })
}

fn requests() -> impl Strategy<Value = Request> {
    (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>(), samplings()).prop_map(
        |(id, prompt_tokens, max_tokens, generated, ignore_eos, sampling)| Request {
            id: RequestId(id),
            prompt_tokens,
            max_tokens,
            generated,
            ignore_eos,
            sampling,
        },
    )
}

fn legs() -> impl Strategy<Value = PrefillLeg> {
    let leg = (any::<u64>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(
        |(epoch, slot, generation, attempt)| Leg {
            epoch: Epoch(epoch),
            slot: SlotIndex(slot),
            generation: Generation(generation),
            attempt: Attempt(attempt),
        },
    );
    let keys = vec(any::<[u64; 2]>().prop_map(BlockKey), 0..4);
    (any::<u64>(), leg, any::<u32>(), keys).prop_map(|(id, leg, tokens, keys)| PrefillLeg {
        id: RequestId(id),
        leg,
        tokens,
        keys,
    })
}

fn briefs<A: Arrival>(arrivals: impl Strategy<Value = A>) -> impl Strategy<Value = Brief<A>> {
    let aborts = vec(any::<u64>().prop_map(RequestId), 0..4);
    (any::<Option<bool>>(), vec(vec(any::<bool>(), 0..4), 0..3), vec(arrivals, 0..4), aborts)
        .prop_map(|(pause, verdicts, arrivals, aborts)| Brief { pause, verdicts, arrivals, aborts })
}

fn survives<A: Arrival>(brief: &Brief<A>) -> Result<(), TestCaseError> {
    let words = brief.encode();
    prop_assert_eq!(words.len(), if brief.is_empty() { 0 } else { brief.words() });
    prop_assert_eq!(Brief::decode(&words), Ok(brief.clone()));
    Ok(())
}

/// Words among which lengths and counts are likely.
fn noise() -> impl Strategy<Value = Words> {
    let word = prop_oneof![4 => 0..6_u64, 1 => Just(u64::MAX), 1 => Just(1 << 40), 1 => any::<u64>()];
    vec(word, 0..40)
}

fn stays_small<A: Arrival>(words: &Words) -> Result<(), TestCaseError> {
    let (decoded, bytes) = asked(|| Brief::<A>::decode(words));
    // A word makes at most one item; an item is below 96 bytes, and a vector that doubles asks for at most four times its end.
    prop_assert!(bytes <= 4 * 96 * (words.len() + 4), "{bytes} bytes for {} words", words.len());
    if let Ok(brief) = decoded {
        let again = Brief::<A>::decode(&brief.encode());
        prop_assert_eq!(again, Ok(brief), "what was read can be said again");
    }
    Ok(())
}

proptest! {
    #[test]
    fn brief_of_requests_survives_the_wire(brief in briefs(requests())) {
        survives(&brief)?;
    }

    #[test]
    fn brief_of_legs_survives_the_wire(brief in briefs(legs())) {
        survives(&brief)?;
    }

    #[test]
    fn brief_of_arbitrary_words_is_read_or_refused_in_bounded_memory(words in noise()) {
        stays_small::<Request>(&words)?;
        stays_small::<PrefillLeg>(&words)?;
    }

    #[test]
    fn brief_cut_or_continued_is_refused(brief in briefs(requests()), cut in any::<prop::sample::Index>(), more in any::<u64>()) {
        let words = brief.encode();
        prop_assume!(!words.is_empty());
        let end = cut.index(words.len());
        prop_assert!(end == 0 || matches!(Brief::<Request>::decode(&words[..end]), Err(Fault::BadBrief(_))));
        let longer: Words = words.iter().copied().chain([more]).collect();
        prop_assert!(matches!(Brief::<Request>::decode(&longer), Err(Fault::BadBrief(_))));
    }
}

const SLOTS: u32 = 2;

fn configuration() -> GroupConfiguration {
    GroupConfiguration {
        epoch: Epoch(0),
        ranks: 3,
        slots: SLOTS,
        pages: 4,
        page_size: 2,
        flights: 2,
        prefix_pages: 0,
        host_pages: 0,
        brief_words: 32,
        chunk_tokens: 8,
        deadline_ticks: 4,
        stop_tokens: Vec::new(),
        collectives: Collectives::Host,
        forwards: Forwards::Eager,
        votes: Votes::Host,
    }
}

/// What one rank says.
#[derive(Clone, Debug)]
struct Said {
    digest: u64,
    fault: bool,
    shutdown: bool,
    retired: Vec<u64>,
    slots: Vec<SlotVote>,
}

const POLLS: [KvPoll; 10] = [
    KvPoll::TransferFailed,
    KvPoll::Corrupt,
    KvPoll::WrongLeg,
    KvPoll::HandshakeFailed,
    KvPoll::Revoked,
    KvPoll::DeadlinePassed,
    KvPoll::Bootstrapping,
    KvPoll::WaitingForInput,
    KvPoll::Transferring,
    KvPoll::Success,
];

fn slot_votes() -> impl Strategy<Value = SlotVote> {
    (prop::sample::select(&POLLS[..]), prop::option::of(0..3_u32), any::<bool>())
        .prop_map(|(poll, token, drained)| SlotVote { poll, first_token: token.map(TokenId), drained })
}

/// Few different values, so that ranks agree about as often as not.
fn said() -> impl Strategy<Value = Said> {
    let digests = prop_oneof![20 => Just(7_u64), 1 => any::<u64>()];
    let rare = || prop::bool::weighted(0.1);
    (digests, rare(), rare(), vec(0..2_u64, 0..=MAX_FLIGHTS), vec(slot_votes(), SLOTS as usize)).prop_map(
        |(digest, fault, shutdown, retired, slots)| Said { digest, fault, shutdown, retired, slots },
    )
}

fn ballot(rank: usize, said: &Said, brief_words: usize) -> Words {
    let mut ballot = Ballot::new(&configuration(), Epoch(1), Round(2), said.digest);
    if said.fault {
        ballot.fault();
    }
    if said.shutdown {
        ballot.shutdown();
    }
    if rank == 0 {
        ballot.brief_words(brief_words);
    }
    said.retired.iter().for_each(|digest| ballot.retired(*digest));
    (0..).map(SlotIndex).zip(&said.slots).for_each(|(index, vote)| ballot.slot(index, *vote));
    ballot.into_words()
}

fn minimum(ballots: &[Words]) -> Outcome {
    let mut reduced = ballots[0].clone();
    for ballot in ballots {
        reduced.iter_mut().zip(ballot).for_each(|(least, word)| *least = (*least).min(*word));
    }
    Outcome::new(reduced)
}

fn all_same<T: PartialEq>(values: &[T]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// Words of a vote's width that no rank need have written.
fn votes() -> impl Strategy<Value = Vec<u64>> {
    vec(any::<u64>(), usize::try_from(Ballot::width(&configuration())).unwrap_or(usize::MAX))
}

proptest! {
    #[test]
    fn vote_minimum_means_what_is_documented(ranks in vec(said(), 1..4), brief_words in 0..32_usize) {
        let ballots: Vec<Words> = ranks.iter().enumerate().map(|(rank, said)| ballot(rank, said, brief_words)).collect();
        prop_assert!(ballots.iter().all(|words| words.len() as u64 == Ballot::width(&configuration())));
        let outcome = minimum(&ballots);

        let diverged = !all_same(&ranks.iter().map(|said| said.digest).collect::<Vec<_>>());
        let fault = match (ranks.iter().any(|said| said.fault), diverged) {
            (true, _) => Some(Fault::Raised),
            (false, true) => Some(Fault::Diverged(Identity::State)),
            (false, false) => None,
        };
        prop_assert_eq!(outcome.fault(), fault);
        prop_assert_eq!(outcome.shutdown(), ranks.iter().any(|said| said.shutdown));
        prop_assert_eq!(outcome.brief_words(), brief_words as u64);

        let retired = ranks.iter().map(|said| said.retired.len()).min().unwrap_or_default();
        prop_assert_eq!(outcome.retired(), retired);
        for index in 0..retired {
            let digests: Vec<u64> = ranks.iter().map(|said| said.retired[index]).collect();
            prop_assert_eq!(outcome.tokens_equal(index).is_ok(), all_same(&digests));
        }

        for (index, slot) in (0..SLOTS).map(|slot| (slot as usize, SlotIndex(slot))) {
            let votes: Vec<SlotVote> = ranks.iter().map(|said| said.slots[index]).collect();
            prop_assert_eq!(Some(outcome.poll(slot)), votes.iter().map(|vote| vote.poll).min());
            prop_assert_eq!(outcome.drained(slot), votes.iter().all(|vote| vote.drained));
            let tokens: Option<Vec<TokenId>> = votes.iter().map(|vote| vote.first_token).collect();
            if let Some(tokens) = tokens {
                let expected = if all_same(&tokens) { FirstToken::Equal(tokens[0]) } else { FirstToken::Unequal };
                prop_assert_eq!(outcome.first_token(slot), expected);
            }
        }
    }

    #[test]
    fn vote_of_arbitrary_words_is_read_to_its_end(words in votes()) {
        let outcome = Outcome::new(Words::from(words));
        let told = (outcome.fault(), outcome.shutdown(), outcome.brief_words());
        prop_assert!(outcome.retired() <= MAX_FLIGHTS, "{:?}", told);
        for index in 0..outcome.retired() {
            prop_assert!(outcome.tokens_equal(index).is_ok() || outcome.tokens_equal(index) == Err(Fault::Diverged(Identity::Tokens)));
        }
        for slot in (0..configuration().slots).map(SlotIndex) {
            let (poll, token, drained) = (outcome.poll(slot), outcome.first_token(slot), outcome.drained(slot));
            prop_assert!(poll.code() <= KvPoll::Success.code(), "{:?} {} ", token, drained);
        }
    }

    #[test]
    fn vote_ranks_in_another_epoch_or_round_are_noticed(epochs in vec(0..2_u64, 2..4), rounds in vec(0..2_u64, 4)) {
        let ballots: Vec<Words> = epochs
            .iter()
            .zip(&rounds)
            .map(|(epoch, round)| Ballot::new(&configuration(), Epoch(*epoch), Round(*round), 7).into_words())
            .collect();
        let expected = match (all_same(&epochs), all_same(&rounds[..epochs.len()])) {
            (false, _) => Some(Fault::Diverged(Identity::Epoch)),
            (true, false) => Some(Fault::Diverged(Identity::Round)),
            (true, true) => None,
        };
        prop_assert_eq!(minimum(&ballots).fault(), expected);
    }

    #[test]
    fn vote_poll_code_is_its_order(one in prop::sample::select(&POLLS[..]), other in prop::sample::select(&POLLS[..])) {
        prop_assert_eq!(KvPoll::from_code(one.code()), one);
        prop_assert_eq!(one.cmp(&other), one.code().cmp(&other.code()));
        prop_assert!(one.failure().is_none() || one < KvPoll::Bootstrapping);
    }
}

#[test]
fn vote_ranks_with_other_configurations_are_noticed() {
    let other = GroupConfiguration { chunk_tokens: 1, ..configuration() };
    let vote = |configuration| Ballot::new(configuration, Epoch(0), Round(0), 7).into_words();
    let found = minimum(&[vote(&configuration()), vote(&other)]).fault();
    assert_eq!(found, Some(Fault::Diverged(Identity::Terms)));
}

#[test]
fn vote_without_a_leader_asks_for_a_brief_that_no_group_takes() {
    let nobody_leads = Ballot::new(&configuration(), Epoch(0), Round(0), 7).into_words();
    let words = minimum(&[nobody_leads]).brief_words();
    assert!(words > u64::from(configuration().brief_words));
}

#[test]
fn vote_poll_that_nobody_cast_is_the_neutral_one() {
    assert_eq!([10, NEUTRAL].map(KvPoll::from_code), [KvPoll::Success; 2]);
}
