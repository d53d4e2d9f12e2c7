//! Votes, and the choice of tokens over a vocabulary in parts.

use lockstep_kernels::Device;
use lockstep_kernels::cpu::{Cpu, CpuBuffer};
use lockstep_kernels::operations::choice::{Argmax, ChosenTokens, FollowTokens, NOT_FINITE, Sample, VoteMin};

use crate::common::{ORDERS, cpu, download, upload};
use crate::numbers::Random;

fn size(of: usize) -> u32 {
    u32::try_from(of).expect("small")
}

fn minimum(cpu: &mut Cpu, votes: &[u64], ranks: u32) -> Vec<u64> {
    let width = size(votes.len()) / ranks;
    let mut output = upload(cpu, &vec![0_u64; width as usize]);
    let votes = upload(cpu, votes);
    cpu.run(VoteMin { output: &mut output, votes: &votes, ranks, width }).expect("a launch");
    download(cpu, &output)
}

#[test]
fn vote_min_is_the_minimum_over_ranks_in_any_thread_order() {
    let mut cpu = cpu();
    for (ranks, width) in
        [1, 2, 3, 5, 8, 9, 33].into_iter().flat_map(|ranks| [1, 31, 33, 100].map(|width| (ranks, width)))
    {
        for order in ORDERS {
            cpu.order_threads(order);
            let mut random = Random(order.into());
            let votes: Vec<u64> = (0..ranks * width).map(|_| random.word()).collect();
            let expected: Vec<u64> = (0..width)
                .map(|element| votes.iter().skip(element).step_by(width).copied().min().expect("a rank"))
                .collect();
            let found = minimum(&mut cpu, &votes, size(ranks));
            assert_eq!(found, expected, "{ranks} ranks, width {width}, order {order}");
        }
    }
}

#[test]
fn vote_min_of_neutral_votes_is_neutral() {
    assert_eq!(minimum(&mut cpu(), &[u64::MAX; 7 * 33], 7), [u64::MAX; 33]);
}

/// The tokens of rows of `width` logits over a vocabulary in `parts`, combined as the ranks' votes are.
fn chosen(
    cpu: &mut Cpu,
    parts: usize,
    (width, logits): (usize, &[f32]),
    mut bid: impl FnMut(&mut Cpu, &mut CpuBuffer, &CpuBuffer, u32, u32),
) -> Vec<u32> {
    let rows = logits.len() / width;
    let part = width / parts;
    let mut bids = Vec::new();
    for rank in 0..parts {
        let own: Vec<f32> =
            logits.chunks(width).flat_map(|row| &row[rank * part..][..part]).copied().collect();
        let logits = upload(cpu, &own);
        let mut own = upload(cpu, &vec![1_u64; rows]);
        bid(cpu, &mut own, &logits, size(part), size(rank * part));
        bids.extend(download::<u64>(cpu, &own));
    }
    let bids = minimum(cpu, &bids, size(parts));
    let (bids, mut tokens) = (upload(cpu, &bids), upload(cpu, &vec![7_u32; rows]));
    cpu.run(ChosenTokens { tokens: &mut tokens, bids: &bids, rows: size(rows) }).expect("a launch");
    download(cpu, &tokens)
}

fn greedy(cpu: &mut Cpu, parts: usize, width: usize, logits: &[f32]) -> Vec<u32> {
    let rows = size(logits.len() / width);
    chosen(cpu, parts, (width, logits), |cpu, bids, logits, width, first_token| {
        cpu.run(Argmax { bids, logits, rows, width, first_token }).expect("a launch");
    })
}

#[test]
fn follow_tokens_replaces_those_of_rows_that_go_on_from_a_choice() {
    let mut cpu = cpu();
    for rows in [1_u32, 31, 256, 257, 600] {
        let mut random = Random(rows.into());
        let choices = 1 + rows / 2;
        let chosen: Vec<u32> = (0..choices).map(|choice| 1000 + choice).collect();
        // Half of the numbers are beyond the choices, the first of those and the largest among them.
        let mut number = || size((random.word() % 1000) as usize) % (2 * choices);
        let mut follows: Vec<u32> = (0..rows).map(|_| number()).collect();
        follows[rows as usize - 1] = u32::MAX;
        follows[0] = if rows > 1 { choices } else { 0 };
        let own: Vec<u32> = (0..rows).collect();
        let expected: Vec<u32> = own
            .iter()
            .zip(&follows)
            .map(|(own, follows)| chosen.get(*follows as usize).copied().unwrap_or(*own))
            .collect();
        let (mut tokens, chosen, follows) =
            (upload(&mut cpu, &own), upload(&mut cpu, &chosen), upload(&mut cpu, &follows));
        cpu.run(FollowTokens { tokens: &mut tokens, chosen: &chosen, follows: &follows }).expect("a launch");
        assert_eq!(download::<u32>(&mut cpu, &tokens), expected, "{rows} rows");
    }
}

/// As the CPU engine chooses: the first of the highest.
fn first_highest(row: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (token, &logit) in (0..).zip(row) {
        if logit > best.1 {
            best = (token, logit);
        }
    }
    best.0
}

