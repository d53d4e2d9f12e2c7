//! Linear maps against sums in double precision; and that company changes no bit.

use lockstep_kernels::cpu::Cpu;
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::{Device, Element};

use crate::common::{SEEDS, WEIGHTS, bits, cpu, download, floats, in_every_order, junk, pairs, upload};
use crate::numbers::{Random, assert_close};

/// The error of a sum of up to 600 products of numbers below 1.
const TOLERANCE: f64 = 2e-5;

/// Rows, outputs and inputs: one and several tiles, whole and ragged, one and several chunks of inputs; of `gemv` first.
const SHAPES: [[u32; 3]; 15] = [
    [1, 1, 1],
    [1, 16, 32],
    [1, 17, 600],
    [1, 15, 255],
    [1, 32, 256],
    [1, 33, 257],
    [2, 1, 1],
    [2, 3, 31],
    [7, 33, 33],
    [8, 16, 256],
    [9, 5, 257],
    [17, 20, 100],
    [8, 33, 512],
    [16, 16, 64],
    [3, 130, 64],
];

fn matmul(cpu: &mut Cpu, element: Element, shape: [u32; 3], input: &[f32], weight: &[f32]) -> Vec<f32> {
    let [rows, outputs, inputs] = shape;
    let mut output = junk(cpu, (rows * outputs) as usize);
    let (input, weight) = (upload(cpu, input), floats(cpu, element, weight));
    let operation = Matmul { output: &mut output, input: &input, weight: &weight, rows, outputs, inputs };
    cpu.run(operation).expect("a launch");
    download(cpu, &output)
}

fn expected(inputs: u32, input: &[f32], weight: &[f32]) -> Vec<f64> {
    let dot = |row: &[f32], column: &[f32]| -> f64 {
        row.iter().zip(column).map(|(&left, &right)| f64::from(left) * f64::from(right)).sum()
    };
    let columns = || weight.chunks(inputs as usize);
    input.chunks(inputs as usize).flat_map(|row| columns().map(move |column| dot(row, column))).collect()
}

#[test]
fn matmul_sums_every_product_in_any_thread_order() {
    let mut cpu = cpu();
    for (shape, (element, seed)) in pairs(SHAPES, pairs(WEIGHTS, SEEDS)) {
        let [rows, outputs, inputs] = shape;
        let mut random = Random(seed);
        let input = random.floats((rows * inputs) as usize);
        let weight = random.exact((outputs * inputs) as usize, element);
        let case = format!("{rows} x {inputs} by {outputs}, {element}, seed {seed}");
        let found = in_every_order(&mut cpu, &case, |cpu| matmul(cpu, element, shape, &input, &weight));
        assert_close(&found, &expected(inputs, &input, &weight), TOLERANCE, &case);
    }
}

#[test]
fn matmul_gives_a_row_the_same_bits_in_any_company() {
    let mut cpu = cpu();
    for ((outputs, inputs), (element, seed)) in pairs([(21, 300), (16, 256), (1, 1)], pairs(WEIGHTS, SEEDS)) {
        let mut random = Random(seed);
        let input = random.floats(11 * inputs);
        let weight = random.exact(outputs * inputs, element);
        let mut rows = |from: usize, to: usize| {
            let shape = [to - from, outputs, inputs].map(|size| u32::try_from(size).expect("small"));
            bits(&matmul(&mut cpu, element, shape, &input[from * inputs..to * inputs], &weight))
        };
        let together = rows(0, 11);
        for (from, to) in [(0, 1), (10, 11), (0, 2), (3, 11), (5, 8)] {
            let expected = &together[from * outputs..to * outputs];
            assert_eq!(rows(from, to), expected, "{element}, rows {from} to {to}, seed {seed}");
        }
    }
}

#[test]
fn matmul_spreads_a_nan_to_its_row_alone() {
    let mut cpu = cpu();
    let mut input = Random(1).floats(3 * 40);
    input[41] = f32::NAN;
    let weight = Random(2).floats(5 * 40);
    let found = matmul(&mut cpu, Element::F32, [3, 5, 40], &input, &weight);
    let nan: Vec<bool> = found.iter().map(|value| value.is_nan()).collect();
    assert_eq!(nan, [[false; 5], [true; 5], [false; 5]].concat());
}
