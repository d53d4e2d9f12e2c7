//! Rotary position embedding: turns each pair of a head's elements by an angle that grows with the position.
//!
//! Used by attention on queries and keys before the keys enter the cache. Pairs are element `i` and `i + head_dim / 2`,
//! as in Hugging Face's files.

use std::f32::consts::TAU;

use super::config::Config;

/// Stretch of the slow frequencies as Llama 3.1 does it (`rope_type = "llama3"`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Divisor of the slow frequencies.
    pub factor: f32,
    /// Frequencies with fewer turns than this over the original context are divided by `factor`.
    pub low_frequency_factor: f32,
    /// Frequencies with more turns than this over the original context stay.
    pub high_frequency_factor: f32,
    /// Context the model was first trained on, in positions.
    pub original_context: f32,
}

impl Scaling {
    fn apply(&self, frequency: f32) -> f32 {
        let turns = self.original_context * frequency / TAU;
        let (low, high) = (self.low_frequency_factor, self.high_frequency_factor);
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 - kept) * frequency / self.factor + kept * frequency
    }
}

/// The frequencies of one model: radians a position, `head_dim / 2` of them.
#[derive(Debug)]
pub(super) struct Rope {
    frequencies: Vec<f32>,
}

impl Rope {
    /// The model's frequencies.
    pub(super) fn new(config: &Config) -> Self {
        let scale = |frequency| match &config.rope_scaling {
            Some(scaling) => scaling.apply(frequency),
            None => frequency,
        };
        Self { frequencies: frequencies(config).map(scale).collect() }
    }

    /// Turns for the given positions, worked out once a batch and used by every layer.
    #[expect(clippy::cast_precision_loss, reason = "positions are below the context, far below 2^24")]
    pub(super) fn turns(&self, positions: impl Iterator<Item = usize>) -> Turns {
        let angle =
            |position: usize| self.frequencies.iter().map(move |frequency| position as f32 * frequency);
        Turns { sin_cos: positions.flat_map(angle).map(f32::sin_cos).collect(), half: self.frequencies.len() }
    }
}

#[expect(clippy::cast_precision_loss, reason = "head_dim is far below 2^24")]
fn frequencies(config: &Config) -> impl Iterator<Item = f32> {
    let (theta, head_dim) = (config.rope_theta, config.head_dim as f32);
    (0..config.head_dim / 2).map(move |pair| 1.0 / theta.powf(2.0 * pair as f32 / head_dim))
}

/// Sine and cosine of each position of a batch and each frequency, `[positions, head_dim / 2]`.
#[derive(Debug)]
pub(super) struct Turns {
    sin_cos: Vec<(f32, f32)>,
    half: usize,
}

impl Turns {
    /// Turns every head of `[positions, heads * head_dim]`, `width` elements a position, in place.
    pub(super) fn apply(&self, heads: &mut [f32], width: usize) {
        let positions = heads.chunks_exact_mut(width).zip(self.sin_cos.chunks_exact(self.half));
        for (position, turns) in positions {
            position.chunks_exact_mut(2 * self.half).for_each(|head| turn(head, turns));
        }
    }
}

fn turn(head: &mut [f32], turns: &[(f32, f32)]) {
    let (first, second) = head.split_at_mut(turns.len());
    for ((a, b), (sin, cos)) in first.iter_mut().zip(second).zip(turns) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

#[cfg(test)]
mod tests {
    use std::f32::consts::FRAC_PI_2;

    use super::{Rope, Scaling, Turns};

    #[test]
    fn rope_quarter_turn_moves_first_half_into_second() {
        let turns = Rope { frequencies: vec![FRAC_PI_2, 0.0] }.turns([1].into_iter());
        let mut heads = [1.0, 2.0, 3.0, 4.0];
        turns.apply(&mut heads, 4);
        let expected = [-3.0, 2.0, 1.0, 4.0];
        assert!(heads.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{heads:?}");
    }

    #[test]
    fn rope_position_zero_leaves_heads_alone() {
        let turns: Turns = Rope { frequencies: vec![1.0] }.turns([0].into_iter());
        let mut heads = [1.0, 2.0, 3.0, 4.0];
        turns.apply(&mut heads, 4);
        assert_eq!(heads, [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn rope_llama3_divides_slow_keeps_fast_and_blends_between() {
        let scaling = Scaling {
            factor: 8.0,
            low_frequency_factor: 1.0,
            high_frequency_factor: 4.0,
            original_context: std::f32::consts::TAU,
        };
        assert_eq!(scaling.apply(0.5), 0.5 / 8.0);
        assert_eq!(scaling.apply(5.0), 5.0);
        assert_eq!(scaling.apply(2.5), 0.5 * 2.5 / 8.0 + 0.5 * 2.5);
    }
}
