//! The weights of the bundled model on a device, each rank's part; and the rotary turns.

use std::fmt::Debug;

use lockstep_kernels::operations::paged::CacheShape;
use lockstep_kernels::{Device, Element};
use lockstep_runtime::engine::Config;
use safetensors::SafeTensors;

/// A rank's part of the model, and its cache.
pub(crate) struct Rank<B> {
    pub(crate) layers: Vec<Layer<B>>,
    /// Its rows of the output projection.
    pub(crate) head: B,
    pub(crate) cache: B,
}

/// A layer's weights.
pub(crate) struct Layer<B> {
    pub(crate) attention_norm: B,
    pub(crate) query: B,
    pub(crate) key: B,
    pub(crate) value: B,
    pub(crate) output: B,
    pub(crate) feed_forward_norm: B,
    pub(crate) gate: B,
    pub(crate) up: B,
    pub(crate) down: B,
}

/// The bytes of bfloat16 matrices.
pub(crate) struct Checkpoint<'a>(pub(crate) SafeTensors<'a>);

impl Checkpoint<'_> {
    pub(crate) fn whole(&self, name: &str) -> Vec<u8> {
        self.0.tensor(name).unwrap().data().to_vec()
    }

    /// Part `rank` of `size` of a matrix's rows.
    fn rows(&self, name: &str, [rank, size]: [usize; 2]) -> Vec<u8> {
        let bytes = self.whole(name);
        let part = bytes.len() / size;
        bytes[rank * part..][..part].to_vec()
    }

    /// Part `rank` of `size` of a matrix's columns.
    fn columns(&self, name: &str, [rank, size]: [usize; 2]) -> Vec<u8> {
        let bytes = self.whole(name);
        let row = bytes.len() / self.0.tensor(name).unwrap().shape()[0];
        bytes
            .chunks(row)
            .flat_map(|row| &row[rank * row.len() / size..][..row.len() / size])
            .copied()
            .collect()
    }
}

impl<B> Rank<B> {
    pub(crate) fn load<D: Device<Buffer = B, Error: Debug>>(
        device: &mut D,
        checkpoint: &Checkpoint<'_>,
        config: &Config,
        (cache, shape): (Element, CacheShape),
        part: [usize; 2],
    ) -> Self {
        let layers = (0..config.layers).map(|index| Layer::load(device, checkpoint, index, part)).collect();
        assert!(config.tied_embeddings, "the bundled model's output projection is its embedding");
        let head = checkpoint.rows("model.embed_tokens.weight", part);
        // All ones is NaN in every type: what was never written must show.
        let unwritten = vec![0xFF; usize::try_from(shape.elements() * cache.bytes()).unwrap()];
        Self {
            layers,
            head: device.upload_bytes(Element::Bf16, &head).unwrap(),
            cache: device.upload_bytes(cache, &unwritten).unwrap(),
        }
    }
}

impl<B> Layer<B> {
    fn load<D: Device<Buffer = B, Error: Debug>>(
        device: &mut D,
        checkpoint: &Checkpoint<'_>,
        index: usize,
        part: [usize; 2],
    ) -> Self {
        let name = |name| format!("model.layers.{index}.{name}.weight");
        let mut upload = |bytes: Vec<u8>| device.upload_bytes(Element::Bf16, &bytes).unwrap();
        Self {
            attention_norm: upload(checkpoint.whole(&name("input_layernorm"))),
            query: upload(checkpoint.rows(&name("self_attn.q_proj"), part)),
            key: upload(checkpoint.rows(&name("self_attn.k_proj"), part)),
            value: upload(checkpoint.rows(&name("self_attn.v_proj"), part)),
            output: upload(checkpoint.columns(&name("self_attn.o_proj"), part)),
            feed_forward_norm: upload(checkpoint.whole(&name("post_attention_layernorm"))),
            gate: upload(checkpoint.rows(&name("mlp.gate_proj"), part)),
            up: upload(checkpoint.rows(&name("mlp.up_proj"), part)),
            down: upload(checkpoint.columns(&name("mlp.down_proj"), part)),
        }
    }
}

/// Cosine and sine of every position and pair, by the CPU engine's formula.
pub(crate) fn turns(config: &Config) -> Vec<f32> {
    let frequency = |pair: usize| 1.0 / config.rope_theta.powf(2.0 * pair as f32 / config.head_dim as f32);
    let turn = |position: usize, pair: usize| {
        let (sine, cosine) = (position as f32 * frequency(pair)).sin_cos();
        [cosine, sine]
    };
    (0..config.context)
        .flat_map(|position| (0..config.head_dim / 2).flat_map(move |pair| turn(position, pair)))
        .collect()
}
