//! The CUDA kernels, composed into the engine's forward pass and run on the CPU from their own sources.
//!
//! This is the check of their shapes and conventions together: rotary pairs, grouped heads, pages, the ranks' shards.

mod model;
mod weights;

use std::path::Path;

use lockstep_kernels::Element;
use lockstep_kernels::cpu::{Compiler, Cpu, Sanitizers, Source};
use lockstep_runtime::engine::{Alone, Llama, Row};

use crate::common::{Request, goldens, model_directory, scattered_pages};
use model::Model;

const PAGE_SIZE: u32 = 4;
const PAGES: u32 = 8;
/// What other orders of sums may change in a logit; logits of this model reach about 20.
const TOLERANCE: f32 = 2e-4;
/// What keys and values in bfloat16 may change.
const ROUNDED_TOLERANCE: f32 = 0.2;

fn cpu() -> Cpu {
    let compiler = Compiler::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Sanitizers::Off);
    compiler.compile(&Source::all().unwrap()).unwrap().start().unwrap()
}

fn model(cache: Element, size: usize) -> Model<Cpu> {
    Model::load(cpu(), &model_directory(), cache, [PAGE_SIZE, PAGES], size)
}

/// Requests of the first two reference prompts, their pages interleaved.
fn requests() -> Vec<Request> {
    let pages = scattered_pages(2, PAGES / 2);
    goldens().iter().zip(pages).map(|(golden, pages)| Request::new(&golden.prompt_ids, pages)).collect()
}

fn rows(requests: &[Request]) -> Vec<Row<'_>> {
    requests.iter().map(Request::row).collect()
}

/// Gives every request its next token.
fn advance(requests: &mut [Request], tokens: &[u32]) {
    for (request, token) in requests.iter_mut().zip(tokens) {
        request.done = request.tokens.len();
        request.tokens.push(*token);
    }
}

/// Runs prompts and then single tokens through both engines, fed with the reference's tokens; the largest difference.
fn largest_difference(mut model: Model<Cpu>, steps: usize) -> f32 {
    let llama = Llama::load(&model_directory(), 0, 1).unwrap();
    let mut cache = llama.cache(PAGE_SIZE as usize, PAGES as usize).unwrap();
    let mut requests = requests();
    let mut largest = 0.0f32;
    for step in 0..steps {
        let expected = llama.logits(&mut cache, &rows(&requests), &mut Alone).unwrap();
        let found = model.forward(&rows(&requests)).logits;
        assert_eq!(found.len(), expected.len());
        largest = found
            .iter()
            .zip(expected)
            .map(|(found, expected)| (found - expected).abs())
            .fold(largest, f32::max);
        let tokens: Vec<u32> = goldens().iter().map(|golden| golden.greedy_ids[step]).collect();
        advance(&mut requests, &tokens);
    }
    largest
}

#[test]
fn kernels_give_the_engines_logits() {
    let largest = largest_difference(model(Element::F32, 1), 2);
    assert!(largest < TOLERANCE, "a logit differs by {largest}");
}

#[test]
fn kernels_give_the_engines_logits_in_a_group_of_two() {
    let largest = largest_difference(model(Element::F32, 2), 1);
    assert!(largest < TOLERANCE, "a logit differs by {largest}");
}

#[test]
fn kernels_with_a_cache_of_bfloat16_stay_close_to_the_engines_logits() {
    let largest = largest_difference(model(Element::Bf16, 1), 1);
    assert!(largest > TOLERANCE, "a rounded cache cannot be this close: {largest}");
    assert!(largest < ROUNDED_TOLERANCE, "a logit differs by {largest}");
}

#[test]
fn kernels_choose_the_reference_tokens() {
    let mut model = model(Element::F32, 4);
    let mut requests = requests();
    for step in 0..3 {
        let tokens = model.forward(&rows(&requests)).tokens;
        let expected: Vec<u32> = goldens().iter().take(2).map(|golden| golden.greedy_ids[step]).collect();
        assert_eq!(tokens, expected, "step {step}");
        advance(&mut requests, &tokens);
    }
}

#[test]
fn kernels_refuse_a_position_that_was_never_written() {
    let mut model = model(Element::F32, 1);
    let row = Row { tokens: &[5, 6], start: 2, pages: &[0] };
    assert_eq!(model.forward(&[row]).tokens, [u32::MAX]);
}
