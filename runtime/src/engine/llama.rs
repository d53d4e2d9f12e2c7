//! The Llama forward pass of one rank: weights, layers, and the two all-reduces of each layer.
//!
//! Read [`Llama::logits`] first; it is the drawing in the module's head, line by line.

use std::path::Path;

use super::all_reduce::AllReduce;
use super::attention::{Attention, Context};
use super::batch::{ForwardError, Place, Row, places};
use super::cache::{CacheError, KvCache};
use super::config::{Config, ConfigError, Shard};
use super::feed_forward::FeedForward;
use super::greedy::Choice;
use super::kernels::{Linear, RmsNorm, add};
use super::rope::Rope;
use super::weights::{Checkpoint, WeightsError};

/// Why a model cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The configuration is missing, wrong or unsupported, or does not suit the group.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The weights are missing or do not fit the configuration.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// One rank's part of a model; embeddings, norms and output projection are whole on every rank.
#[derive(Debug)]
pub struct Llama {
    config: Config,
    shard: Shard,
    rope: Rope,
    embedding: Linear,
    layers: Vec<Layer>,
    norm: RmsNorm,
    /// `None` when the embedding table is the output projection too.
    head: Option<Linear>,
}

#[derive(Debug)]
struct Layer {
    attention_norm: RmsNorm,
    attention: Attention,
    feed_forward_norm: RmsNorm,
    feed_forward: FeedForward,
}

impl Llama {
    /// Loads the part of rank `rank` in a group of `size` from a Hugging Face Llama directory.
    ///
    /// # Errors
    /// [`ModelError`], naming the file, field or tensor that is to blame.
    pub fn load(directory: &Path, rank: usize, size: usize) -> Result<Self, ModelError> {
        let config = Config::load(directory)?;
        let shard = config.shard(rank, size)?;
        let checkpoint = Checkpoint::open(directory)?;
        let table = |name| {
            let weight = checkpoint.whole(name, &[config.vocabulary, config.hidden])?;
            Ok::<_, WeightsError>(Linear::new(weight, config.hidden))
        };
        let layer = |index| Layer::load(&checkpoint, index, &config, shard);
        Ok(Self {
            rope: Rope::new(&config),
            embedding: table("model.embed_tokens.weight")?,
            layers: (0..config.layers).map(layer).collect::<Result<_, _>>()?,
            norm: load_norm(&checkpoint, "model.norm.weight", &config)?,
            head: (!config.tied_embeddings).then(|| table("lm_head.weight")).transpose()?,
            shard,
            config,
        })
    }

    /// The model's configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// This rank's part.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// An unwritten cache for this rank, of `pages` pages of `page_size` positions.
    ///
    /// # Errors
    /// [`CacheError::Size`].
    pub fn cache(&self, page_size: usize, pages: usize) -> Result<KvCache, CacheError> {
        let [layers, kv_heads, head_dim] = self.cache_shape();
        KvCache::new(layers, kv_heads, head_dim, page_size, pages)
    }

