//! The Llama forward pass of one rank, written once over a [`Backend`].
//!
//! Read [`Llama::forward`] first, then `run`; it is the drawing in the module's head, line by line.

use std::path::Path;
use std::time::Duration;

use lockstep_kernels::operations::choice::NOT_FINITE;

use super::activations::Activations;
use super::all_reduce::AllReduce;
use super::backend::{Backend, BackendError};
use super::batch::{Batch, ForwardError, Row, Step};
use super::cache::{CacheError, CacheShape, KvCache};
use super::captured::{self, Captured};
use super::config::{Config, ConfigError, Pieces, Shard};
use super::cpu::CpuBackend;
use super::draw::Draw;
use super::greedy::Choice;
use super::layer::{Layer, Network, Pass};
use super::loader::Loader;
use super::rope;
use super::weights::{Checkpoint, WeightsError};

/// Name of the embedding table.
const EMBEDDING: &str = "model.embed_tokens.weight";
/// Name of the norm in front of the output projection.
const LAST_NORM: &str = "model.norm.weight";
/// How long a forward on a device may take, the wait for other ranks included. A peer that is gone is noticed by the next vote between the
/// hosts, or by the supervisor, which sees its process end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a model cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The backend did not take the weights.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The configuration is missing, wrong or unsupported, or does not suit the group.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The weights are missing or do not fit the configuration.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// One rank's part of a model on a backend.
#[derive(Debug)]
pub struct Llama<B: Backend = CpuBackend> {
    /// By size. Before the backend, which is not to leave its group while a graph has collectives of it.
    captured: Vec<Captured<B>>,
    backend: B,
    config: Config,
    shard: Shard,
    network: Network<B::Buffer>,
    activations: Activations<B>,
    /// Where forwards choose their rows' tokens, by [`Ran::choice`].
    choices: Vec<B::Choice>,
    /// Where the forward is that was launched last, and its rows.
    launched: Option<(Ran, usize)>,
}

/// A forward that was launched.
#[derive(Debug)]
pub struct Flight<B: Backend> {
    rows: usize,
    /// `None` if it has no rows.
    fetch: Option<B::Fetch<u32>>,
}

/// Where what a forward computed is.
#[derive(Clone, Copy, Debug)]
enum Ran {
    /// Where every forward's is that was not captured.
    Eagerly,
    /// In the memory of a captured forward.
    Replayed(usize),
}

impl Llama {
    /// Loads the part of rank `rank` in a group of `size` from a Hugging Face Llama directory, for the CPU.
    ///
    /// # Errors
    /// [`ModelError`], naming the file, field or tensor that is to blame.
    pub fn load(directory: &Path, rank: usize, size: usize) -> Result<Self, ModelError> {
        Self::load_on(CpuBackend::default(), directory, rank, size)
    }
}

impl<B: Backend> Llama<B> {
    /// Loads the part of rank `rank` in a group of `size` from a Hugging Face Llama directory.
    ///
    /// # Errors
    /// [`ModelError`], naming the file, field or tensor that is to blame.
    pub fn load_on(mut backend: B, directory: &Path, rank: usize, size: usize) -> Result<Self, ModelError> {
        let config = Config::load(directory)?;
        let shard = config.shard(rank, size)?;
        let checkpoint = Checkpoint::open(directory)?;
        let mut loader = Loader { backend: &mut backend, checkpoint: &checkpoint, config: &config, shard };
        let table = [config.vocabulary, config.hidden];
        let embedding = loader.whole(EMBEDDING, table)?;
        let first_norm = loader.norm(&input_norm(0))?;
        let layers = (0..config.layers).map(|index| {
            let end_norm = if index + 1 == config.layers { LAST_NORM.into() } else { input_norm(index + 1) };
            Layer::load(&mut loader, index, &end_norm)
        });
        let layers = layers.collect::<Result<_, _>>()?;
        let head = if config.tied_embeddings { EMBEDDING } else { "lm_head.weight" };
        let apart = size > 1 || !config.tied_embeddings;
        let head = apart.then(|| loader.rows(Pieces::Vocabulary, head, table)).transpose()?;
        let turns = backend.upload(rope::turns(&config).into())?;
        let network = Network { turns, embedding, first_norm, layers, head };
        let activations = Activations::new(&mut backend, (&config, shard), [1, 1])?;
        let choices = vec![backend.choice(1)?];
        let captured = Vec::new();
        Ok(Self { captured, backend, config, shard, network, activations, choices, launched: None })
    }

    /// Takes memory for batches of up to so many positions and rows at once, so that no forward need.
    ///
    /// # Errors
    /// If there is none.
    pub fn reserve(&mut self, positions: usize, rows: usize) -> Result<(), BackendError> {
        self.activations =
            Activations::new(&mut self.backend, (&self.config, self.shard), [positions, rows])?;
        self.forget_captured();
        self.choices = vec![self.backend.choice(rows)?];
        Ok(())
    }

