//! Norms and linear maps.

use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::operations::rows::{AddRmsNorm, GatherRows, RmsNorm};
use lockstep_kernels::{Buffer, Device, Element};

use super::EPSILON;
use super::alone::{Expected, named};
use super::numbers::{dot, encoded, floats, numbers};

/// More than a block has threads.
const NORM_WIDTH: u32 = 257;
const NORM_ROWS: u32 = 3;
/// Rows of a table of as many; the last is beyond it.
const NORM_INDICES: [u32; 3] = [2, 0, 3];

/// Norms of gathered rows to which others are added.
#[derive(Debug)]
pub(super) struct Normed<B> {
    element: Element,
    table: B,
    indices: B,
    summand: B,
    weight: B,
    hidden: B,
    added: B,
    output: B,
}

impl<B: Buffer> Normed<B> {
    pub(super) fn upload<D: Device<Buffer = B>>(device: &mut D, element: Element) -> Result<Self, D::Error> {
        let [table, summand, weight] = norm_inputs();
        Ok(Self {
            element,
            table: device.upload_bytes(element, &encoded(element, &table))?,
            indices: device.upload(&NORM_INDICES)?,
            weight: device.upload_bytes(element, &encoded(element, &weight))?,
            hidden: device.upload(&summand)?,
            added: device.upload(&summand)?,
            output: device.upload(&summand)?,
            summand: device.upload(&summand)?,
        })
    }

    pub(super) fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Self { table, indices, summand, weight, hidden, added, output, .. } = self;
        let (rows, width, epsilon) = (NORM_ROWS, NORM_WIDTH, EPSILON);
        device.run(GatherRows { output: hidden, table, indices, entries: NORM_ROWS, width })?;
        device.run(AddRmsNorm { output: added, hidden, summand, weight, rows, width, epsilon })?;
        device.run(RmsNorm { output, input: hidden, weight, rows, width, epsilon })
    }

    pub(super) fn written(&self) -> [(String, &B); 3] {
        let Self { element, hidden, added, output, .. } = self;
        [("add_rmsnorm hidden", hidden), ("add_rmsnorm", added), ("rmsnorm", output)]
            .map(|(name, buffer)| (named(name, *element), buffer))
    }
}

/// Table, summand and weight.
fn norm_inputs() -> [Vec<f32>; 3] {
    let elements = NORM_ROWS * NORM_WIDTH;
    [numbers(1, elements), numbers(2, elements), numbers(3, NORM_WIDTH)]
}

pub(super) fn norms(element: Element) -> [Expected; 3] {
    let [table, summand, weight] = norm_inputs();
    let width = NORM_WIDTH as usize;
    let row =
        |index: u32| table.chunks(width).nth(index as usize).map_or(vec![f32::NAN; width], <[f32]>::to_vec);
    let gathered = NORM_INDICES.map(row).concat();
    let sums: Vec<f64> =
        gathered.iter().zip(&summand).map(|(row, summand)| f64::from(row + summand)).collect();
    let norm = |row: &[f64]| -> Vec<f64> {
        let mean_square = row.iter().map(|x| x * x).sum::<f64>() / f64::from(NORM_WIDTH);
        let scale = 1.0 / (mean_square + f64::from(EPSILON)).sqrt();
        row.iter().zip(&weight).map(|(x, &weight)| x * scale * f64::from(weight)).collect()
    };
    let normed: Vec<f64> = sums.chunks(width).flat_map(norm).collect();
    [
        Expected::exactly(named("add_rmsnorm hidden", element), floats, sums),
        Expected::nearly(named("add_rmsnorm", element), floats, normed.clone()),
        Expected::nearly(named("rmsnorm", element), floats, normed),
    ]
}

/// One row, and more than a tile has.
pub(super) const MAPPED_ROWS: [u32; 2] = [1, 9];
/// More than a block computes.
const MAPPED_OUTPUTS: u32 = 17;
/// More than a chunk has.
const MAPPED_INPUTS: u32 = 300;

/// A linear map.
#[derive(Debug)]
pub(super) struct Mapped<B> {
    element: Element,
    rows: u32,
    input: B,
    weight: B,
    output: B,
}

impl<B: Buffer> Mapped<B> {
    pub(super) fn upload<D: Device<Buffer = B>>(
        device: &mut D,
        (element, rows): (Element, u32),
    ) -> Result<Self, D::Error> {
        let [input, weight] = map_inputs(rows);
        Ok(Self {
            element,
            rows,
            input: device.upload(&input)?,
            weight: device.upload_bytes(element, &encoded(element, &weight))?,
            output: device.upload(&numbers(0, rows * MAPPED_OUTPUTS))?,
        })
    }

    pub(super) fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Self { rows, input, weight, output, .. } = self;
        let (outputs, inputs) = (MAPPED_OUTPUTS, MAPPED_INPUTS);
        device.run(Matmul { output, input, weight, rows: *rows, outputs, inputs })
    }

    pub(super) fn written(&self) -> (String, &B) {
        (map_name(self.element, self.rows), &self.output)
    }
}

fn map_inputs(rows: u32) -> [Vec<f32>; 2] {
    [numbers(4, rows * MAPPED_INPUTS), numbers(5, MAPPED_OUTPUTS * MAPPED_INPUTS)]
}

fn map_name(element: Element, rows: u32) -> String {
    named(if rows == 1 { "gemv" } else { "gemm" }, element)
}

pub(super) fn map((element, rows): (Element, u32)) -> Expected {
    let [input, weight] = map_inputs(rows);
    let columns = || weight.chunks(MAPPED_INPUTS as usize);
    let row = |row| columns().map(move |column| dot(row, column));
    let values = input.chunks(MAPPED_INPUTS as usize).flat_map(row).collect();
    Expected::exactly(map_name(element, rows), floats, values)
}
