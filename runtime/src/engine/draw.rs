//! Drawing a token: a function of the request's seed, the token's index in the output and the logits. So a request that is resumed, or
//! taken up again by another group, draws what it would have drawn.
//!
//! To each logit over the temperature comes Gumbel noise, and the highest sum wins: a token's chance is its softmax, with no sum over the
//! vocabulary. The noise is the kernels' (`choice.cu`); here its logarithm is computed from sums and products alone, which all machines
//! round alike, and no mathematics library's.

use super::bid;

/// How one row's token is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Fresh for every token of an output.
    pub seed: u64,
    /// Above 0.
    pub temperature: f32,
}

impl Draw {
    /// The draw of an output's token at `index`; `None` at a temperature of 0, where the likeliest token is taken.
    #[must_use]
    pub fn new(seed: u64, temperature_milli: u32, index: u32) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "a temperature is a few thousand thousandths")]
        let temperature = temperature_milli as f32 / 1000.0;
        (temperature_milli > 0).then_some(Self { seed: mixed(seed, index), temperature })
    }

    /// The token drawn from one row of logits; `None` if the row is empty or holds a value that is not finite.
    #[must_use]
    pub fn token(&self, logits: &[f32]) -> Option<u32> {
        bid::token(bid::best(logits, 0, Some(*self)))
    }

    /// What a token's logit counts in this draw.
    pub(super) fn noisy(&self, token: u32, logit: f32) -> f32 {
        logit / self.temperature + gumbel(mixed(self.seed, token))
    }
}

/// The splitmix64 mixing of a seed and a number below it.
const fn mixed(seed: u64, number: u32) -> u64 {
    let word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1));
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Gumbel's noise from 23 random bits, taken half a step up so that neither logarithm is of 0 or 1.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "23 bits, and single precision is what is asked for"
)]
fn gumbel(word: u64) -> f32 {
    let uniform = ((word >> 41) as f64 + 0.5) / f64::from(1 << 23);
    -ln(-ln(uniform)) as f32
}

/// The natural logarithm of a normal number above 0, to 15 digits.
fn ln(number: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    const BIAS: u64 = 1023;
    let bits = number.to_bits();
    let fraction = f64::from_bits(bits & MANTISSA | BIAS << 52);
    let power = i32::try_from(bits >> 52).map_or(0, |biased| biased - 1023);
    // Between 1/√2 and √2 the series below is short.
    let (fraction, power) =
        if fraction > std::f64::consts::SQRT_2 { (fraction / 2.0, power + 1) } else { (fraction, power) };
    let ratio = (fraction - 1.0) / (fraction + 1.0);
    let square = ratio * ratio;
    let series = (0..12).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * ratio * series + f64::from(power) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draw_logarithm_is_the_logarithm() {
        for number in (1..2000).map(|step| f64::from(step) * 1e-3).chain([1e-9, 5e-8, 16.0, 1e12]) {
            let (found, expected) = (ln(number), number.ln());
            assert!(
                (found - expected).abs() <= 4e-15 * expected.abs().max(0.1),
                "{number}: {found}, not {expected}"
            );
        }
    }

    #[test]
    fn draw_is_greedy_at_no_temperature() {
        assert_eq!(Draw::new(7, 0, 3), None);
        assert!(Draw::new(7, 1, 3).is_some_and(|draw| draw.token(&[0.0, 5.0, 1.0]) == Some(1)));
    }

    #[test]
    fn draw_takes_tokens_as_often_as_their_softmax_says() {
        let (row, draws) = ([1.0_f32, 0.0, -1.0, 2.0], 20_000_u32);
        let mut counts = [0_u32; 4];
        for index in 0..draws {
            let token = Draw::new(11, 700, index).and_then(|draw| draw.token(&row));
            counts[token.unwrap() as usize] += 1;
        }
        let weights = row.map(|logit| f64::from(logit / 0.7).exp());
        for (count, weight) in counts.into_iter().zip(weights) {
            let expected = weight / weights.iter().sum::<f64>();
            let (found, slack) = (
                f64::from(count) / f64::from(draws),
                4.0 * (expected * (1.0 - expected) / f64::from(draws)).sqrt(),
            );
            assert!((found - expected).abs() < slack, "{found} of the draws, not {expected}");
        }
    }

    #[test]
    fn draw_is_a_function_of_seed_and_index() {
        let row: Vec<f32> = (0_u8..64).map(|token| f32::from(token % 7)).collect();
        let drawn = |seed, index| Draw::new(seed, 1000, index).unwrap().token(&row).unwrap();
        let of_seed = |seed| (0..32).map(|index| drawn(seed, index)).collect::<Vec<u32>>();
        assert_eq!(of_seed(5), of_seed(5));
        assert_ne!(of_seed(5), of_seed(6));
        assert!(of_seed(5).windows(2).any(|pair| pair[0] != pair[1]), "the index has no influence");
    }

    #[test]
    fn draw_from_what_is_not_finite_is_none() {
        let draw = Draw::new(1, 1000, 0).unwrap();
        assert_eq!(draw.token(&[0.0, f32::NAN]), None);
        assert_eq!(draw.token(&[]), None);
    }
}
