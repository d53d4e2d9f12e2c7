//! Everything that does not fit is refused with an error that names it: directories, configurations, groups, rows.

use std::fs;
use std::path::Path;

use crate::common::{model_directory, on_every_rank};
use lockstep_runtime::engine::{
    AllReduce, Alone, CollectiveError, Config, ConfigError, ForwardError, Llama, ModelError, Row, Step, Text,
    WeightsError,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The model's config.json with `changes` merged in; a null removes a field.
fn changed_config(changes: Value) -> TempDir {
    let directory = TempDir::new().unwrap();
    let text = fs::read(model_directory().join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    for (field, value) in changes.as_object().unwrap() {
        let fields = config.as_object_mut().unwrap();
        match value {
            Value::Null => drop(fields.remove(field)),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                drop(fields.insert(field.clone(), value.clone()));
            }
        }
    }
    fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    directory
}

fn config_error(changes: Value) -> String {
    Config::load(changed_config(changes).path()).unwrap_err().to_string()
}

fn config(changes: Value) -> Config {
    Config::load(changed_config(changes).path()).unwrap()
}

#[test]
fn config_missing_directory_and_file_are_named() {
    let missing = Config::load(Path::new("no/such/place")).unwrap_err();
    assert!(
        matches!(&missing, ConfigError::NoDirectory { .. }) && missing.to_string().contains("no/such/place")
    );
    let empty = TempDir::new().unwrap();
    let error = Config::load(empty.path()).unwrap_err();
    assert!(matches!(&error, ConfigError::Unreadable { .. }) && error.to_string().contains("config.json"));
    fs::write(empty.path().join("config.json"), "{\"hidden_size\": \"big\"}").unwrap();
    assert!(matches!(Config::load(empty.path()), Err(ConfigError::Malformed { .. })));
}

#[test]
fn config_unsupported_features_are_named() {
    let cases = [
        (json!({"model_type": "mamba"}), "model_type = mamba"),
        (json!({"model_type": null}), "model_type = null"),
        (json!({"hidden_act": "gelu"}), "hidden_act = gelu"),
        (json!({"attention_bias": true}), "attention_bias = true"),
        (json!({"mlp_bias": true}), "mlp_bias = true"),
        (json!({"quantization_config": {"bits": 4}}), "quantization_config = {\"bits\":4}"),
        (json!({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}), "rope_type = yarn"),
        (json!({"rope_scaling": {"type": "linear", "factor": 2.0}}), "rope_type = linear"),
    ];
    for (changes, expected) in cases {
        let error = config_error(changes);
        assert!(error.contains(expected) && error.contains("not supported"), "{error}");
    }
}

#[test]
fn config_contradictions_are_named() {
    let cases = [
        (json!({"num_key_value_heads": 3}), "not a multiple of num_key_value_heads = 3"),
        (json!({"num_key_value_heads": 0}), "num_key_value_heads = 0"),
        (json!({"hidden_size": 0}), "hidden_size = 0"),
        (json!({"vocab_size": 1u64 << 40}), "vocab_size = 1099511627776"),
        (json!({"head_dim": 5}), "head_dim = 5"),
        (json!({"head_dim": null, "hidden_size": 100}), "hidden_size = 100"),
        (json!({"rope_theta": -1.0}), "rope_theta must be"),
        (json!({"rope_scaling": {"rope_type": "llama3"}}), "rope_scaling.factor must be"),
    ];
    for (changes, expected) in cases {
        let error = config_error(changes);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn config_end_tokens_from_either_file_in_any_form() {
    assert_eq!(config(json!({})).end_tokens, [1]);
    assert_eq!(config(json!({"eos_token_id": [9, 3, 9]})).end_tokens, [3, 9]);
    assert_eq!(config(json!({"eos_token_id": null})).end_tokens, [0u32; 0]);
    let directory = changed_config(json!({}));
    let generation = directory.path().join("generation_config.json");
    for (text, expected) in [("{\"eos_token_id\": [7, 8]}", &[7, 8][..]), ("{}", &[1])] {
        fs::write(&generation, text).unwrap();
        assert_eq!(Config::load(directory.path()).unwrap().end_tokens, expected);
    }
}

#[test]
fn config_defaults_and_newer_rope_fields() {
    let plain = config(json!({"head_dim": null, "num_key_value_heads": null, "tie_word_embeddings": null}));
    assert_eq!((plain.head_dim, plain.kv_heads, plain.tied_embeddings), (16, 8, false));
    let llama3 = json!({
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192
    });
    let newer = config(json!({"rope_parameters": llama3, "rope_theta": null}));
    assert_eq!(newer.rope_theta, 5e5);
    assert_eq!(newer.rope_scaling.map(|scaling| scaling.original_context), Some(8192.0));
    assert_eq!(config(json!({"rope_scaling": {"rope_type": "default"}})).rope_scaling, None);
}

#[test]
fn group_with_more_ranks_than_pieces_is_refused() {
    for (rank, size, expected) in [
        (0, 5, "num_key_value_heads = 4; use 4 ranks at most"),
        (2, 2, "rank 2 is not in a group of 2"),
        (0, 0, "rank 0 is not in a group of 0"),
    ] {
        let error = Llama::load(&model_directory(), rank, size).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let narrow = config(json!({"intermediate_size": 3}));
    assert!(narrow.shard(0, 4).unwrap_err().to_string().contains("blocks of intermediate_size = 3"));
    let small = config(json!({"intermediate_size": 32}));
    assert_eq!(small.shard(0, 4).unwrap().feed_forward, 8);
}

#[test]
fn group_other_than_the_weights_is_refused() {
    let mut half = Llama::load(&model_directory(), 1, 2).unwrap();
    let mut cache = half.cache(4, 4).unwrap();
    let row = Row { tokens: &[1], start: 0, pages: &[0] };
    let error = half.forward(&mut cache, &[row], &mut Alone).unwrap_err();
    assert!(matches!(error, ForwardError::Group { expected: [1, 2], found: [0, 1] }));
    let mut whole = Llama::load(&model_directory(), 0, 1).unwrap();
    let error = whole.forward(&mut cache, &[row], &mut Alone).unwrap_err();
    assert!(matches!(error, ForwardError::CacheShape { expected: [4, 4, 16], found: [4, 2, 16] }));
}

#[test]
fn weights_missing_or_misshapen_are_named() {
    let load = |directory: &TempDir| match Llama::load(directory.path(), 0, 1).unwrap_err() {
        ModelError::Weights(error) => error,
        ModelError::Backend(error) => panic!("{error}"),
        ModelError::Config(error) => panic!("{error}"),
    };
    let narrow = changed_config(json!({"intermediate_size": 256}));
    assert!(matches!(load(&narrow), WeightsError::NoWeights { .. }));
    let weights = narrow.path().join("model.safetensors");
    fs::copy(model_directory().join("model.safetensors"), &weights).unwrap();
    let error = load(&narrow).to_string();
    assert!(error.contains("mlp.") && error.contains("384") && error.contains("256"), "{error}");
    let deep = changed_config(json!({"num_hidden_layers": 5}));
    fs::copy(&weights, deep.path().join("model.safetensors")).unwrap();
    assert!(matches!(load(&deep), WeightsError::MissingTensor { name } if name.contains("layers.4")));
    let bytes = fs::read(&weights).unwrap();
    for damaged in [&bytes[..1000], &bytes[..bytes.len() - 1], &[0xFF; 64], b"{}", b""] {
        fs::write(&weights, damaged).unwrap();
        let error = load(&narrow);
        assert!(
            matches!(&error, WeightsError::Malformed { .. } | WeightsError::Unreadable { .. }),
            "{error}"
        );
    }
}

#[test]
fn rows_that_do_not_fit_are_refused_on_every_rank_before_a_collective() {
    let long: Vec<u32> = (0..1000).collect();
    let good = Row { tokens: &[1, 2], start: 0, pages: &[0] };
    let bad = [
        (Row { tokens: &[], ..good }, "has no token"),
        (Row { tokens: &[3, 1024], ..good }, "token 1024"),
        (Row { tokens: &[1, 2, 3, 4, 5], ..good }, "5 positions need 2"),
        (Row { tokens: &[1], start: 4, pages: &[0] }, "5 positions need 2"),
        (Row { pages: &[8], ..good }, "page 8"),
        (Row { tokens: &long, start: 25, pages: &long }, "context is 1024"),
        (Row { start: usize::MAX, ..good }, "context is 1024"),
    ];
    let outcomes = on_every_rank(2, |llama, mesh| {
        let mut cache = llama.cache(4, 8).unwrap();
        let mut refuse = |row| llama.forward(&mut cache, &[good, row], mesh).unwrap_err().to_string();
        let errors: Vec<_> = bad.iter().map(|(row, _)| refuse(*row)).collect();
        (errors, mesh.lengths.len())
    });
    for (errors, collectives) in outcomes {
        assert_eq!(collectives, 0);
        for (error, (_, expected)) in errors.iter().zip(&bad) {
            assert!(error.starts_with("row 1") && error.contains(expected), "{error}");
        }
    }
}

#[test]
fn rows_that_go_on_from_what_was_not_chosen_are_refused_on_every_rank_before_a_collective() {
    let refusals = on_every_rank(2, |llama, mesh| {
        let mut cache = llama.cache(4, 4).unwrap();
        let mut refused = |(tokens, follows): (&[u32], usize), rows_before: &[Row<'_>]| {
            llama.forward(&mut cache, rows_before, mesh).unwrap();
            let entered = mesh.lengths.len();
            let rows = [Row { tokens, start: 0, pages: &[0] }];
            let step = Step { rows: &rows, draws: &[], follows: &[Some(follows)] };
            let error = llama.launch(&mut cache, step, mesh).unwrap_err().to_string();
            assert_eq!(mesh.lengths.len(), entered, "a batch that is refused enters no collective");
            error
        };
        let one = Row { tokens: &[7], start: 0, pages: &[0] };
        [refused((&[7], 0), &[]), refused((&[7], 1), &[one]), refused((&[7, 8], 0), &[one])]
    });
    for [first, beyond, longer] in refusals {
        assert!(first.contains("row 0 of 1 tokens goes on from row 0 of the forward before, which had 0"));
        assert!(beyond.contains("goes on from row 1 of the forward before, which had 1"), "{beyond}");
        assert!(longer.contains("row 0 of 2 tokens goes on"), "{longer}");
    }
}

#[test]
fn rows_that_write_the_same_slot_are_refused() {
    let mut llama = Llama::load(&model_directory(), 0, 1).unwrap();
    let mut cache = llama.cache(4, 4).unwrap();
    let row = |start, pages| Row { tokens: &[7, 8], start, pages };
    for rows in [&[row(0, &[2]), row(1, &[2])][..], &[row(3, &[1, 1]), row(6, &[0, 1])]] {
        let error = llama.forward(&mut cache, rows, &mut Alone).unwrap_err();
        assert!(matches!(error, ForwardError::SlotTwice { .. }), "{error}");
    }
}

#[test]
fn group_transport_error_comes_through() {
    struct Broken;
    impl AllReduce for Broken {
        fn rank(&self) -> usize {
            0
        }
        fn size(&self) -> usize {
            1
        }
        fn all_reduce_sum(&mut self, _data: &mut [f32]) -> Result<(), CollectiveError> {
            Err(CollectiveError::new(std::io::Error::other("rank 1 is gone")))
        }
        fn all_reduce_min(&mut self, _bids: &mut [u64]) -> Result<(), CollectiveError> {
            Ok(())
        }
    }
    let mut llama = Llama::load(&model_directory(), 0, 1).unwrap();
    let row = Row { tokens: &[1], start: 0, pages: &[0] };
    let mut cache = llama.cache(4, 1).unwrap();
    let error = llama.forward(&mut cache, &[row], &mut Broken).unwrap_err();
    assert!(error.to_string().contains("rank 1 is gone"), "{error}");
    let ForwardError::Collective(error) = error else { panic!("{error}") };
    assert!(error.cause().downcast_ref::<std::io::Error>().is_some());
}

#[test]
fn text_missing_tokenizer_is_named() {
    let error = Text::load(TempDir::new().unwrap().path()).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
}