#[test]
fn argmax_is_the_first_highest_logit_over_any_parts_and_thread_order() {
    let mut cpu = cpu();
    for (width, parts) in [(1, 1), (33, 1), (64, 2), (300, 3), (1024, 4), (1000, 1)] {
        for order in ORDERS {
            cpu.order_threads(order);
            // Few different values, so that there are ties within and across parts; all of a row may be negative.
            let mut random = Random(order.into());
            let logits: Vec<f32> = (0..5 * width).map(|_| (random.float() * 3.0).round() - 3.0).collect();
            let expected: Vec<u32> = logits.chunks(width).map(first_highest).collect();
            let found = greedy(&mut cpu, parts, width, &logits);
            assert_eq!(found, expected, "width {width} in {parts} parts, order {order}");
        }
    }
}

#[test]
fn argmax_holds_both_zeroes_equal_and_orders_the_extremes() {
    let mut cpu = cpu();
    let rows = [
        [-0.0, 0.0, -1.0, -0.0],
        [-1.0, 0.0, -0.0, -2.0],
        [f32::MIN, -1e-40, -f32::MIN_POSITIVE, -1.0],
        [f32::MAX, 1e38, f32::MAX, 0.0],
        [1e-40, 1e-41, 0.0, -1e-40],
    ];
    assert_eq!(greedy(&mut cpu, 2, 4, &rows.concat()), [0, 1, 1, 0, 0]);
}

#[test]
fn argmax_of_a_logit_that_is_not_finite_is_no_token() {
    let mut cpu = cpu();
    for wrong in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut logits = Random(1).floats(2 * 64);
        logits[64 + 50] = wrong;
        let found = greedy(&mut cpu, 4, 64, &logits);
        assert_eq!(found, [first_highest(&logits[..64]), NOT_FINITE], "{wrong}");
    }
}

fn sampled(
    cpu: &mut Cpu,
    parts: usize,
    (width, logits): (usize, &[f32]),
    seeds: &[u64],
    temperature: f32,
) -> Vec<u32> {
    sampled_each(cpu, parts, (width, logits), seeds, &vec![temperature; seeds.len()])
}

fn sampled_each(
    cpu: &mut Cpu,
    parts: usize,
    (width, logits): (usize, &[f32]),
    seeds: &[u64],
    temperatures: &[f32],
) -> Vec<u32> {
    let (seeds, temperatures) = (upload(cpu, seeds), upload(cpu, temperatures));
    let (seeds, temperatures) = (&seeds, &temperatures);
    chosen(cpu, parts, (width, logits), |cpu, bids, logits, width, first_token| {
        cpu.run(Sample { bids, logits, seeds, temperatures, width, first_token }).expect("a launch");
    })
}

#[test]
fn sample_is_the_same_over_any_parts_and_thread_order() {
    let mut cpu = cpu();
    let logits = Random(1).floats(6 * 96);
    let seeds: Vec<u64> = (10..16).collect();
    let whole = sampled(&mut cpu, 1, (96, &logits), &seeds, 0.8);
    for (order, parts) in [(1, 2), (2, 3), (3, 1)] {
        cpu.order_threads(order);
        assert_eq!(sampled(&mut cpu, parts, (96, &logits), &seeds, 0.8), whole, "{parts} parts");
    }
    let other = sampled(&mut cpu, 1, (96, &logits), &[0, 1, 2, 3, 4, 5], 0.8);
    assert_ne!(other, whole, "the seed has no influence");
}

#[test]
fn sample_draws_tokens_as_often_as_their_softmax_says() {
    let mut cpu = cpu();
    let (row, temperature, draws) = ([1.0_f32, 0.0, -1.0, 2.0], 0.7, 2000_usize);
    let logits = row.repeat(draws);
    let mut random = Random(3);
    let seeds: Vec<u64> = (0..draws).map(|_| random.word()).collect();
    let tokens = sampled(&mut cpu, 1, (4, &logits), &seeds, temperature);
    let weights = row.map(|logit| f64::from(logit / temperature).exp());
    for (token, weight) in (0..).zip(weights) {
        let expected = weight / weights.iter().sum::<f64>();
        let found = tokens.iter().filter(|drawn| **drawn == token).count() as f64 / draws as f64;
        // Four standard deviations.
        let slack = 4.0 * (expected * (1.0 - expected) / draws as f64).sqrt();
        assert!((found - expected).abs() < slack, "token {token}: {found} of the draws, not {expected}");
    }
}

#[test]
fn sample_takes_each_row_at_its_own_temperature() {
    let mut cpu = cpu();
    let row = Random(5).floats(96);
    let (logits, seeds) = (row.repeat(4), [7, 7, 7, 7]);
    let found = sampled_each(&mut cpu, 2, (96, &logits), &seeds, &[0.0, 1.0, -1.0, f32::NAN]);
    let drawn = sampled(&mut cpu, 1, (96, &row), &[7], 1.0)[0];
    let likeliest = first_highest(&row);
    assert_ne!(drawn, likeliest, "the seed draws another");
    assert_eq!(found, [likeliest, drawn, likeliest, likeliest]);
}

#[test]
fn sample_of_a_logit_that_is_not_finite_is_no_token() {
    let logits = [0.0, f32::NAN, 1.0, 0.0];
    assert_eq!(sampled(&mut cpu(), 2, (4, &logits), &[1], 1.0), [NOT_FINITE]);
}
