//! The engine's forwards on a device: launched one by one, replayed from graphs, and computed by the CPU.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use lockstep_kernels::cuda::Cuda;
use lockstep_runtime::engine::{
    Alone, Backend, CacheType, Choice, CpuBackend, DeviceBackend, KvCache, Llama, Row,
};
use lockstep_tests::golden::goldens_of;
use serde_json::{Value, json};

pub(crate) const PAGE_SIZE: usize = 4;
/// Pages of a row.
pub(crate) const PAGES: usize = 16;
/// Rows of the decode forwards, one after another: of a size that is captured, and of one that is filled up.
const BATCHES: [usize; 5] = [3, 2, 3, 1, 2];
/// The largest size that is captured.
const SLOTS: u32 = 4;

/// What came of the same prompts: tokens and logits of each forward, and the time of a decode forward.
struct Played {
    tokens: Vec<u32>,
    bits: Vec<u32>,
    micros: u128,
}

/// Plays the prompts of the model's reference answers in each of the three ways, and compares.
pub(crate) fn run(device: usize, directory: &Path) -> Result<Value, Box<dyn Error>> {
    let mut cpu = Llama::load_on(CpuBackend::default(), directory, 0, 1)?;
    let mut cache = cache(&mut cpu)?;
    let expected = play(&mut cpu, &mut cache, directory)?;
    let backend = DeviceBackend::new(Cuda::open(device)?, CacheType::F32);
    let mut llama = Llama::load_on(backend, directory, 0, 1)?;
    let mut first = self::cache(&mut llama)?;
    let eager = play(&mut llama, &mut first, directory)?;
    let mut second = self::cache(&mut llama)?;
    let captured = llama.capture(&mut second, SLOTS as usize)?;
    let replayed = play(&mut llama, &mut second, directory)?;
    let other_cache = play(&mut llama, &mut first, directory)?;
    let tokens_equal = [&eager, &replayed].map(|played| played.tokens == expected.tokens);
    let bits_equal = [&replayed, &other_cache].map(|played| played.bits == eager.bits);
    Ok(json!({
        "captured": captured,
        "tokens": eager.tokens,
        "tokens_equal": tokens_equal,
        "bits_equal": bits_equal,
        "micros_eager": eager.micros,
        "micros_replayed": replayed.micros,
    }))
}

fn cache<B: Backend>(llama: &mut Llama<B>) -> Result<KvCache<B::Buffer>, Box<dyn Error>> {
    Ok(llama.cache(PAGE_SIZE, SLOTS as usize * PAGES)?)
}

/// Prompts in one forward, and then a token a forward.
fn play<B: Backend>(
    llama: &mut Llama<B>,
    cache: &mut KvCache<B::Buffer>,
    directory: &Path,
) -> Result<Played, Box<dyn Error>> {
    let mut rows: Vec<Vec<u32>> = goldens_of(directory).into_iter().map(|golden| golden.prompt_ids).collect();
    let mut done = vec![0; rows.len()];
    let mut played = Played { tokens: Vec::new(), bits: Vec::new(), micros: 0 };
    for (step, count) in [BATCHES[0]].into_iter().chain(BATCHES).enumerate() {
        let logits = step_of(llama, cache, &rows[..count], &done)?;
        played.micros += if step == 0 { 0 } else { logits.1 / BATCHES.len() as u128 };
        played.bits.extend(logits.0.iter().map(|logit| logit.to_bits()));
        for (row, logits) in logits.0.chunks_exact(llama.config().vocabulary).enumerate() {
            let token = Choice::of(logits).ok_or("a logit is not finite")?.token;
            done[row] = rows[row].len();
            rows[row].push(token);
            played.tokens.push(token);
        }
    }
    Ok(played)
}

/// The logits of one forward, and the microseconds that it took.
fn step_of<B: Backend>(
    llama: &mut Llama<B>,
    cache: &mut KvCache<B::Buffer>,
    tokens: &[Vec<u32>],
    done: &[usize],
) -> Result<(Vec<f32>, u128), Box<dyn Error>> {
    let pages: Vec<Vec<u32>> = (0..)
        .take(tokens.len())
        .map(|row| (0..).take(PAGES).map(|page| page * SLOTS + row).collect())
        .collect();
    let rows: Vec<Row<'_>> = (0..tokens.len())
        .map(|row| Row { tokens: &tokens[row][done[row]..], start: done[row], pages: &pages[row] })
        .collect();
    let started = Instant::now();
    let logits = llama.logits(cache, &rows, &mut Alone)?;
    Ok((logits, started.elapsed().as_micros()))
}
