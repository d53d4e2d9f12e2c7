//! Time per token of the CPU engine beside candle's Llama, on the same weights in the same run. Not a test: nothing is asserted.
//!
//! ```text
//! RAYON_NUM_THREADS=1 cargo bench -p lockstep-tests --bench decode
//! ```
//! Both get as many threads as `RAYON_NUM_THREADS` says. The two take turns, and the best of several rounds counts, since a
//! machine that does other things only ever makes a round slower.

#![allow(clippy::unwrap_used, reason = "a benchmark that does not run ends here")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Config, Llama as Candle, LlamaConfig};
use lockstep_runtime::engine::{Alone, CpuBackend, KvCache, Llama, Row};
use lockstep_tests::places::model_directory;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::json;

const ROUNDS: usize = 7;
const PROMPT: usize = 32;
const TOKENS: usize = 32;
const PAGES: [u32; 4] = [2, 0, 3, 1];

/// A prompt and then single tokens; the time of the first and of one of the others.
type Times = [Duration; 2];

fn main() {
    report("kjv-1m (0.9 M parameters)", &model_directory());
    let large = tempfile::TempDir::new().unwrap();
    write_model(large.path());
    report("random (44 M parameters)", large.path());
}

fn report(name: &str, directory: &Path) {
    let (mut ours, theirs) = (Ours::load(directory), Theirs::load(directory));
    let mut best = [[Duration::MAX; 2]; 2];
    for _ in 0..ROUNDS {
        for (best, times) in best.iter_mut().zip([ours.run(), theirs.run()]) {
            best.iter_mut().zip(times).for_each(|(best, time)| *best = time.min(*best));
        }
    }
    let [ours, theirs] = best;
    for (what, ours, theirs) in [("prompt of 32", ours[0], theirs[0]), ("token", ours[1], theirs[1])] {
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!("{name}, {what}: lockstep {ours:.1?}, candle {theirs:.1?}, ratio {ratio:.2}");
    }
}

fn time(tokens: &[u32], mut forward: impl FnMut(&[u32], usize) -> u32) -> Times {
    let started = Instant::now();
    let mut token = forward(tokens, 0);
    let prompt = started.elapsed();
    let started = Instant::now();
    for position in tokens.len()..tokens.len() + TOKENS {
        token = forward(&[token], position);
    }
    [prompt, started.elapsed() / u32::try_from(TOKENS).unwrap()]
}

/// The threads that candle takes.
fn rayon_threads() -> usize {
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn prompt() -> Vec<u32> {
    (100..).take(PROMPT).collect()
}

struct Ours {
    model: Llama,
    cache: KvCache,
}

impl Ours {
    fn load(directory: &Path) -> Self {
        let backend = CpuBackend::new(rayon_threads()).unwrap();
        let mut model = Llama::load_on(backend, directory, 0, 1).unwrap();
        let cache = model.cache(16, PAGES.len()).unwrap();
        Self { model, cache }
    }

    fn run(&mut self) -> Times {
        let Self { model, cache } = self;
        time(&prompt(), |tokens, start| {
            model.forward(cache, &[Row { tokens, start, pages: &PAGES }], &mut Alone).unwrap()[0]
        })
    }
}

struct Theirs {
    model: Candle,
    config: Config,
}

impl Theirs {
    fn load(directory: &Path) -> Self {
        let text = fs::read(directory.join("config.json")).unwrap();
        let config = serde_json::from_slice::<LlamaConfig>(&text).unwrap().into_config(false);
        let weights = fs::read(directory.join("model.safetensors")).unwrap();
        let builder = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu).unwrap();
        Self { model: Candle::load(builder, &config).unwrap(), config }
    }

    fn run(&self) -> Times {
        let mut cache = Cache::new(true, DType::F32, &self.config, &Device::Cpu).unwrap();
        time(&prompt(), |tokens, start| {
            let input = Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
            let logits = self.model.forward(&input, start, &mut cache).unwrap();
            logits.argmax(1).unwrap().to_vec1::<u32>().unwrap()[0]
        })
    }
}

const HIDDEN: usize = 768;
const FEED_FORWARD: usize = 2048;
/// Elements of a position's keys.
const KV: usize = 256;
const LAYERS: usize = 6;
const VOCABULARY: usize = 8192;

/// A model of random weights, large enough that its weights do not fit a cache.
fn write_model(directory: &Path) {
    let config = json!({
        "model_type": "llama", "hidden_act": "silu", "hidden_size": HIDDEN, "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS, "num_attention_heads": 12, "num_key_value_heads": 4,
        "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "tie_word_embeddings": true,
        "max_position_embeddings": 1024,
    });
    fs::write(directory.join("config.json"), config.to_string()).unwrap();
    let mut tensors = BTreeMap::from([
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
    ]);
    for layer in 0..LAYERS {
        let of_layer = [
            ("input_layernorm", vec![HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
            ("self_attn.q_proj", vec![HIDDEN, HIDDEN]),
            ("self_attn.k_proj", vec![KV, HIDDEN]),
            ("self_attn.v_proj", vec![KV, HIDDEN]),
            ("self_attn.o_proj", vec![HIDDEN, HIDDEN]),
            ("mlp.gate_proj", vec![FEED_FORWARD, HIDDEN]),
            ("mlp.up_proj", vec![FEED_FORWARD, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, FEED_FORWARD]),
        ];
        tensors.extend(of_layer.map(|(name, shape)| (format!("model.layers.{layer}.{name}.weight"), shape)));
    }
    let mut state = 1u32;
    let mut element = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f32::from(u16::try_from(state >> 16).unwrap()) / 65_536.0 - 0.5) * 0.1
    };
    let bytes: BTreeMap<_, Vec<u8>> = tensors
        .iter()
        .map(|(name, shape)| {
            (name, (0..shape.iter().product()).flat_map(|_| element().to_le_bytes()).collect())
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape)| (name, TensorView::new(Dtype::F32, shape.clone(), &bytes[name]).unwrap()));
    fs::write(directory.join("model.safetensors"), serialize(views, None).unwrap()).unwrap();
}
