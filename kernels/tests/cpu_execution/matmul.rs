//! Linear maps against sums in double precision; and that company changes no bit.

use lockstep_kernels::cpu::Cpu;
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::{Device, Element};

use crate::common::{bits, cpu, download, floats, junk, upload};
use crate::numbers::{Random, assert_close};

const WEIGHTS: [Element; 3] = [Element::F32, Element::Bf16, Element::F16];
/// The error of a sum of up to 600 products of numbers below 1.
const TOLERANCE: f64 = 2e-5;

/// Rows, outputs and inputs: one and several tiles, whole and ragged, one and several chunks of inputs.
const SHAPES: [[u32; 3]; 10] = [
    [1, 1, 1],
    [1, 16, 32],
    [1, 17, 600],
    [2, 3, 31],
    [7, 33, 33],
    [8, 16, 256],
    [9, 5, 257],
    [17, 40, 100],
    [8, 64, 512],
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
    for ([rows, outputs, inputs], order) in SHAPES.into_iter().zip(0..) {
        for element in WEIGHTS {
            cpu.order_threads(order);
            let input = Random(order.into()).floats((rows * inputs) as usize);
            let weight = Random(9).exact((outputs * inputs) as usize, element);
            let found = matmul(&mut cpu, element, [rows, outputs, inputs], &input, &weight);
            let case = format!("{rows} x {inputs} by {outputs}, {element}, order {order}");
            assert_close(&found, &expected(inputs, &input, &weight), TOLERANCE, &case);
        }
    }
}

#[test]
fn matmul_gives_a_row_the_same_bits_in_any_company() {
    let mut cpu = cpu();
    let (outputs, inputs) = (21_usize, 300_usize);
    for element in WEIGHTS {
        let input = Random(1).floats(11 * inputs);
        let weight = Random(2).exact(outputs * inputs, element);
        let mut rows = |from: usize, to: usize| {
            let shape = [to - from, outputs, inputs].map(|size| u32::try_from(size).expect("small"));
            bits(&matmul(&mut cpu, element, shape, &input[from * inputs..to * inputs], &weight))
        };
        let together = rows(0, 11);
        for (from, to) in [(0, 1), (10, 11), (0, 2), (3, 11), (5, 8)] {
            let expected = &together[from * outputs..to * outputs];
            assert_eq!(rows(from, to), expected, "{element}, rows {from} to {to}");
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