    /// Captures forwards of up to `rows` rows of one position each, over this cache, and replays them from now on. Their
    /// sums must meet on the devices. Says for how many rows there are graphs; a batch takes the smallest that holds it.
    ///
    /// # Errors
    /// [`ForwardError`]; nothing is replayed then.
    pub fn capture(
        &mut self,
        cache: &mut KvCache<B::Buffer>,
        rows: usize,
    ) -> Result<Vec<usize>, ForwardError> {
        self.forget_captured();
        let Self { captured, choices, backend, config, shard, network, .. } = self;
        let sizes: Vec<usize> = captured::sizes(rows).collect();
        let graphs = sizes.iter().map(|&rows| Captured::new(rows, backend, network, (config, *shard), cache));
        let graphs: Vec<_> = graphs.collect::<Result<_, _>>()?;
        for (graph, choice) in graphs {
            captured.push(graph);
            choices.push(choice);
        }
        Ok(sizes)
    }

    /// Replays nothing from now on.
    pub fn forget_captured(&mut self) {
        self.captured.clear();
        self.choices.truncate(1);
        self.launched = None;
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
    /// [`CacheError::Size`], [`CacheError::Backend`].
    pub fn cache(&mut self, page_size: usize, pages: usize) -> Result<KvCache<B::Buffer>, CacheError> {
        let [layers, kv_heads, head_dim] = self.cache_shape();
        self.backend.cache(CacheShape { pages, layers, page_size, kv_heads, head_dim })
    }

    /// Bytes of one page of such a cache.
    ///
    /// # Errors
    /// As [`cache`](Self::cache).
    pub fn page_bytes(&mut self, page_size: usize) -> Result<usize, CacheError> {
        Ok(self.cache(page_size, 1)?.page_bytes())
    }

    /// The backend, to be asked what it has and which communicator it is in.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The content of a page, as a cache of the same shape and backend takes it.
    ///
    /// # Errors
    /// [`CacheError`]: no such page, or the backend fails.
    pub fn read_page(&mut self, cache: &KvCache<B::Buffer>, page: u32) -> Result<Vec<u8>, CacheError> {
        self.backend.read_page(cache, page)
    }

    /// Replaces the content of a page.
    ///
    /// # Errors
    /// [`CacheError`]: no such page, bytes that are not a page, or the backend fails.
    pub fn write_page(
        &mut self,
        cache: &mut KvCache<B::Buffer>,
        page: u32,
        bytes: &[u8],
    ) -> Result<(), CacheError> {
        self.backend.write_page(cache, page, bytes)
    }

    /// Runs a batch and returns the likeliest token after each row's last position.
    ///
    /// # Errors
    /// As [`forward_drawing`](Self::forward_drawing).
    pub fn forward(
        &mut self,
        cache: &mut KvCache<B::Buffer>,
        rows: &[Row<'_>],
        group: &mut dyn AllReduce,
    ) -> Result<Vec<u32>, ForwardError> {
        self.forward_drawing(cache, rows, &[], group)
    }

    /// Runs a batch and returns the token after each row's last position: drawn where `draws` says how, else the likeliest.
    ///
    /// Every rank of the group calls this with the same rows and draws. It enters `2 * layers + 1` all-reduces over all rows
    /// together, none if there are no rows. The tokens are the same on every rank.
    ///
    /// # Errors
    /// [`ForwardError`]. `Collective` and `Backend` strike midway; the others strike on every rank alike, and all but
    /// `NotFinite` before the cache is touched.
    pub fn forward_drawing(
        &mut self,
        cache: &mut KvCache<B::Buffer>,
        rows: &[Row<'_>],
        draws: &[Option<Draw>],
        group: &mut dyn AllReduce,
    ) -> Result<Vec<u32>, ForwardError> {
        let mut flight = self.launch(cache, Step { rows, draws, ..Step::default() }, group)?;
        loop {
            if let Some(tokens) = self.land(&mut flight)? {
                return Ok(tokens);
            }
            self.backend.settle(PATIENCE)?;
        }
    }

    /// Launches a forward, of which [`land`](Self::land) gives the tokens. It returns once what enters collectives between the hosts
    /// has; where the backend [runs ahead](Backend::runs_ahead) that is nothing, and whatever is launched behind it waits on the device
    /// alone.
    ///
    /// # Errors
    /// As [`forward_drawing`](Self::forward_drawing), less `NotFinite`.
    pub fn launch(
        &mut self,
        cache: &mut KvCache<B::Buffer>,
        step: Step<'_>,
        group: &mut dyn AllReduce,
    ) -> Result<Flight<B>, ForwardError> {
        let rows = step.rows.len();
        let ran = self.run(cache, step, group)?;
        let fetch = ran.map(|ran| self.backend.tokens(&self.choices[ran.choice()])).transpose()?;
        Ok(Flight { rows, fetch })
    }

    /// The tokens after each row's last position of a forward that was launched, once it has run; `None` until then. Does not wait.
    ///
    /// # Errors
    /// [`ForwardError::NotFinite`], `Collective`, `Backend`.
    pub fn land(&mut self, flight: &mut Flight<B>) -> Result<Option<Vec<u32>>, ForwardError> {
        let Some(fetch) = &mut flight.fetch else { return Ok(Some(Vec::new())) };
        let Some(mut tokens) = self.backend.fetched(fetch)? else { return Ok(None) };
        // Of a captured forward, more than the batch has.
        tokens.truncate(flight.rows);
        match tokens.iter().position(|token| *token == NOT_FINITE) {
            Some(row) => Err(ForwardError::NotFinite { row }),
            None => Ok(Some(tokens)),
        }
    }

    /// As [`forward`](Self::forward), with the margin of each choice.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_with_margins(
        &mut self,
        cache: &mut KvCache<B::Buffer>,
        rows: &[Row<'_>],
        group: &mut dyn AllReduce,
    ) -> Result<Vec<Choice>, ForwardError> {
        let logits = self.logits(cache, rows, group)?;
        let rows = logits.chunks_exact(self.config.vocabulary).enumerate();
        rows.map(|(row, logits)| Choice::of(logits).ok_or(ForwardError::NotFinite { row })).collect()
    }

    /// As [`forward`](Self::forward), but returns the logits, `[rows, vocabulary]`, finite or not: one more sum, in which the ranks' parts
    /// of the vocabulary meet between the hosts.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), less `NotFinite`.
    pub fn logits(
        &mut self,
        cache: &mut KvCache<B::Buffer>,
        rows: &[Row<'_>],
        group: &mut dyn AllReduce,
    ) -> Result<Vec<f32>, ForwardError> {
        let step = Step { rows, ..Step::default() };
        let Some(ran) = self.run(cache, step, group)? else { return Ok(Vec::new()) };
        // What comes after this waits for no peer.
        self.backend.settle(PATIENCE)?;
        let Self { backend, captured, activations, config, shard, .. } = self;
        let part = backend.download(&ran.place(captured, activations).logits)?;
        let mut logits = vec![0.0; rows.len() * config.vocabulary];
        for (whole, part) in logits.chunks_exact_mut(config.vocabulary).zip(part.chunks_exact(shard.tokens)) {
            whole[shard.first_token..][..shard.tokens].copy_from_slice(part);
        }
        group.all_reduce_sum(&mut logits)?;
        Ok(logits)
    }

    /// Launches what computes the logits after each row's last position and what is chosen from them, and says where; `None` if there are
    /// no rows.
    fn run(
        &mut self,
        cache: &mut KvCache<B::Buffer>,
        step: Step<'_>,
        group: &mut dyn AllReduce,
    ) -> Result<Option<Ran>, ForwardError> {
        self.check_fit(cache, group)?;
        let (before, rows_before) = self.launched.unzip();
        let shape = (*cache.shape(), self.shard.heads);
        let batch = Batch::new(step, &self.config, shape, rows_before.unwrap_or(0))?;
        if step.rows.is_empty() {
            return Ok(None);
        }
        let Self { captured, choices, backend, network, activations, shard, .. } = self;
        let followed = before.map(Ran::choice).zip(batch.follows());
        let ran = match captured.iter().position(|captured| captured.fits(&batch, cache)) {
            Some(index) => {
                let captured = &mut captured[index];
                backend.refill(&mut captured.batch, &batch)?;
                if let Some((before, follows)) = followed {
                    backend.follow(&mut captured.batch, &choices[before], &follows)?;
                }
                captured.replay(backend)?;
                Ran::Replayed(index)
            }
            None => {
                let (batch, turns, shard) = (&mut backend.batch(batch)?, &network.turns, *shard);
                if let Some((before, follows)) = followed {
                    backend.follow(batch, &choices[before], &follows)?;
                }
                let choice = &mut choices[Ran::Eagerly.choice()];
                network.forward(Pass { backend, batch, cache, turns, shard, group, activations, choice })?;
                Ran::Eagerly
            }
        };
        self.launched = Some((ran, step.rows.len()));
        Ok(Some(ran))
    }

    fn check_fit(&self, cache: &KvCache<B::Buffer>, group: &dyn AllReduce) -> Result<(), ForwardError> {
        let expected = [self.shard.rank, self.shard.size];
        let found = [group.rank(), group.size()];
        if expected != found {
            return Err(ForwardError::Group { expected, found });
        }
        let CacheShape { layers, kv_heads, head_dim, .. } = *cache.shape();
        let (expected, found) = (self.cache_shape(), [layers, kv_heads, head_dim]);
        match expected == found {
            true => Ok(()),
            false => Err(ForwardError::CacheShape { expected, found }),
        }
    }

    fn cache_shape(&self) -> [usize; 3] {
        [self.config.layers, self.shard.kv_heads, self.config.head_dim]
    }
}

impl Ran {
    /// Index of where it chooses.
    fn choice(self) -> usize {
        match self {
            Self::Eagerly => 0,
            Self::Replayed(index) => index + 1,
        }
    }

    fn place<'a, B: Backend>(
        self,
        captured: &'a [Captured<B>],
        activations: &'a Activations<B>,
    ) -> &'a Activations<B> {
        match self {
            Self::Eagerly => activations,
            Self::Replayed(index) => &captured[index].activations,
        }
    }
}

/// Name of the norm in front of a layer.
fn input_norm(layer: usize) -> String {
    format!("model.layers.{layer}.input_layernorm.weight")
}
