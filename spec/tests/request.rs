//! What a request asks for, how its tokens are drawn, and what ends its output.

#[allow(dead_code, reason = "each test binary uses its own part of the harness")]
mod harness;

use harness::alone::{Alone, EOS, ORDINARY, configuration, deeds, request};
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::decode::Decode;
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::phase::Outcome::{self, Length, Stop};
use lockstep_spec::decode::request::{Request, Sampling};
use lockstep_spec::ids::TokenId;
use lockstep_spec::poll::Reason;

/// The group has eight positions; the last token of an output takes none.
#[test]
fn request_is_admissible_if_it_asks_for_something_that_fits() {
    let table = [
        ((5, 4, 0), true),
        ((5, 5, 0), false),
        ((8, 1, 0), true),
        ((9, 1, 0), false),
        ((1, 8, 0), true),
        ((0, 4, 0), false),
        ((5, 4, 3), true),
        ((5, 4, 4), false),
        ((5, 0, 0), false),
        ((u32::MAX, u32::MAX, 0), false),
    ];
    for ((prompt_tokens, max_tokens, generated), admissible) in table {
        let request = Request { generated, ..request(0, prompt_tokens, max_tokens) };
        let expected = if admissible { Ok(()) } else { Err(Reason::NeverFits) };
        assert_eq!(request.admissible(&configuration()), expected, "{request:?}");
    }
}

#[test]
fn request_draws_each_token_by_its_index_in_the_output() {
    let sampling = Sampling { seed: 7, temperature_milli: 500 };
    let request = Request { sampling, ..request(0, 3, 9) };
    let draws = [2, 3, 4].map(|position| request.draw_after(position));
    assert_eq!(draws.map(|draw| draw.index), [0, 1, 2], "the first follows the last of the prompt");
    assert!(draws.iter().all(|draw| draw.sampling == sampling));
}

/// What the client of a request with this first token and, if there is a forward, this second one is told of each.
fn output(request: Request, tokens: &[TokenId]) -> Vec<(u32, Option<Outcome>)> {
    let stop_tokens = vec![OTHER_EOS, EOS];
    let mut rank =
        Alone::<Decode>::transferring(GroupConfiguration { stop_tokens, ..configuration() }, request);
    let mut effects = rank.land(0, tokens[0]);
    for token in &tokens[1..] {
        rank.retire(*token);
        effects.extend(rank.round());
    }
    let told = |deed| if let Do::Emit { index, ended, .. } = deed { Some((index, ended)) } else { None };
    deeds::<Decode>(effects).into_iter().filter_map(told).collect()
}

const OTHER_EOS: TokenId = TokenId(8);

#[test]
fn request_ends_with_a_stop_token_or_with_its_last() {
    type Ends = (&'static str, u32, bool, &'static [TokenId], Option<Outcome>);
    let table: [Ends; 12] = [
        ("an ordinary token", 3, false, &[ORDINARY, ORDINARY], None),
        ("the last token", 2, false, &[ORDINARY, ORDINARY], Some(Length)),
        ("the last token at once", 1, false, &[ORDINARY], Some(Length)),
        ("a stop token", 3, false, &[ORDINARY, EOS], Some(Stop)),
        ("another one", 3, false, &[ORDINARY, OTHER_EOS], Some(Stop)),
        ("one at once", 3, false, &[EOS], Some(Stop)),
        ("one that is the last as well", 2, false, &[ORDINARY, EOS], Some(Stop)),
        ("one that is the last at once", 1, false, &[EOS], Some(Stop)),
        ("one that is ignored", 3, true, &[ORDINARY, EOS], None),
        ("one that is ignored at once", 3, true, &[EOS], None),
        ("one that is ignored and the last", 2, true, &[ORDINARY, EOS], Some(Length)),
        ("one that is ignored and the last at once", 1, true, &[EOS], Some(Length)),
    ];
    for (what, max_tokens, ignore_eos, tokens, ended) in table {
        let told = output(Request { ignore_eos, ..request(0, 2, max_tokens) }, tokens);
        let expected = [(0, None), (1, None)];
        let mut expected = expected[..tokens.len()].to_vec();
        expected[tokens.len() - 1].1 = ended;
        assert_eq!(told, expected, "{what}");
    }
}
