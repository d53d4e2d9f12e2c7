//! Rotary position embedding: turns each pair of a head's elements by an angle that grows with the position.
//!
//! Attention turns queries and keys before the keys enter the cache, by this table. Pairs are element `i` and `i + head_dim / 2`,
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

/// Cosine and sine of each position and pair, `[context, head_dim / 2, 2]`.
#[expect(clippy::cast_precision_loss, reason = "positions are below the context, far below 2^24")]
pub(super) fn turns(config: &Config) -> Vec<f32> {
    let frequencies: Vec<f32> = frequencies(config).collect();
    let turn = |angle: f32| {
        let (sine, cosine) = angle.sin_cos();
        [cosine, sine]
    };
    let angles = |position: usize| frequencies.iter().map(move |frequency| position as f32 * frequency);
    (0..config.context).flat_map(angles).flat_map(turn).collect()
}

/// Radians a position, of each of the `head_dim / 2` pairs.
#[expect(clippy::cast_precision_loss, reason = "head_dim is far below 2^24")]
fn frequencies(config: &Config) -> impl Iterator<Item = f32> {
    let (theta, head_dim) = (config.rope_theta, config.head_dim as f32);
    let frequencies =
        (0..config.head_dim / 2).map(move |pair| 1.0 / theta.powf(2.0 * pair as f32 / head_dim));
    frequencies
        .map(move |frequency| config.rope_scaling.map_or(frequency, |scaling| scaling.apply(frequency)))
}

#[cfg(test)]
mod tests {
    use super::Scaling;

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