    /// Runs a batch and returns the greedy token after each row's last position.
    ///
    /// Every rank of the group calls this with the same rows. It enters `2 * layers` all-reduces over all rows
    /// together, none if there are no rows.
    ///
    /// # Errors
    /// [`ForwardError`]. `Collective` strikes midway; the others strike on every rank alike, and all but `NotFinite`
    /// before the cache is touched.
    pub fn forward(
        &self,
        cache: &mut KvCache,
        rows: &[Row<'_>],
        group: &mut dyn AllReduce,
    ) -> Result<Vec<u32>, ForwardError> {
        let choices = self.forward_with_margins(cache, rows, group)?;
        Ok(choices.into_iter().map(|choice| choice.token).collect())
    }

    /// As [`forward`](Self::forward), with the margin of each choice.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_with_margins(
        &self,
        cache: &mut KvCache,
        rows: &[Row<'_>],
        group: &mut dyn AllReduce,
    ) -> Result<Vec<Choice>, ForwardError> {
        let logits = self.logits(cache, rows, group)?;
        let rows = logits.chunks_exact(self.config.vocabulary).enumerate();
        rows.map(|(row, logits)| Choice::of(logits).ok_or(ForwardError::NotFinite { row })).collect()
    }

    /// As [`forward`](Self::forward), but returns the logits, `[rows, vocabulary]`, finite or not.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), less `NotFinite`.
    pub fn logits(
        &self,
        cache: &mut KvCache,
        rows: &[Row<'_>],
        group: &mut dyn AllReduce,
    ) -> Result<Vec<f32>, ForwardError> {
        self.check_fit(cache, group)?;
        let places = places(rows, &self.config, cache)?;
        let turns = self.rope.turns(places.iter().map(|place| place.position));
        let mut hidden = self.embed(&places);
        for (index, layer) in self.layers.iter().enumerate() {
            let context = Context { layer: index, places: &places, turns: &turns };
            layer.apply(&mut hidden, &context, cache, group)?;
        }
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        Ok(head.apply(&self.norm.apply(&self.last_positions(&places, &hidden))))
    }

    fn embed(&self, places: &[Place<'_>]) -> Vec<f32> {
        places.iter().flat_map(|place| self.embedding.row(place.token)).copied().collect()
    }

    fn last_positions(&self, places: &[Place<'_>], hidden: &[f32]) -> Vec<f32> {
        let positions = places.iter().zip(hidden.chunks_exact(self.config.hidden));
        positions.filter(|(place, _)| place.last).flat_map(|(_, values)| values).copied().collect()
    }

    fn check_fit(&self, cache: &KvCache, group: &dyn AllReduce) -> Result<(), ForwardError> {
        let expected = [self.shard.rank, self.shard.size];
        let found = [group.rank(), group.size()];
        if expected != found {
            return Err(ForwardError::Group { expected, found });
        }
        let (expected, found) = (self.cache_shape(), cache.shape());
        match expected == found {
            true => Ok(()),
            false => Err(ForwardError::CacheShape { expected, found }),
        }
    }

    fn cache_shape(&self) -> [usize; 3] {
        [self.config.layers, self.shard.kv_heads, self.config.head_dim]
    }
}

impl Layer {
    fn load(
        checkpoint: &Checkpoint,
        index: usize,
        config: &Config,
        shard: Shard,
    ) -> Result<Self, WeightsError> {
        let prefix = format!("model.layers.{index}");
        let norm = |part| load_norm(checkpoint, &format!("{prefix}.{part}.weight"), config);
        Ok(Self {
            attention_norm: norm("input_layernorm")?,
            attention: Attention::load(checkpoint, &prefix, config, shard)?,
            feed_forward_norm: norm("post_attention_layernorm")?,
            feed_forward: FeedForward::load(checkpoint, &prefix, config, shard)?,
        })
    }

    /// Adds the layer's two contributions to `hidden`, each summed over the group first.
    fn apply(
        &self,
        hidden: &mut [f32],
        context: &Context<'_>,
        cache: &mut KvCache,
        group: &mut dyn AllReduce,
    ) -> Result<(), ForwardError> {
        if hidden.is_empty() {
            return Ok(());
        }
        let mut summand = self.attention.apply(&self.attention_norm.apply(hidden), context, cache);
        group.all_reduce_sum(&mut summand)?;
        add(hidden, &summand);
        let mut summand = self.feed_forward.apply(&self.feed_forward_norm.apply(hidden));
        group.all_reduce_sum(&mut summand)?;
        add(hidden, &summand);
        Ok(())
    }
}

fn load_norm(checkpoint: &Checkpoint, name: &str, config: &Config) -> Result<RmsNorm, WeightsError> {
    let scale = checkpoint.whole(name, &[config.hidden])?;
    Ok(RmsNorm { scale, epsilon: config.norm_epsilon })
}
