//! Tokenizer: the reference's prompt tokens, and answers in pieces that are whole characters and add up exactly.

use crate::common::{goldens, model_directory};
use lockstep_runtime::engine::Text;
use serde_json::{Value, json};

fn text() -> Text {
    Text::load(&model_directory()).unwrap()
}

/// Pieces of `tokens`, the last one from `finish`.
fn pieces(text: &Text, tokens: &[u32]) -> Vec<String> {
    let mut detokenizer = text.detokenizer();
    let mut pieces: Vec<_> = tokens.iter().filter_map(|token| detokenizer.push(*token).unwrap()).collect();
    pieces.push(detokenizer.finish().unwrap());
    pieces
}

/// A fixed sequence of numbers without pattern.
fn noise(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
    .map(|state| state >> 33)
}

#[test]
fn text_prompts_encode_as_the_reference_does() {
    for golden in goldens() {
        assert_eq!(text().encode(&golden.prompt).unwrap(), golden.prompt_ids);
        assert_eq!(text().decode(&golden.prompt_ids).unwrap(), golden.prompt);
    }
}

#[test]
fn text_white_space_survives_the_round_trip() {
    for original in [" leading", "trailing \n", "a  b\tc\r\n\n", ""] {
        assert_eq!(text().decode(&text().encode(original).unwrap()).unwrap(), original);
    }
}

#[test]
fn text_answer_comes_piece_by_piece() {
    let text = text();
    for golden in goldens() {
        let pieces = pieces(&text, &golden.greedy_ids);
        assert_eq!(pieces.concat(), text.decode(&golden.greedy_ids).unwrap());
        assert_eq!(pieces.len(), golden.greedy_ids.len() + 1, "ASCII text is held back");
    }
}

#[test]
fn text_character_over_several_tokens_comes_when_complete() {
    let text = text();
    let original = "a🦀é\u{FFFD}語!";
    let tokens = text.encode(original).unwrap();
    assert!(tokens.len() > original.chars().count(), "the characters do not span tokens");
    let pieces = pieces(&text, &tokens);
    assert_eq!(pieces.concat(), original);
    assert_eq!(pieces[..3], ["a", "🦀", "é"]);
}

#[test]
fn text_incomplete_character_at_the_end_is_a_replacement() {
    let text = text();
    let tokens = text.encode("ab🦀").unwrap();
    let cut = &tokens[..tokens.len() - 1];
    assert_eq!(pieces(&text, cut).last().unwrap(), "\u{FFFD}");
    assert_eq!(pieces(&text, cut).concat(), text.decode(cut).unwrap());
}

#[test]
fn text_pieces_of_any_tokens_add_up_to_the_whole() {
    let text = text();
    for seed in 0..200 {
        let tokens: Vec<u32> =
            noise(seed).skip(1).take(60).map(|number| u32::try_from(number % 300).unwrap()).collect();
        assert_eq!(pieces(&text, &tokens).concat(), text.decode(&tokens).unwrap(), "{tokens:?}");
    }
}

/// A tokenizer of three tokens, and bytes 0xC3 and 0xA9, with the given parts.
fn tiny(post_processor: Value, decoder: Value) -> Text {
    let vocabulary = json!({"\u{2581}a": 0, "\u{2581}b": 1, "c": 2, "<0xC3>": 3, "<0xA9>": 4});
    let model = json!({"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": true});
    let directory = tempfile::TempDir::new().unwrap();
    let tokenizer = json!({
        "version": "1.0", "added_tokens": [], "model": model, "post_processor": post_processor, "decoder": decoder
    });
    std::fs::write(directory.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    Text::load(directory.path()).unwrap()
}

#[test]
fn text_decoder_that_drops_the_first_space_keeps_the_others() {
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    ]});
    let text = tiny(Value::Null, decoder);
    let tokens = [0, 1, 3, 4, 1, 2, 0];
    assert_eq!(pieces(&text, &tokens), ["a", " b", "é", " b", "c", " a", ""]);
    assert_eq!(text.decode(&tokens).unwrap(), "a bé bc a");
}

#[test]
fn text_prompt_gets_the_tokens_that_the_tokenizer_puts_around_it() {
    let begin = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "c", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"c": {"id": "c", "ids": [2], "tokens": ["c"]}}
    });
    assert_eq!(tiny(begin, Value::Null).encode("é").unwrap(), [2, 3, 4]);
}
