//! The device backend, with the CUDA kernels' own sources run by the CPU: the CPU backend's tokens, and nearly its logits.
//!
//! This is the check of the kernels' shapes and conventions together: rotary pairs, grouped heads, pages, shards.

use std::path::Path;
use std::sync::OnceLock;

use lockstep_kernels::cpu::{Compiler, Cpu, CpuBuffer, Program, Sanitizers, Source};
use lockstep_runtime::engine::{Alone, CacheType, DeviceBackend, ForwardError, KvCache, Llama, Row};

use crate::common::{
    Mesh, PAGE_SIZE, PAGES, Request, check_draws, check_follows, goldens, model_directory, on_every_rank_of,
    requests, rows, step,
};

type OnDevice = Llama<DeviceBackend<Cpu>>;
type Cache = KvCache<CpuBuffer>;

/// What other orders of sums may change in a logit; logits of this model reach about 20.
const TOLERANCE: f32 = 2e-4;
/// What keys and values in bfloat16 may change.
const ROUNDED_TOLERANCE: f32 = 0.2;

/// A backend over a process that runs the kernels.
pub(crate) fn backend(cache: CacheType) -> DeviceBackend<Cpu> {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let compiler = Compiler::new(Path::new(env!("CARGO_TARGET_TMPDIR")), Sanitizers::Off);
        compiler.compile(&Source::all().unwrap()).unwrap()
    });
    DeviceBackend::new(program.start().unwrap(), cache)
}

fn load(cache: CacheType) -> OnDevice {
    Llama::load_on(backend(cache), &model_directory(), 0, 1).unwrap()
}

/// Runs `work` on the device of every rank of a group.
fn on_devices<T: Send>(size: usize, work: impl Fn(&mut OnDevice, &mut Mesh) -> T + Sync) -> Vec<T> {
    on_every_rank_of(size, || backend(CacheType::F32), work)
}

/// The largest difference of the prompts' logits, computed on the device and by the CPU.
fn largest_difference(device: &mut OnDevice, mesh: &mut Mesh) -> f32 {
    let mut cpu = Llama::load(&model_directory(), 0, 1).unwrap();
    let mut cpu_cache = cpu.cache(PAGE_SIZE, PAGES as usize).unwrap();
    let mut cache = device.cache(PAGE_SIZE, PAGES as usize).unwrap();
    let expected = cpu.logits(&mut cpu_cache, &rows(&requests()), &mut Alone).unwrap();
    let found = device.logits(&mut cache, &rows(&requests()), mesh).unwrap();
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max)
}

#[test]
fn device_gives_the_cpus_logits() {
    for largest in on_devices(2, largest_difference) {
        assert!(largest < TOLERANCE, "a logit differs by {largest}");
    }
}

#[test]
fn device_with_a_cache_of_bfloat16_stays_close_to_the_cpus_logits() {
    let differences = on_every_rank_of(1, || backend(CacheType::Bf16), largest_difference);
    assert!(differences[0] > TOLERANCE, "a rounded cache cannot be this close: {differences:?}");
    assert!(differences[0] < ROUNDED_TOLERANCE, "a logit differs by {differences:?}");
}

/// Prompts in two chunks, then their pages to other pages of another cache, then decode: the reference's tokens.
fn check_tokens(size: usize) {
    let answers = on_devices(size, |llama, mesh| {
        let mut source = llama.cache(PAGE_SIZE, PAGES as usize).unwrap();
        let mut requests = requests();
        let first: Vec<_> =
            rows(&requests).iter().map(|row| Row { tokens: &row.tokens[..2], ..*row }).collect();
        llama.forward(&mut source, &first, mesh).unwrap();
        requests.iter_mut().for_each(|request| request.done = 2);
        step(llama, &mut source, &mut requests, mesh);
        let mut target = llama.cache(PAGE_SIZE, PAGES as usize + 1).unwrap();
        requests.iter_mut().for_each(|request| move_pages(llama, &source, &mut target, request));
        drop(source);
        let second = llama.forward(&mut target, &rows(&requests), mesh).unwrap();
        requests.iter().map(|request| *request.tokens.last().unwrap()).zip(second).collect::<Vec<_>>()
    });
    for (golden, (first, second)) in answers.iter().flat_map(|of_rank| goldens().into_iter().zip(of_rank)) {
        assert_eq!(
            [*first, *second],
            golden.greedy_ids[..2],
            "prompt {:?} in a group of {size}",
            golden.prompt
        );
    }
}

/// Moves what is known of a request to the next pages of another cache.
fn move_pages(llama: &mut OnDevice, source: &Cache, target: &mut Cache, request: &mut Request) {
    let written = request.done.div_ceil(PAGE_SIZE);
    for page in &request.pages[..written] {
        let bytes = llama.read_page(source, *page).unwrap();
        assert_eq!(bytes.len(), source.page_bytes());
        llama.write_page(target, page + 1, &bytes).unwrap();
    }
    request.pages.iter_mut().for_each(|page| *page += 1);
}

#[test]
fn device_chooses_the_reference_tokens_alone() {
    check_tokens(1);
}

#[test]
fn device_chooses_the_reference_tokens_in_a_group_of_two() {
    check_tokens(2);
}

#[test]
fn device_chooses_the_reference_tokens_in_a_group_of_three() {
    check_tokens(3);
}

#[test]
fn device_chooses_the_reference_tokens_in_a_group_of_four() {
    check_tokens(4);
}

#[test]
fn device_goes_on_from_pages_that_the_cpu_wrote() {
    let golden = goldens().swap_remove(0);
    let mut cpu = Llama::load(&model_directory(), 0, 1).unwrap();
    let mut cpu_cache = cpu.cache(PAGE_SIZE, 4).unwrap();
    let mut requests = [Request::new(&golden.prompt_ids, vec![3, 0, 2, 1])];
    step(&mut cpu, &mut cpu_cache, &mut requests, &mut Alone);
    let mut device = load(CacheType::F32);
    let mut cache = device.cache(PAGE_SIZE, 4).unwrap();
    for page in 0..4 {
        let bytes = cpu.read_page(&cpu_cache, page).unwrap();
        device.write_page(&mut cache, page, &bytes).unwrap();
    }
    step(&mut device, &mut cache, &mut requests, &mut Alone);
    assert_eq!(requests[0].tokens[golden.prompt_ids.len()..], golden.greedy_ids[..2]);
}

/// The noise is computed twice, by the kernel and by the CPU backend; one row beside another that is not drawn.
#[test]
fn device_draws_the_tokens_that_the_cpu_draws() {
    for size in [1, 3] {
        on_devices(size, check_draws);
    }
}

#[test]
fn device_rows_go_on_from_what_the_forward_before_chose() {
    for size in [1, 3] {
        on_devices(size, check_follows);
    }
}

#[test]
fn device_refuses_what_the_cpu_refuses() {
    let mut device = load(CacheType::F32);
    let mut cache = device.cache(PAGE_SIZE, PAGES as usize).unwrap();
    let written = Row { tokens: &[7, 8], start: 0, pages: &[1] };
    let gap = Row { tokens: &[5, 6], start: 2, pages: &[0] };
    let error = device.forward(&mut cache, &[written, gap], &mut Alone).unwrap_err();
    assert!(matches!(error, ForwardError::NotFinite { row: 1 }), "{error}");
    assert!(device.read_page(&cache, PAGES).unwrap_err().to_string().contains("pages 0..8"));
    assert!(device.write_page(&mut cache, 0, &[0; 4]).unwrap_err().to_string().contains("not 4"));
    assert!(device.cache(0, 1).unwrap_err().to_string().contains("at least 1"));
}
