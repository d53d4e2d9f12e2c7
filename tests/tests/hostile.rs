//! A model's files as somebody might spoil them: read, or refused with an error, without a panic and in bounded memory.

#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Once;

use lockstep_runtime::engine::{Config, Llama, Text};
use lockstep_tests::places::model_directory;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

const FILES: [&str; 3] = ["config.json", "model.safetensors", "tokenizer.json"];

/// More than loading the bundled model takes, threads included: an allocation beyond it ends the test.
const MEMORY: u64 = 3 << 30;

/// The bundled model, with another file in the place of one of its own.
fn spoilt(name: &str, bytes: &[u8]) -> TempDir {
    static LIMITED: Once = Once::new();
    LIMITED.call_once(|| {
        setrlimit(Resource::As, Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) }).unwrap();
    });
    let directory = TempDir::new().unwrap();
    for file in FILES.iter().filter(|file| **file != name) {
        symlink(model_directory().join(file), directory.path().join(file)).unwrap();
    }
    fs::write(directory.path().join(name), bytes).unwrap();
    directory
}

fn original(name: &str) -> Vec<u8> {
    fs::read(model_directory().join(name)).unwrap()
}

/// What a field of a file may hold instead.
fn values() -> impl Strategy<Value = Value> {
    let numbers = [0, 1, 3, 7, 1 << 20, u64::from(u32::MAX), u64::MAX / 2, u64::MAX];
    prop_oneof![
        proptest::sample::select(numbers.to_vec()).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(null)),
        Just(json!("big")),
        Just(json!([1, 2])),
        Just(json!({"factor": -1})),
    ]
}

/// Bytes that are changed, and where the rest is cut off, if at all.
fn damage() -> impl Strategy<Value = (Vec<(Index, u8)>, Option<Index>)> {
    (vec((any::<Index>(), any::<u8>()), 0..4), proptest::option::of(any::<Index>()))
}

fn apply((changes, cut): (Vec<(Index, u8)>, Option<Index>), within: usize, bytes: &mut Vec<u8>) {
    for (place, byte) in changes {
        bytes[place.index(within)] = byte;
    }
    bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(within)));
}

/// The length of a safetensors file's header, with the eight bytes that tell it.
fn header(weights: &[u8]) -> usize {
    8 + usize::try_from(u64::from_le_bytes(*weights.first_chunk().unwrap())).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn hostile_configurations_are_read_or_refused(changes in vec((any::<Index>(), values()), 1..3), ranks in 1..5_usize) {
        let mut config: Value = serde_json::from_slice(&original(FILES[0])).unwrap();
        let fields = config.as_object_mut().unwrap();
        let names: Vec<String> = fields.keys().cloned().collect();
        fields.extend(changes.into_iter().map(|(place, value)| (place.get(&names).clone(), value)));
        let directory = spoilt(FILES[0], config.to_string().as_bytes());
        if let Ok(config) = Config::load(directory.path()) {
            let _told = config.shard(ranks - 1, ranks);
        }
        if let Err(error) = Llama::load(directory.path(), ranks - 1, ranks) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn hostile_configurations_of_other_bytes_are_read_or_refused(damage in damage()) {
        let mut bytes = original(FILES[0]);
        apply(damage, bytes.len(), &mut bytes);
        let _told = Llama::load(spoilt(FILES[0], &bytes).path(), 0, 1);
    }

    #[test]
    fn hostile_headers_of_weights_are_read_or_refused(damage in damage(), length in proptest::option::of(any::<u64>())) {
        let mut bytes = original(FILES[1]);
        let within = header(&bytes);
        apply(damage, within, &mut bytes);
        if let (Some(length), Some(place)) = (length, bytes.first_chunk_mut()) {
            *place = length.to_le_bytes();
        }
        let _told = Llama::load(spoilt(FILES[1], &bytes).path(), 0, 1);
    }

    #[test]
    fn hostile_tokenizers_are_read_or_refused(damage in damage()) {
        let mut bytes = original(FILES[2]);
        apply(damage, bytes.len(), &mut bytes);
        if let Ok(text) = Text::load(spoilt(FILES[2], &bytes).path()) {
            let _told = text.encode("In the beginning, é").and_then(|tokens| text.decode(&tokens));
        }
    }
}

/// The library panics at it.
#[test]
fn hostile_decoder_of_a_tokenizer_is_refused() {
    let text = String::from_utf8(original(FILES[2])).unwrap();
    let (before, after) = text.split_once("\"decoder\": {").unwrap();
    let broken = format!("{before}\"decoder\": {{ \"type\" {after}");
    assert!(Text::load(spoilt(FILES[2], broken.as_bytes()).path()).is_err());
}

#[test]
fn hostile_files_would_be_noticed_if_they_were_taken_whole() {
    let directory = spoilt(FILES[0], &original(FILES[0]));
    assert!(Llama::load(directory.path(), 0, 2).is_ok() && Text::load(directory.path()).is_ok());
}
