//! Gathers, norms and gates against references in double precision.

use lockstep_kernels::cpu::Cpu;
use lockstep_kernels::operations::rows::{AddRmsNorm, GatherRows, RmsNorm, SiluMul};
use lockstep_kernels::{Device, Element};

use crate::common::{ORDERS, bits, cpu, download, floats, junk, upload};
use crate::numbers::{Random, assert_close, bfloat_value, half_value};

const EPSILON: f32 = 1e-5;
/// The error of a sum in single precision at the widths below.
const TOLERANCE: f64 = 4e-6;
const WEIGHTS: [Element; 3] = [Element::F32, Element::Bf16, Element::F16];

fn gather(cpu: &mut Cpu, table: &lockstep_kernels::cpu::CpuBuffer, indices: &[u32], width: u32) -> Vec<f32> {
    let entries = u32::try_from(lockstep_kernels::Buffer::len(table)).expect("a small table") / width;
    let mut output = junk(cpu, indices.len() * width as usize);
    let indices = upload(cpu, indices);
    cpu.run(GatherRows { output: &mut output, table, indices: &indices, entries, width }).expect("a launch");
    download(cpu, &output)
}

#[test]
fn gather_gives_the_listed_rows_of_every_type() {
    let mut cpu = cpu();
    for (element, width) in
        WEIGHTS.into_iter().flat_map(|element| [1_u32, 33, 300].map(|width| (element, width)))
    {
        let content = Random(1).exact(7 * width as usize, element);
        let table = floats(&mut cpu, element, &content);
        let found = gather(&mut cpu, &table, &[6, 0, 3, 3], width);
        let rows = [6, 0, 3, 3].map(|row| &content[row * width as usize..][..width as usize]);
        assert_eq!(found, rows.concat(), "{element}, width {width}");
    }
}

#[test]
fn gather_beyond_the_table_is_nan() {
    let mut cpu = cpu();
    let table = floats(&mut cpu, Element::Bf16, &[1.0; 6]);
    let found = gather(&mut cpu, &table, &[2, 3, u32::MAX], 2);
    assert_eq!(found[..2], [1.0, 1.0]);
    assert!(found[2..].iter().all(|value| value.is_nan()), "{found:?}");
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
    let width = u32::try_from(weight.len()).expect("a small row");
    let rows = u32::try_from(input.len()).expect("few rows") / width;
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
    for (rows, width) in
        [1, 3].into_iter().flat_map(|rows| [1, 31, 33, 64, 255, 257, 1000].map(|width| (rows, width)))
    {
        for (element, order) in WEIGHTS.into_iter().zip(ORDERS) {
            cpu.order_threads(order);
            let input = Random(order.into()).floats(rows * width);
            let weight = Random(7).exact(width, element);
            let found = rmsnorm(&mut cpu, element, &input, &weight);
            let case = format!("{rows} rows, width {width}, {element}, order {order}");
            assert_close(&found, &expected_norm(&input, &weight), TOLERANCE, &case);
        }
    }
}

#[test]
fn rmsnorm_gives_a_row_the_same_bits_in_any_company_and_thread_order() {
    let mut cpu = cpu();
    let (input, weight) = (Random(3).floats(4 * 300), Random(4).floats(300));
    let together = rmsnorm(&mut cpu, Element::F32, &input, &weight);
    for (order, row) in (1..).zip(0..4) {
        cpu.order_threads(order);
        let alone = rmsnorm(&mut cpu, Element::F32, &input[row * 300..][..300], &weight);
        assert_eq!(bits(&alone), bits(&together[row * 300..][..300]), "row {row}");
    }
}

#[test]
fn rmsnorm_of_a_zero_row_is_zero() {
    assert_eq!(rmsnorm(&mut cpu(), Element::F32, &[0.0; 400], &[1.0; 200]), [0.0; 400]);
}

#[test]
fn add_rmsnorm_is_the_norm_of_the_sum_and_keeps_the_sum() {
    let mut cpu = cpu();
    for element in WEIGHTS {
        let (hidden, summand) = (Random(1).floats(3 * 130), Random(2).floats(3 * 130));
        let weight = Random(3).exact(130, element);
        let sum: Vec<f32> = hidden.iter().zip(&summand).map(|(hidden, summand)| hidden + summand).collect();
        let expected = rmsnorm(&mut cpu, element, &sum, &weight);
        let mut output = junk(&mut cpu, sum.len());
        let (mut hidden, summand) = (upload(&mut cpu, &hidden), upload(&mut cpu, &summand));
        let weight = floats(&mut cpu, element, &weight);
        let (output_buffer, hidden_buffer) = (&mut output, &mut hidden);
        let operation = AddRmsNorm {
            output: output_buffer,
            hidden: hidden_buffer,
            summand: &summand,
            weight: &weight,
            rows: 3,
            width: 130,
            epsilon: EPSILON,
        };
        cpu.run(operation).expect("a launch");
        assert_eq!(bits(&download(&mut cpu, &hidden)), bits(&sum), "{element}");
        assert_eq!(bits(&download(&mut cpu, &output)), bits(&expected), "{element}");
    }
}

#[test]
fn silu_mul_gates_every_element() {
    let mut cpu = cpu();
    for count in [1_u32, 255, 256, 257, 1000] {
        let gate: Vec<f32> = Random(1).floats(count as usize).iter().map(|value| value * 20.0).collect();
        let up = Random(2).floats(count as usize);
        let mut output = junk(&mut cpu, count as usize);
        let (gates, ups) = (upload(&mut cpu, &gate), upload(&mut cpu, &up));
        cpu.run(SiluMul { output: &mut output, gate: &gates, up: &ups, count }).expect("a launch");
        let expected: Vec<f64> = gate
            .iter()
            .zip(&up)
            .map(|(&gate, &up)| f64::from(gate) / (1.0 + (-f64::from(gate)).exp()) * f64::from(up))
            .collect();
        assert_close(&download(&mut cpu, &output), &expected, TOLERANCE, &format!("{count} elements"));
    }
}
