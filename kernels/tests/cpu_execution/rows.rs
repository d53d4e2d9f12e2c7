//! Gathers, norms and gates against references in double precision.

use lockstep_kernels::cpu::{Cpu, CpuBuffer};
use lockstep_kernels::operations::rows::{AddRmsNorm, GatherRows, RmsNorm, SiluMul};
use lockstep_kernels::{Buffer, Device, Element};

use crate::common::{
    ORDERS, SEEDS, WEIGHTS, bits, cpu, download, floats, in_every_order, junk, pairs, upload,
};
use crate::numbers::{Random, assert_close, bfloat_value, half_value};

const EPSILON: f32 = 1e-5;
/// The error of a sum in single precision at the widths below.
const TOLERANCE: f64 = 4e-6;
/// Widths of rows, at the edges of a warp and of a block (256), and beyond.
const WIDTHS: [usize; 9] = [1, 2, 31, 32, 33, 255, 256, 257, 1000];

fn size(of: usize) -> u32 {
    u32::try_from(of).expect("small")
}

fn gather(cpu: &mut Cpu, table: &CpuBuffer, indices: &[u32], width: u32) -> Vec<f32> {
    let entries = u32::try_from(table.len()).expect("a small table") / width;
    let mut output = junk(cpu, indices.len() * width as usize);
    let indices = upload(cpu, indices);
    cpu.run(GatherRows { output: &mut output, table, indices: &indices, entries, width }).expect("a launch");
    download(cpu, &output)
}

#[test]
fn gather_gives_the_listed_rows_of_every_type() {
    let mut cpu = cpu();
    for (((entries, rows), width), (element, seed)) in
        pairs(pairs([(1, 1), (7, 4), (3, 40)], WIDTHS), pairs(WEIGHTS, SEEDS))
    {
        let mut random = Random(seed);
        let content = random.exact(entries * width, element);
        let table = floats(&mut cpu, element, &content);
        let indices: Vec<u32> = (0..rows).map(|_| random.below(size(entries))).collect();
        let case = format!("{rows} rows of {entries}, {element}, width {width}, seed {seed}");
        let found = in_every_order(&mut cpu, &case, |cpu| gather(cpu, &table, &indices, size(width)));
        let row = |&row: &u32| content[row as usize * width..][..width].iter().copied();
        assert_eq!(found, indices.iter().flat_map(row).collect::<Vec<_>>(), "{case}");
    }
}

#[test]
fn gather_beyond_the_table_is_nan() {
    let mut cpu = cpu();
    for (element, width) in pairs(WEIGHTS, WIDTHS) {
        let table = floats(&mut cpu, element, &vec![1.0; 3 * width]);
        let case = format!("{element}, width {width}");
        let indices = [2, 3, u32::MAX];
        let found = in_every_order(&mut cpu, &case, |cpu| gather(cpu, &table, &indices, size(width)));
        let (within, beyond) = found.split_at(width);
        assert!(within.iter().all(|value| *value == 1.0), "{case}: {within:?}");
        assert!(beyond.iter().all(|value| value.is_nan()), "{case}: {beyond:?}");
    }
}

/// All 65,536 numbers of a type, widened by the kernel.
fn widened(element: Element) -> Vec<f32> {
    let mut cpu = cpu();
    let numbers: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let table = cpu.upload_bytes(element, &numbers).expect("whole elements");
    gather(&mut cpu, &table, &[0, 1, 2, 3], 1 << 14)
}

#[test]
fn widening_is_exact_for_every_half() {
    for (number, found) in (0..=u16::MAX).zip(widened(Element::F16)) {
        let expected = half_value(number);
        let same = f64::from(found) == expected && found.is_sign_negative() == expected.is_sign_negative();
        assert!(same || found.is_nan() && expected.is_nan(), "{number:#06x}: {found}, not {expected}");
    }
}

#[test]
fn widening_is_exact_for_every_bfloat() {
    for (number, found) in (0..=u16::MAX).zip(widened(Element::Bf16)) {
        assert_eq!(found.to_bits(), bfloat_value(number).to_bits(), "{number:#06x}");
    }
}

fn expected_norm(input: &[f32], weight: &[f32]) -> Vec<f64> {
    let row = |row: &[f32]| {
        let squares: f64 = row.iter().map(|&value| f64::from(value).powi(2)).sum();
        let scale = 1.0 / (squares / row.len() as f64 + f64::from(EPSILON)).sqrt();
        let scaled =
            row.iter().zip(weight).map(|(&value, &weight)| f64::from(value) * scale * f64::from(weight));
        scaled.collect::<Vec<_>>()
    };
    input.chunks(weight.len()).flat_map(row).collect()
}

fn rmsnorm(cpu: &mut Cpu, element: Element, input: &[f32], weight: &[f32]) -> Vec<f32> {
    let (rows, width) = (size(input.len() / weight.len()), size(weight.len()));
    let mut output = junk(cpu, input.len());
    let (input, weight) = (upload(cpu, input), floats(cpu, element, weight));
    let operation =
        RmsNorm { output: &mut output, input: &input, weight: &weight, rows, width, epsilon: EPSILON };
    cpu.run(operation).expect("a launch");
    download(cpu, &output)
}

