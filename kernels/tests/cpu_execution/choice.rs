//! Votes, and the choice of tokens over a vocabulary in parts.

use lockstep_kernels::Device;
use lockstep_kernels::cpu::{Cpu, CpuBuffer};
use lockstep_kernels::operations::choice::{Argmax, ChosenTokens, FollowTokens, NOT_FINITE, Sample, VoteMin};

use crate::common::{SEEDS, cpu, download, in_every_order, pairs, upload};
use crate::numbers::{Random, assert_close};

/// Numbers of rows, at the edges of a block of rows (256), and beyond.
const ROWS: [usize; 6] = [1, 31, 255, 256, 257, 600];
/// The error of a quotient and two logarithms in single precision.
const DRAWN_TOLERANCE: f64 = 1e-6;

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
    for ((ranks, width), seed) in pairs(pairs([1, 2, 3, 5, 8, 9, 33], [1, 31, 32, 33, 100]), SEEDS) {
        let mut random = Random(seed);
        let votes: Vec<u64> = (0..ranks * width).map(|_| random.word()).collect();
        let expected: Vec<u64> = (0..width)
            .map(|element| votes.iter().skip(element).step_by(width).copied().min().expect("a rank"))
            .collect();
        let case = format!("{ranks} ranks, width {width}, seed {seed}");
        let found = in_every_order(&mut cpu, &case, |cpu| minimum(cpu, &votes, size(ranks)));
        assert_eq!(found, expected, "{case}");
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
    tokens_of(cpu, &bids)
}

fn greedy(cpu: &mut Cpu, parts: usize, width: usize, logits: &[f32]) -> Vec<u32> {
    let rows = size(logits.len() / width);
    chosen(cpu, parts, (width, logits), |cpu, bids, logits, width, first_token| {
        cpu.run(Argmax { bids, logits, rows, width, first_token }).expect("a launch");
    })
}

/// The tokens of rows after [`FollowTokens`].
fn followed(cpu: &mut Cpu, own: &[u32], chosen: &[u32], follows: &[u32]) -> Vec<u32> {
    let mut tokens = upload(cpu, own);
    let (chosen, follows) = (upload(cpu, chosen), upload(cpu, follows));
    cpu.run(FollowTokens { tokens: &mut tokens, chosen: &chosen, follows: &follows }).expect("a launch");
    download(cpu, &tokens)
}

#[test]
fn follow_tokens_replaces_those_of_rows_that_go_on_from_a_choice() {
    let mut cpu = cpu();
    for (rows, seed) in pairs(ROWS, SEEDS) {
        let mut random = Random(seed);
        let choices = 1 + size(rows) / 2;
        let chosen: Vec<u32> = (0..choices).map(|choice| 1000 + choice).collect();
        // Half of the numbers are beyond the choices, the first of those and the largest among them.
        let mut follows: Vec<u32> = (0..rows).map(|_| random.below(2 * choices)).collect();
        follows[rows - 1] = u32::MAX;
        follows[0] = if rows > 1 { choices } else { 0 };
        let own: Vec<u32> = (0..size(rows)).collect();
        let expected: Vec<u32> = own
            .iter()
            .zip(&follows)
            .map(|(own, follows)| chosen.get(*follows as usize).copied().unwrap_or(*own))
            .collect();
        let case = format!("{rows} rows, seed {seed}");
        let found = in_every_order(&mut cpu, &case, |cpu| followed(cpu, &own, &chosen, &follows));
        assert_eq!(found, expected, "{case}");
    }
}

fn tokens_of(cpu: &mut Cpu, bids: &[u64]) -> Vec<u32> {
    let mut tokens = upload(cpu, &vec![7_u32; bids.len()]);
    let (bids, rows) = (upload(cpu, bids), size(bids.len()));
    cpu.run(ChosenTokens { tokens: &mut tokens, bids: &bids, rows }).expect("a launch");
    download(cpu, &tokens)
}

