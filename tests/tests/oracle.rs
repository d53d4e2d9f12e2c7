//! The engine against candle's own Llama on the same directory: an implementation that shares no code with it.

#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

#[path = "engine/common.rs"]
#[expect(dead_code, reason = "the oracle needs a part of what the engine's tests share")]
mod common;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Config, Llama as Candle, LlamaConfig};
use common::{Request, goldens, model_directory, step};
use lockstep_runtime::engine::{Alone, Choice, Llama, Text};

/// Largest difference of margins that two orders of summation may make.
const MARGIN_TOLERANCE: f32 = 0.002;

const STEPS: usize = 64;

/// Prompts beside the golden ones.
const PROMPTS: [&str; 4] = ["Thou shalt not", "The", "And God saw that it was good", "Jesus wept.\n"];

struct Oracle {
    model: Candle,
    config: Config,
}

impl Oracle {
    fn load() -> Self {
        let text = std::fs::read(model_directory().join("config.json")).unwrap();
        let config: LlamaConfig = serde_json::from_slice(&text).unwrap();
        let config = config.into_config(false);
        let weights = std::fs::read(model_directory().join("model.safetensors")).unwrap();
        let builder = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu).unwrap();
        Self { model: Candle::load(builder, &config).unwrap(), config }
    }

    fn decode(&self, prompt: &[u32]) -> Vec<Choice> {
        let mut cache = Cache::new(true, DType::F32, &self.config, &Device::Cpu).unwrap();
        let mut tokens = prompt.to_vec();
        let mut done = 0;
        let next = |_| {
            let input = Tensor::new(&tokens[done..], &Device::Cpu).unwrap().unsqueeze(0).unwrap();
            let logits = self.model.forward(&input, done, &mut cache).unwrap();
            let choice = Choice::of(&logits.flatten_all().unwrap().to_vec1().unwrap()).unwrap();
            done = tokens.len();
            tokens.push(choice.token);
            choice
        };
        (0..STEPS).map(next).collect()
    }
}

fn engine_decode(llama: &mut Llama, prompt: &[u32]) -> Vec<Choice> {
    let mut cache = llama.cache(16, 8).unwrap();
    let mut requests = [Request::new(prompt, vec![6, 1, 5, 2, 4, 3, 0, 7])];
    (0..STEPS).flat_map(|_| step(llama, &mut cache, &mut requests, &mut Alone)).collect()
}

fn tokens(choices: &[Choice]) -> Vec<u32> {
    choices.iter().map(|choice| choice.token).collect()
}

#[test]
fn oracle_candle_chooses_the_same_tokens_with_the_same_margins() {
    let (oracle, mut llama) = (Oracle::load(), Llama::load(&model_directory(), 0, 1).unwrap());
    let text = Text::load(&model_directory()).unwrap();
    let golden = goldens().into_iter().map(|golden| golden.prompt);
    for prompt in golden.chain(PROMPTS.map(str::to_owned)) {
        let prompt_tokens = text.encode(&prompt).unwrap();
        let (theirs, ours) = (oracle.decode(&prompt_tokens), engine_decode(&mut llama, &prompt_tokens));
        assert_eq!(tokens(&ours), tokens(&theirs), "prompt {prompt:?}");
        let off = ours.iter().zip(&theirs).map(|(a, b)| (a.margin - b.margin).abs()).fold(0.0, f32::max);
        let smallest = theirs.iter().map(|choice| choice.margin).fold(f32::INFINITY, f32::min);
        assert!(off < MARGIN_TOLERANCE, "margins of {prompt:?} are off by {off}");
        println!("{prompt:?}: smallest margin {smallest:.4}, margins off by at most {off:.1e}");
    }
}