#[test]
fn rmsnorm_normalises_rows_in_any_thread_order() {
    let mut cpu = cpu();
    for ((rows, width), (element, seed)) in pairs(pairs([1, 3], WIDTHS), pairs(WEIGHTS, SEEDS)) {
        let mut random = Random(seed);
        let input = random.floats(rows * width);
        let weight = random.exact(width, element);
        let case = format!("{rows} rows, width {width}, {element}, seed {seed}");
        let found = in_every_order(&mut cpu, &case, |cpu| rmsnorm(cpu, element, &input, &weight));
        assert_close(&found, &expected_norm(&input, &weight), TOLERANCE, &case);
    }
}

#[test]
fn rmsnorm_gives_a_row_the_same_bits_in_any_company_and_thread_order() {
    let mut cpu = cpu();
    for (width, seed) in pairs(WIDTHS, SEEDS) {
        let mut random = Random(seed);
        let (input, weight) = (random.floats(4 * width), random.floats(width));
        cpu.order_threads(ORDERS.start);
        let together = rmsnorm(&mut cpu, Element::F32, &input, &weight);
        for row in 0..4 {
            let case = format!("row {row}, width {width}, seed {seed}");
            let own = &input[row * width..][..width];
            let alone = in_every_order(&mut cpu, &case, |cpu| rmsnorm(cpu, Element::F32, own, &weight));
            assert_eq!(bits(&alone), bits(&together[row * width..][..width]), "{case}");
        }
    }
}

#[test]
fn rmsnorm_of_a_zero_row_is_zero() {
    assert_eq!(rmsnorm(&mut cpu(), Element::F32, &[0.0; 400], &[1.0; 200]), [0.0; 400]);
}

/// What [`AddRmsNorm`] leaves: in `hidden`, then in `output`.
fn add_rmsnorm(cpu: &mut Cpu, element: Element, [hidden, summand]: [&[f32]; 2], weight: &[f32]) -> Vec<f32> {
    let (rows, width) = (size(hidden.len() / weight.len()), size(weight.len()));
    let mut output = junk(cpu, hidden.len());
    let (mut hidden, summand) = (upload(cpu, hidden), upload(cpu, summand));
    let weight = floats(cpu, element, weight);
    let (output_buffer, hidden_buffer) = (&mut output, &mut hidden);
    let operation = AddRmsNorm {
        output: output_buffer,
        hidden: hidden_buffer,
        summand: &summand,
        weight: &weight,
        rows,
        width,
        epsilon: EPSILON,
    };
    cpu.run(operation).expect("a launch");
    [download(cpu, &hidden), download(cpu, &output)].concat()
}

#[test]
fn add_rmsnorm_is_the_norm_of_the_sum_and_keeps_the_sum() {
    let mut cpu = cpu();
    for ((rows, width), (element, seed)) in pairs(pairs([1, 3], WIDTHS), pairs(WEIGHTS, SEEDS)) {
        let mut random = Random(seed);
        let [hidden, summand] = [(); 2].map(|()| random.floats(rows * width));
        let weight = random.exact(width, element);
        let case = format!("{rows} rows, width {width}, {element}, seed {seed}");
        let found =
            in_every_order(&mut cpu, &case, |cpu| add_rmsnorm(cpu, element, [&hidden, &summand], &weight));
        let (kept, output) = found.split_at(rows * width);
        let sum: Vec<f32> = hidden.iter().zip(&summand).map(|(hidden, summand)| hidden + summand).collect();
        assert_eq!(bits(kept), bits(&sum), "{case}");
        assert_close(output, &expected_norm(&sum, &weight), TOLERANCE, &case);
        assert_eq!(bits(output), bits(&rmsnorm(&mut cpu, element, &sum, &weight)), "{case}: rmsnorm's bits");
    }
}

fn silu_mul(cpu: &mut Cpu, gate: &[f32], up: &[f32]) -> Vec<f32> {
    let mut output = junk(cpu, gate.len());
    let (gates, ups) = (upload(cpu, gate), upload(cpu, up));
    let operation = SiluMul { output: &mut output, gate: &gates, up: &ups, count: size(gate.len()) };
    cpu.run(operation).expect("a launch");
    download(cpu, &output)
}

#[test]
fn silu_mul_gates_every_element() {
    let mut cpu = cpu();
    for (count, seed) in pairs(WIDTHS, SEEDS) {
        let mut random = Random(seed);
        let gate: Vec<f32> = random.floats(count).iter().map(|value| value * 20.0).collect();
        let up = random.floats(count);
        let case = format!("{count} elements, seed {seed}");
        let found = in_every_order(&mut cpu, &case, |cpu| silu_mul(cpu, &gate, &up));
        let expected: Vec<f64> = gate
            .iter()
            .zip(&up)
            .map(|(&gate, &up)| f64::from(gate) / (1.0 + (-f64::from(gate)).exp()) * f64::from(up))
            .collect();
        assert_close(&found, &expected, TOLERANCE, &case);
    }
}
