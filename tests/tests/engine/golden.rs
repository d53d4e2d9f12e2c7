//! The reference's tokens at every group size, all prompts in one batch.

use crate::common::{
    Mesh, Request, check_draws, check_follows, goldens, on_every_rank, scattered_pages, step,
};
use lockstep_runtime::engine::Llama;

/// Difference that other arithmetic may make to a margin: far below the smallest reference margin, 0.0098.
const MARGIN_TOLERANCE: f32 = 0.002;

const STEPS: usize = 64;

/// Decodes all prompts together; gives each one's tokens and smallest margin.
fn decode(llama: &mut Llama, mesh: &mut Mesh) -> Vec<(Vec<u32>, f32)> {
    let goldens = goldens();
    let pages = scattered_pages(u32::try_from(goldens.len()).unwrap(), 12);
    let mut cache = llama.cache(8, 5 * 12).unwrap();
    let mut requests: Vec<_> =
        goldens.iter().zip(pages).map(|(golden, pages)| Request::new(&golden.prompt_ids, pages)).collect();
    let mut margins = vec![f32::INFINITY; goldens.len()];
    for _ in 0..STEPS {
        let choices = step(llama, &mut cache, &mut requests, mesh);
        margins.iter_mut().zip(choices).for_each(|(margin, choice)| *margin = margin.min(choice.margin));
    }
    let tokens = requests
        .iter()
        .zip(&goldens)
        .map(|(request, golden)| request.tokens[golden.prompt_ids.len()..].to_vec());
    tokens.zip(margins).collect()
}

fn check_group(size: usize) {
    for (rank, answers) in on_every_rank(size, decode).into_iter().enumerate() {
        for (golden, (tokens, margin)) in goldens().iter().zip(answers) {
            assert_eq!(tokens, golden.greedy_ids, "rank {rank} of {size}, prompt {:?}", golden.prompt);
            let off = (margin - golden.min_top2_margin).abs();
            assert!(off < MARGIN_TOLERANCE, "margin {margin} for {:?}", golden.prompt);
        }
    }
}

#[test]
fn golden_tokens_alone() {
    check_group(1);
}

#[test]
fn golden_tokens_in_a_group_of_two() {
    check_group(2);
}

/// Four key and value heads and 24 blocks of the feed-forward layer: the parts are uneven.
#[test]
fn golden_tokens_in_a_group_of_three() {
    check_group(3);
}

#[test]
fn golden_tokens_in_a_group_of_four() {
    check_group(4);
}

#[test]
fn golden_ranks_draw_what_is_drawn_from_all_logits() {
    for size in [1, 2, 3] {
        on_every_rank(size, check_draws);
    }
}

#[test]
fn golden_rows_go_on_from_what_the_forward_before_chose() {
    for size in [1, 3] {
        on_every_rank(size, check_follows);
    }
}

#[test]
fn golden_two_sums_a_layer_and_one_minimum_over_all_rows_together() {
    let counts = on_every_rank(2, |llama, mesh| {
        let mut cache = llama.cache(4, 8).unwrap();
        let requests = [Request::new(&[5, 6, 7], vec![0]), Request::new(&[9], vec![1])];
        let rows: Vec<_> = requests.iter().map(Request::row).collect();
        llama.forward(&mut cache, &rows, mesh).unwrap();
        llama.forward(&mut cache, &[], mesh).unwrap();
        ([mesh.lengths.clone(), mesh.bids.clone()], llama.config().layers, llama.config().hidden)
    });
    for ([lengths, bids], layers, hidden) in counts {
        assert_eq!(lengths, vec![4 * hidden; 2 * layers]);
        assert_eq!(bids, [2]);
    }
}
