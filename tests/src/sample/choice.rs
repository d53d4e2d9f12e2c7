//! Bids for drawn tokens, tokens that follow a choice, and the fold of votes.

use lockstep_kernels::operations::choice::{FollowTokens, Sample, VoteMin};
use lockstep_kernels::{Buffer, Device, Plain};

use super::alone::Expected;
use super::numbers::{long_words, mixed, numbers, words};

/// A part of the vocabulary, of more tokens than a block has threads.
const DRAWN_WIDTH: u32 = 300;
const FIRST_TOKEN: u32 = 1000;
/// Of each row; that of the last does not matter, because it has a logit that is not finite.
const TEMPERATURES: [f32; 4] = [0.0, 0.7, 1.3, 0.2];

/// Bids for drawn tokens.
#[derive(Debug)]
pub(super) struct Drawn<B> {
    logits: B,
    seeds: B,
    temperatures: B,
    bids: B,
}

impl<B: Buffer> Drawn<B> {
    pub(super) fn upload<D: Device<Buffer = B>>(device: &mut D) -> Result<Self, D::Error> {
        let (logits, seeds) = drawn_inputs();
        Ok(Self {
            logits: device.upload(&logits)?,
            seeds: device.upload(&seeds)?,
            temperatures: device.upload(&TEMPERATURES)?,
            bids: device.upload(&[1u64; 4])?,
        })
    }

    pub(super) fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Self { logits, seeds, temperatures, bids } = self;
        let (width, first_token) = (DRAWN_WIDTH, FIRST_TOKEN);
        device.run(Sample { bids, logits, seeds, temperatures, width, first_token })
    }

    pub(super) fn written(&self) -> (String, &B) {
        ("sample".to_owned(), &self.bids)
    }
}

/// Logits, and a seed a row.
fn drawn_inputs() -> (Vec<f32>, [u64; 4]) {
    let mut logits = numbers(16, 4 * DRAWN_WIDTH);
    logits[3 * DRAWN_WIDTH as usize + 290] = f32::INFINITY;
    (logits, [0, 1, 2, 3].map(|row| mixed(17, row)))
}

/// Value and token of each bid: the upper half is the value's bits, so turned that the highest is the least.
fn bids(bytes: &[u8]) -> Vec<f64> {
    let value = |high: u32| f32::from_bits(if high >> 31 == 0 { !high ^ 1 << 31 } else { high });
    let halves = u32::all_of(bytes);
    halves.as_chunks().0.iter().flat_map(|[token, high]| [value(*high).into(), f64::from(*token)]).collect()
}

/// Gumbel's noise of a row's seed and a token.
fn noise(seed: u64, token: u32) -> f64 {
    let uniform = ((mixed(seed, token.into()) >> 41) as f64 + 0.5) / f64::from(1 << 23);
    -(-uniform.ln()).ln()
}

/// The highest value of a row, and the first token that has it; the bid for none, which is 0, if one is not finite.
fn drawn(logits: &[f32], seed: u64, temperature: f32) -> [f64; 2] {
    if logits.iter().any(|logit| !logit.is_finite()) {
        return [f64::NAN, 0.0];
    }
    let value = |(token, &logit): (u32, &f32)| {
        let logit = f64::from(logit);
        let drawn = || logit / f64::from(temperature) + noise(seed, token);
        (if temperature > 0.0 { drawn() } else { logit }, token)
    };
    let values = (FIRST_TOKEN..).zip(logits).map(value);
    let (value, token) =
        values.fold((f64::NEG_INFINITY, 0), |best, one| if one.0 > best.0 { one } else { best });
    [value, token.into()]
}

pub(super) fn draws() -> Expected {
    let (logits, seeds) = drawn_inputs();
    let rows = logits.chunks(DRAWN_WIDTH as usize).zip(seeds).zip(TEMPERATURES);
    let values = rows.flat_map(|((logits, seed), temperature)| drawn(logits, seed, temperature)).collect();
    Expected::nearly("sample", bids, values)
}

/// More than a block has threads.
const FOLLOWED_ROWS: u32 = 300;
const CHOSEN: [u32; 5] = [900, 901, 902, 903, 904];

/// Tokens of rows, some of which go on from a choice.
#[derive(Debug)]
pub(super) struct Followed<B> {
    chosen: B,
    follows: B,
    tokens: B,
}

impl<B: Buffer> Followed<B> {
    pub(super) fn upload<D: Device<Buffer = B>>(device: &mut D) -> Result<Self, D::Error> {
        Ok(Self {
            chosen: device.upload(&CHOSEN)?,
            follows: device.upload(&followed_choices())?,
            tokens: device.upload(&(0..FOLLOWED_ROWS).collect::<Vec<_>>())?,
        })
    }

    pub(super) fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Self { chosen, follows, tokens } = self;
        device.run(FollowTokens { tokens, chosen, follows })
    }

    pub(super) fn written(&self) -> (String, &B) {
        ("follow_tokens".to_owned(), &self.tokens)
    }
}

/// The choice of each row; of eight numbers five are choices, and of the others one is the largest that there is.
fn followed_choices() -> Vec<u32> {
    let choice = |row: u32| match mixed(18, row.into()).to_le_bytes()[0] % 8 {
        7 => u32::MAX,
        choice => choice.into(),
    };
    (0..FOLLOWED_ROWS).map(choice).collect()
}

pub(super) fn follows() -> Expected {
    let rows = (0..).zip(followed_choices());
    let token = |(row, choice): (u32, u32)| f64::from(CHOSEN.get(choice as usize).copied().unwrap_or(row));
    Expected::exactly("follow_tokens", words, rows.map(token).collect())
}

/// More ranks than rows of threads, more elements than a tile.
const RANKS: u32 = 9;
const VOTE_WIDTH: u32 = 33;

/// Votes of ranks, and their minimum.
#[derive(Debug)]
pub(super) struct Voted<B> {
    votes: B,
    output: B,
}

impl<B: Buffer> Voted<B> {
    pub(super) fn upload<D: Device<Buffer = B>>(device: &mut D) -> Result<Self, D::Error> {
        let output = device.upload(&[0u64; VOTE_WIDTH as usize])?;
        Ok(Self { votes: device.upload(&ballots())?, output })
    }

    pub(super) fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Self { votes, output } = self;
        device.run(VoteMin { output, votes, ranks: RANKS, width: VOTE_WIDTH })
    }

    pub(super) fn written(&self) -> (String, &B) {
        ("vote_min".to_owned(), &self.output)
    }
}

/// Votes of 53 bits, which a double holds.
fn ballots() -> Vec<u64> {
    (0..u64::from(RANKS * VOTE_WIDTH)).map(|place| mixed(19, place) >> 11).collect()
}

pub(super) fn votes() -> Expected {
    let votes = ballots();
    let least = |element| votes.iter().skip(element).step_by(VOTE_WIDTH as usize).copied().min();
    let minima = (0..VOTE_WIDTH as usize).filter_map(least).map(|vote| vote as f64);
    Expected::exactly("vote_min", long_words, minima.collect())
}
