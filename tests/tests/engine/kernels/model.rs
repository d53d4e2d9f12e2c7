//! The forward pass of `lockstep_runtime::engine::llama`, step by step, as operations of a device.
//!
//! All ranks of the group live on one device and take turns; what they would reduce over the network is summed here, in
//! rank order. Read [`Model::forward`] first.

use std::fmt::Debug;
use std::fs;
use std::path::Path;

use lockstep_kernels::operations::attention::{Attention, tile_limit, tiles};
use lockstep_kernels::operations::choice::{Argmax, ChosenTokens, VoteMin};
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::operations::paged::{CacheShape, Places, RopeAppend};
use lockstep_kernels::operations::rows::{AddRmsNorm, GatherRows, RmsNorm, SiluMul};
use lockstep_kernels::{Device, Element};
use lockstep_runtime::engine::{Config, Row};
use safetensors::SafeTensors;

use super::weights::{Checkpoint, Rank, turns};

/// A model on a device, of all ranks.
pub(crate) struct Model<D: Device> {
    device: D,
    config: Config,
    embedding: D::Buffer,
    norm: D::Buffer,
    /// `[context, head_dim / 2, 2]`.
    turns: D::Buffer,
    shape: CacheShape,
    ranks: Vec<Rank<D::Buffer>>,
}

/// A batch on the device.
struct Batch<B> {
    count: u32,
    rows: B,
    positions: B,
    pages: B,
    batch_rows: u32,
    list_length: u32,
    tiles: B,
}

/// What a forward pass gives for each row.
pub(crate) struct Outcome {
    /// `[rows, vocabulary]`.
    pub(crate) logits: Vec<f32>,
    pub(crate) tokens: Vec<u32>,
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap()
}

impl<D: Device<Error: Debug>> Model<D> {
    /// Loads every part of a group of `size`, with caches of `[page_size, pages]`.
    pub(crate) fn load(
        mut device: D,
        directory: &Path,
        cache: Element,
        [page_size, pages]: [u32; 2],
        size: usize,
    ) -> Self {
        let config = Config::load(directory).unwrap();
        let bytes = fs::read(directory.join("model.safetensors")).unwrap();
        let checkpoint = Checkpoint(SafeTensors::deserialize(&bytes).unwrap());
        let shape = CacheShape {
            pages,
            layers: small(config.layers),
            page_size,
            kv_heads: small(config.kv_heads / size),
            head_dim: small(config.head_dim),
        };
        let parts = (0..size).map(|rank| [rank, size]);
        let ranks =
            parts.map(|part| Rank::load(&mut device, &checkpoint, &config, (cache, shape), part)).collect();
        let mut weight = |name| device.upload_bytes(Element::Bf16, &checkpoint.whole(name)).unwrap();
        let (embedding, norm) = (weight("model.embed_tokens.weight"), weight("model.norm.weight"));
        let turns = device.upload(&turns(&config)).unwrap();
        Self { device, embedding, norm, turns, shape, ranks, config }
    }

