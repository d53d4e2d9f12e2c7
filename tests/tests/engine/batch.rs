//! Batch invariance, bit by bit: a row's logits do not depend on its company, its chunking, or prefill against decode.

use crate::common::{Mesh, goldens, model_directory, on_every_rank, scattered_pages};
use lockstep_runtime::engine::{AllReduce, Alone, KvCache, Llama, Row};

const PAGE_SIZE: usize = 4;
const PAGES_PER_ROW: u32 = 24;
const ROWS: u32 = 5;

/// The golden prompts with their answers: rows of up to 71 tokens.
fn sequences() -> Vec<Vec<u32>> {
    goldens().into_iter().map(|golden| [golden.prompt_ids, golden.greedy_ids].concat()).collect()
}

fn cache(llama: &mut Llama) -> KvCache {
    llama.cache(PAGE_SIZE, (ROWS * PAGES_PER_ROW) as usize).unwrap()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// Logits after the last of `tokens`, which are given in chunks that end at `cuts`, nothing else in the batch.
fn chunked(llama: &mut Llama, tokens: &[u32], cuts: &[usize], group: &mut dyn AllReduce) -> Vec<u32> {
    let pages: Vec<u32> = (0..PAGES_PER_ROW).collect();
    let mut cache = cache(llama);
    let mut start = 0;
    let mut logits = Vec::new();
    for &end in cuts.iter().chain([&tokens.len()]) {
        let row = Row { tokens: &tokens[start..end], start, pages: &pages };
        logits = llama.logits(&mut cache, &[row], group).unwrap();
        start = end;
    }
    bits(&logits)
}

/// Logits of every position, by decode of one token at a time.
fn token_by_token(llama: &mut Llama, tokens: &[u32], group: &mut dyn AllReduce) -> Vec<Vec<u32>> {
    let pages: Vec<u32> = (0..PAGES_PER_ROW).collect();
    let mut cache = cache(llama);
    let rows = (0..tokens.len()).map(|start| Row { tokens: &tokens[start..=start], start, pages: &pages });
    rows.map(|row| bits(&llama.logits(&mut cache, &[row], group).unwrap())).collect()
}

fn check_chunkings(llama: &mut Llama, group: &mut dyn AllReduce) {
    let tokens = &sequences()[1];
    let whole = chunked(llama, tokens, &[], group);
    for cuts in [&[1][..], &[7], &[3, 4, 30], &[16, 32, 48, 64], &[69]] {
        assert!(chunked(llama, tokens, cuts, group) == whole, "chunks that end at {cuts:?} differ");
    }
}

fn check_prefill_against_decode(llama: &mut Llama, group: &mut dyn AllReduce) {
    let tokens = &sequences()[0];
    let decoded = token_by_token(llama, tokens, group);
    for length in [1, 2, 15, 16, 17, 40, tokens.len()] {
        let prefilled = chunked(llama, &tokens[..length], &[], group);
        assert!(prefilled == decoded[length - 1], "prefill of {length} tokens differs from decode");
    }
}

/// Every row decodes its own sequence while the batch grows, mixes prefill with decode, and changes its order.
fn check_company(llama: &mut Llama, group: &mut dyn AllReduce) {
    let sequences = sequences();
    let alone: Vec<_> = sequences.iter().map(|tokens| token_by_token(llama, tokens, group)).collect();
    let pages = scattered_pages(ROWS, PAGES_PER_ROW);
    let mut cache = cache(llama);
    let mut done = vec![0; sequences.len()];
    for round in 0..24 {
        let mut members: Vec<usize> = (0..sequences.len()).filter(|row| row * 3 <= round).collect();
        let turn = round % members.len();
        members.rotate_left(turn);
        let chunk = |row: usize| 1 + (round + row) % 3;
        let rows: Vec<_> = members
            .iter()
            .map(|&row| Row {
                tokens: &sequences[row][done[row]..done[row] + chunk(row)],
                start: done[row],
                pages: &pages[row],
            })
            .collect();
        let logits = llama.logits(&mut cache, &rows, group).unwrap();
        for (&row, logits) in members.iter().zip(logits.chunks_exact(llama.config().vocabulary)) {
            done[row] += chunk(row);
            assert!(bits(logits) == alone[row][done[row] - 1], "row {row} differs in round {round}");
        }
    }
}

fn load() -> Llama {
    Llama::load(&model_directory(), 0, 1).unwrap()
}

#[test]
fn batch_chunking_leaves_bits_alone() {
    check_chunkings(&mut load(), &mut Alone);
}

#[test]
fn batch_prefill_equals_decode_in_bits() {
    check_prefill_against_decode(&mut load(), &mut Alone);
}

#[test]
fn batch_company_leaves_bits_alone() {
    check_company(&mut load(), &mut Alone);
}

#[test]
fn batch_invariance_holds_in_a_group_of_two() {
    on_every_rank(2, |llama: &mut Llama, mesh: &mut Mesh| {
        check_chunkings(llama, mesh);
        check_prefill_against_decode(llama, mesh);
        check_company(llama, mesh);
    });
}

#[test]
fn batch_ranks_agree_in_bits() {
    let tokens = &sequences()[2];
    let logits = on_every_rank(4, |llama, mesh| chunked(llama, tokens, &[], mesh));
    assert!(logits.iter().all(|bits| *bits == logits[0]));
}
