//! Feed-forward of one layer, for this rank's columns: `down(silu(gate(x)) * up(x))`.

use super::config::{Config, Shard};
use super::kernels::{Linear, gated_silu};
use super::weights::{Checkpoint, WeightsError};

/// One layer's feed-forward weights, this rank's columns.
#[derive(Debug)]
pub(super) struct FeedForward {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl FeedForward {
    /// Reads the weights under `prefix`, `model.layers.N`.
    pub(super) fn load(
        checkpoint: &Checkpoint,
        prefix: &str,
        config: &Config,
        shard: Shard,
    ) -> Result<Self, WeightsError> {
        let (hidden, width) = (config.hidden, config.feed_forward);
        let name = |part: &str| format!("{prefix}.mlp.{part}_proj.weight");
        let rows = |part| {
            let weight = checkpoint.rows(&name(part), [width, hidden], shard)?;
            Ok(Linear::new(weight, hidden))
        };
        let down = checkpoint.columns(&name("down"), [hidden, width], shard)?;
        Ok(Self { gate: rows("gate")?, up: rows("up")?, down: Linear::new(down, shard.feed_forward) })
    }

    /// This rank's summand, `[positions, hidden]`, from the normalised input of that shape.
    pub(super) fn apply(&self, input: &[f32]) -> Vec<f32> {
        let mut gate = self.gate.apply(input);
        gated_silu(&mut gate, &self.up.apply(input));
        self.down.apply(&gate)
    }
}