    /// Runs a batch; the cache is written as the CPU engine's is.
    pub(crate) fn forward(&mut self, rows: &[Row<'_>]) -> Outcome {
        let batch = self.batch(rows);
        let mut hidden = self.embed(rows);
        let mut summand: Option<D::Buffer> = None;
        for layer in 0..self.config.layers {
            let normed = self.norm(&mut hidden, summand.take(), Norm::Attention(layer), batch.count);
            let attended = self.over_ranks(|model, rank| model.attention(rank, layer, &normed, &batch));
            let normed = self.norm(&mut hidden, Some(attended), Norm::FeedForward(layer), batch.count);
            summand =
                Some(self.over_ranks(|model, rank| model.feed_forward(rank, layer, &normed, batch.count)));
        }
        let normed = self.norm(&mut hidden, summand, Norm::Last, batch.count);
        self.choose(&normed, rows)
    }

    fn batch(&mut self, rows: &[Row<'_>]) -> Batch<D::Buffer> {
        let lengths: Vec<u32> = rows.iter().map(|row| small(row.tokens.len())).collect();
        let places = || {
            (0..)
                .zip(rows)
                .flat_map(|(number, row)| (0..row.tokens.len()).map(move |at| (number, row.start + at)))
        };
        let list_length = rows.iter().map(|row| row.pages.len()).max().unwrap();
        let padding = std::iter::repeat(&u32::MAX);
        let pages: Vec<u32> = rows
            .iter()
            .flat_map(|row| row.pages.iter().chain(padding.clone()).take(list_length))
            .copied()
            .collect();
        let limit = self.tile_limit();
        let mut upload = |numbers: &[u32]| self.device.upload(numbers).unwrap();
        Batch {
            count: lengths.iter().sum(),
            rows: upload(&places().map(|(row, _)| row).collect::<Vec<_>>()),
            positions: upload(&places().map(|(_, position)| small(position)).collect::<Vec<_>>()),
            pages: upload(&pages),
            batch_rows: small(rows.len()),
            list_length: small(list_length),
            tiles: upload(&tiles(&lengths, limit)),
        }
    }

    fn tile_limit(&self) -> u32 {
        tile_limit(small(self.heads()), self.shape.kv_heads, self.shape.head_dim)
    }

    fn heads(&self) -> usize {
        self.config.heads / self.ranks.len()
    }

    fn empty(&mut self, elements: usize) -> D::Buffer {
        self.device.upload(&vec![f32::NAN; elements]).unwrap()
    }

    fn embed(&mut self, rows: &[Row<'_>]) -> D::Buffer {
        let tokens: Vec<u32> = rows.iter().flat_map(|row| row.tokens).copied().collect();
        let mut output = self.empty(tokens.len() * self.config.hidden);
        let indices = self.device.upload(&tokens).unwrap();
        let gather = GatherRows {
            output: &mut output,
            table: &self.embedding,
            indices: &indices,
            entries: small(self.config.vocabulary),
            width: small(self.config.hidden),
        };
        self.device.run(gather).unwrap();
        output
    }

    /// Adds what the last layer's half gave, and normalises for the next.
    fn norm(
        &mut self,
        hidden: &mut D::Buffer,
        summand: Option<D::Buffer>,
        norm: Norm,
        rows: u32,
    ) -> D::Buffer {
        let (width, epsilon) = (small(self.config.hidden), self.config.norm_epsilon);
        let mut output = self.empty((rows * width) as usize);
        let layers = &self.ranks[0].layers;
        let weight = match norm {
            Norm::Attention(layer) => &layers[layer].attention_norm,
            Norm::FeedForward(layer) => &layers[layer].feed_forward_norm,
            Norm::Last => &self.norm,
        };
        let output_buffer = &mut output;
        match summand {
            Some(summand) => self.device.run(AddRmsNorm {
                output: output_buffer,
                hidden,
                summand: &summand,
                weight,
                rows,
                width,
                epsilon,
            }),
            None => self.device.run(RmsNorm {
                output: output_buffer,
                input: hidden,
                weight,
                rows,
                width,
                epsilon,
            }),
        }
        .unwrap();
        output
    }

    /// Every rank's summand, added up in rank order: the all-reduce.
    fn over_ranks(&mut self, summand: impl Fn(&mut Self, usize) -> D::Buffer) -> D::Buffer {
        let mut sum: Option<Vec<f32>> = None;
        for rank in 0..self.ranks.len() {
            let buffer = summand(self, rank);
            let part: Vec<f32> = self.device.download(&buffer).unwrap();
            sum = Some(match sum {
                Some(sum) => sum.iter().zip(&part).map(|(sum, part)| sum + part).collect(),
                None => part,
            });
        }
        self.device.upload(&sum.unwrap()).unwrap()
    }

    fn attention(
        &mut self,
        rank: usize,
        layer: usize,
        input: &D::Buffer,
        batch: &Batch<D::Buffer>,
    ) -> D::Buffer {
        let (heads, tile_limit) = (small(self.heads()), self.tile_limit());
        let (hidden, width) = (small(self.config.hidden), heads * self.shape.head_dim);
        let kv_width = self.shape.kv_heads * self.shape.head_dim;
        let Self { device, shape, turns, .. } = self;
        let Rank { layers, cache, .. } = &mut self.ranks[rank];
        let weights = &layers[layer];
        let mut queries = linear(device, input, &weights.query, [batch.count, width, hidden]);
        let keys = linear(device, input, &weights.key, [batch.count, kv_width, hidden]);
        let values = linear(device, input, &weights.value, [batch.count, kv_width, hidden]);
        let (shape, layer, places) = (*shape, small(layer), batch.places());
        let append = RopeAppend {
            queries: &mut queries,
            cache,
            keys: &keys,
            values: &values,
            turns,
            places,
            shape,
            heads,
            layer,
            context: small(self.config.context),
        };
        device.run(append).unwrap();
        let mut attended = device.upload(&vec![f32::NAN; (batch.count * width) as usize]).unwrap();
        let attention = Attention {
            output: &mut attended,
            queries: &queries,
            cache,
            places,
            tiles: &batch.tiles,
            tile_limit,
            shape,
            heads,
            layer,
        };
        device.run(attention).unwrap();
        linear(device, &attended, &weights.output, [batch.count, hidden, width])
    }

    fn feed_forward(&mut self, rank: usize, layer: usize, input: &D::Buffer, rows: u32) -> D::Buffer {
        let hidden = small(self.config.hidden);
        let width = small(self.config.feed_forward / self.ranks.len());
        let (device, weights) = (&mut self.device, &self.ranks[rank].layers[layer]);
        let gate = linear(device, input, &weights.gate, [rows, width, hidden]);
        let up = linear(device, input, &weights.up, [rows, width, hidden]);
        let mut gated = device.upload(&vec![f32::NAN; (rows * width) as usize]).unwrap();
        let count = rows * width;
        device.run(SiluMul { output: &mut gated, gate: &gate, up: &up, count }).unwrap();
        linear(device, &gated, &weights.down, [rows, hidden, width])
    }

    /// Logits of the rows' last positions, each rank its part of the vocabulary, and the tokens that its bids win.
    fn choose(&mut self, normed: &D::Buffer, rows: &[Row<'_>]) -> Outcome {
        let (hidden, count) = (small(self.config.hidden), small(rows.len()));
        let part = small(self.config.vocabulary / self.ranks.len());
        let last = self.last_positions(normed, rows);
        let (mut parts, mut bids): (Vec<Vec<f32>>, Vec<u64>) = (Vec::new(), Vec::new());
        let device = &mut self.device;
        for (rank, first_token) in self.ranks.iter().zip((0..).step_by(part as usize)) {
            let logits = linear(device, &last, &rank.head, [count, part, hidden]);
            let mut own = device.upload(&vec![0_u64; rows.len()]).unwrap();
            let bid = Argmax { bids: &mut own, logits: &logits, rows: count, width: part, first_token };
            device.run(bid).unwrap();
            parts.push(device.download(&logits).unwrap());
            bids.extend(device.download::<u64>(&own).unwrap());
        }
        let row =
            |row: usize| parts.iter().flat_map(move |logits| &logits[row * part as usize..][..part as usize]);
        Outcome {
            logits: (0..rows.len()).flat_map(row).copied().collect(),
            tokens: combine(device, &bids, small(self.ranks.len())),
        }
    }

    fn last_positions(&mut self, normed: &D::Buffer, rows: &[Row<'_>]) -> D::Buffer {
        let ends = rows.iter().scan(0, |end, row| {
            *end += small(row.tokens.len());
            Some(*end - 1)
        });
        let ends: Vec<u32> = ends.collect();
        let entries = ends.last().unwrap() + 1;
        let mut output = self.empty(rows.len() * self.config.hidden);
        let indices = self.device.upload(&ends).unwrap();
        let width = small(self.config.hidden);
        let gather = GatherRows { output: &mut output, table: normed, indices: &indices, entries, width };
        self.device.run(gather).unwrap();
        output
    }
}

/// Which normalisation of the model.
#[derive(Clone, Copy)]
enum Norm {
    Attention(usize),
    FeedForward(usize),
    Last,
}

impl<B> Batch<B> {
    fn places(&self) -> Places<'_, B> {
        Places {
            rows: &self.rows,
            positions: &self.positions,
            pages: &self.pages,
            batch_rows: self.batch_rows,
            list_length: self.list_length,
        }
    }
}

fn linear<D: Device<Error: Debug>>(
    device: &mut D,
    input: &D::Buffer,
    weight: &D::Buffer,
    [rows, outputs, inputs]: [u32; 3],
) -> D::Buffer {
    let mut output = device.upload(&vec![f32::NAN; (rows * outputs) as usize]).unwrap();
    device.run(Matmul { output: &mut output, input, weight, rows, outputs, inputs }).unwrap();
    output
}

/// The tokens that the ranks' bids, `[ranks, rows]`, stand for together.
fn combine<D: Device<Error: Debug>>(device: &mut D, bids: &[u64], ranks: u32) -> Vec<u32> {
    let rows = small(bids.len()) / ranks;
    let (bids, mut best) =
        (device.upload(bids).unwrap(), device.upload(&vec![0_u64; rows as usize]).unwrap());
    device.run(VoteMin { output: &mut best, votes: &bids, ranks, width: rows }).unwrap();
    let mut tokens = device.upload(&vec![0_u32; rows as usize]).unwrap();
    device.run(ChosenTokens { tokens: &mut tokens, bids: &best, rows }).unwrap();
    device.download(&tokens).unwrap()
}