#[test]
fn chosen_tokens_are_the_lower_halves_of_bids() {
    let mut cpu = cpu();
    for (rows, seed) in pairs(ROWS, SEEDS) {
        let mut random = Random(seed);
        // Every fourth bid is that of a row which is not finite.
        let bids: Vec<u64> = (0..rows).map(|row| if row % 4 == 3 { 0 } else { random.word() }).collect();
        let token = |bid: &u64| if *bid == 0 { NOT_FINITE } else { halves(*bid).1 };
        let case = format!("{rows} rows, seed {seed}");
        let found = in_every_order(&mut cpu, &case, |cpu| tokens_of(cpu, &bids));
        assert_eq!(found, bids.iter().map(token).collect::<Vec<_>>(), "{case}");
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
    let shapes = [(1, 1), (31, 1), (33, 1), (64, 2), (256, 1), (257, 1), (300, 3), (1024, 4), (1000, 1)];
    for (((width, parts), rows), seed) in pairs(pairs(shapes, [1, 5]), SEEDS) {
        // Few different values, so that there are ties within and across parts; with the first seed all are negative. The
        // highest is at two drawn places, so that no part of a row is beside the point.
        let (mut random, highest) = (Random(seed), 2.0 * seed as f32 - 2.5);
        let mut logits: Vec<f32> =
            (0..rows * width).map(|_| (random.float() * 3.0).round() - 3.5 + highest).collect();
        for row in logits.chunks_mut(width) {
            for _ in 0..2 {
                row[random.below(size(width)) as usize] = highest;
            }
        }
        let expected: Vec<u32> = logits.chunks(width).map(first_highest).collect();
        let case = format!("{rows} rows, width {width} in {parts} parts, seed {seed}");
        let found = in_every_order(&mut cpu, &case, |cpu| greedy(cpu, parts, width, &logits));
        assert_eq!(found, expected, "{case}");
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

/// The upper and the lower half of a word.
fn halves(word: u64) -> (u32, u32) {
    let half = |bits: u64| u32::try_from(bits).expect("32 bits");
    (half(word >> 32), half(word & 0xFFFF_FFFF))
}

/// The value and the token that a bid stands for.
fn value_and_token(bid: u64) -> (f32, u32) {
    let (descending, token) = halves(bid);
    let ascending = !descending;
    (f32::from_bits(if ascending >> 31 == 1 { ascending ^ 1 << 31 } else { !ascending }), token)
}

/// A row's logits with the noise of its seed: token `t` has that of word `t` of the seed's sequence.
fn noisy(logits: &[f32], seed: u64, temperature: f32, first_token: u32) -> Vec<f64> {
    let mut words = Random(seed);
    let mut noise = || {
        let uniform = ((words.word() >> 41) as f64 + 0.5) / f64::from(1 << 23);
        -(-uniform.ln()).ln()
    };
    (0..first_token).for_each(|_| _ = noise());
    let drawn = |&logit: &f32| f64::from(logit) / f64::from(temperature) + noise();
    logits.iter().map(drawn).collect()
}

/// The rows' bids for tokens from `first_token` on.
fn drawn(
    cpu: &mut Cpu,
    (width, logits): (usize, &[f32]),
    seeds: &[u64],
    (temperature, first_token): (f32, u32),
) -> Vec<u64> {
    let mut bids = upload(cpu, &vec![1_u64; seeds.len()]);
    let (logits, temperatures) = (upload(cpu, logits), upload(cpu, &vec![temperature; seeds.len()]));
    let seeds = upload(cpu, seeds);
    let operation = Sample {
        bids: &mut bids,
        logits: &logits,
        seeds: &seeds,
        temperatures: &temperatures,
        width: size(width),
        first_token,
    };
    cpu.run(operation).expect("a launch");
    download(cpu, &bids)
}

#[test]
fn sample_bids_for_the_highest_of_logit_and_noise() {
    let mut cpu = cpu();
    let shapes = pairs([1, 3], [1, 31, 33, 256, 257, 1000]);
    for (((rows, width), first_token), seed) in pairs(pairs(shapes, [0, 77]), SEEDS) {
        let mut random = Random(seed);
        let (logits, temperature) = (random.floats(rows * width), 0.3 * seed as f32);
        let seeds: Vec<u64> = (0..rows).map(|_| random.word()).collect();
        let case = format!("{rows} rows, width {width} from {first_token}, seed {seed}");
        let of = (temperature, first_token);
        let bids = in_every_order(&mut cpu, &case, |cpu| drawn(cpu, (width, &logits), &seeds, of));
        for ((row, &seed), &bid) in logits.chunks(width).zip(&seeds).zip(&bids) {
            let expected = noisy(row, seed, temperature, first_token);
            let (value, token) = value_and_token(bid);
            let own = expected[(token - first_token) as usize];
            let highest = expected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert_close(&[value, value], &[own, highest], DRAWN_TOLERANCE, &case);
        }
    }
}

#[test]
fn sample_is_the_same_over_any_parts_and_thread_order() {
    let mut cpu = cpu();
    for seed in SEEDS {
        let mut random = Random(seed);
        let logits = random.floats(6 * 96);
        let seeds: Vec<u64> = (0..6).map(|_| random.word()).collect();
        let whole = sampled(&mut cpu, 1, (96, &logits), &seeds, 0.8);
        for parts in [1, 2, 3, 96] {
            let case = format!("{parts} parts, seed {seed}");
            let found =
                in_every_order(&mut cpu, &case, |cpu| sampled(cpu, parts, (96, &logits), &seeds, 0.8));
            assert_eq!(found, whole, "{case}");
        }
        let other = sampled(&mut cpu, 1, (96, &logits), &[0, 1, 2, 3, 4, 5], 0.8);
        assert_ne!(other, whole, "the seed has no influence");
    }
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
