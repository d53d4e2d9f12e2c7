//! The kernels with inputs of their own, and what each is off by.

use lockstep_kernels::{Buffer, Device, Element};
use serde::Serialize;

use super::choice::{self, Drawn, Followed, Voted};
use super::paged::{self, Appended, Attended, Moved};
use super::rows::{self, Mapped, Normed};

const WEIGHTS: [Element; 3] = [Element::F32, Element::Bf16, Element::F16];
const CACHES: [Element; 2] = [Element::F32, Element::Bf16];
/// The allowed difference of what single precision does not compute exactly.
const TOLERANCE: f64 = 1e-6;

/// The kernels' buffers.
#[derive(Debug)]
pub(super) struct Alone<B> {
    normed: Vec<Normed<B>>,
    mapped: Vec<Mapped<B>>,
    appended: Vec<Appended<B>>,
    attended: Vec<Attended<B>>,
    drawn: Drawn<B>,
    followed: Followed<B>,
    voted: Voted<B>,
    moved: Moved<B>,
}

/// Types and rows of the linear maps.
fn maps() -> impl Iterator<Item = (Element, u32)> {
    WEIGHTS.into_iter().flat_map(|element| rows::MAPPED_ROWS.map(|rows| (element, rows)))
}

impl<B: Buffer> Alone<B> {
    /// Uploads the inputs.
    pub(super) fn upload<D: Device<Buffer = B>>(device: &mut D) -> Result<Self, D::Error> {
        Ok(Self {
            normed: WEIGHTS.into_iter().map(|of| Normed::upload(device, of)).collect::<Result<_, _>>()?,
            mapped: maps().map(|of| Mapped::upload(device, of)).collect::<Result<_, _>>()?,
            appended: CACHES.into_iter().map(|of| Appended::upload(device, of)).collect::<Result<_, _>>()?,
            attended: CACHES.into_iter().map(|of| Attended::upload(device, of)).collect::<Result<_, _>>()?,
            drawn: Drawn::upload(device)?,
            followed: Followed::upload(device)?,
            voted: Voted::upload(device)?,
            moved: Moved::upload(device)?,
        })
    }

    /// Runs each.
    pub(super) fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        self.normed.iter_mut().try_for_each(|part| part.run(device))?;
        self.mapped.iter_mut().try_for_each(|part| part.run(device))?;
        self.appended.iter_mut().try_for_each(|part| part.run(device))?;
        self.attended.iter_mut().try_for_each(|part| part.run(device))?;
        self.drawn.run(device)?;
        self.followed.run(device)?;
        self.voted.run(device)?;
        self.moved.run(device)
    }

    /// What they write, under the names of [`expected`].
    pub(super) fn written(&self) -> impl Iterator<Item = (String, &B)> {
        let rows = self.normed.iter().flat_map(Normed::written);
        let maps = self.mapped.iter().map(Mapped::written);
        let appended = self.appended.iter().flat_map(Appended::written);
        let attended = self.attended.iter().map(Attended::written);
        let choices = [self.drawn.written(), self.followed.written(), self.voted.written()];
        rows.chain(maps).chain(appended).chain(attended).chain(choices).chain(self.moved.written())
    }
}

/// What they must write.
pub(super) fn expected() -> Vec<Expected> {
    let mut all: Vec<Expected> = WEIGHTS.into_iter().flat_map(rows::norms).collect();
    all.extend(maps().map(rows::map));
    all.extend(CACHES.into_iter().flat_map(paged::appends));
    all.extend(CACHES.map(paged::attention));
    all.extend([choice::draws(), choice::follows(), choice::votes()]);
    all.extend(paged::moves());
    all
}

/// What a kernel must write.
pub(super) struct Expected {
    /// Of the entry point, and of its buffer.
    pub(super) name: String,
    read: fn(&[u8]) -> Vec<f64>,
    values: Vec<f64>,
    tolerance: f64,
}

impl Expected {
    /// Single precision computes it exactly.
    pub(super) fn exactly(name: impl Into<String>, read: fn(&[u8]) -> Vec<f64>, values: Vec<f64>) -> Self {
        Self { name: name.into(), read, values, tolerance: 0.0 }
    }

    /// Single precision rounds it.
    pub(super) fn nearly(name: impl Into<String>, read: fn(&[u8]) -> Vec<f64>, values: Vec<f64>) -> Self {
        Self { tolerance: TOLERANCE, ..Self::exactly(name, read, values) }
    }

    /// What a kernel wrote, beside it.
    pub(super) fn beside(&self, written: &[u8]) -> Finding {
        let error = largest_error(&(self.read)(written), &self.values);
        Finding { kernel: self.name.clone(), error, tolerance: self.tolerance }
    }
}

/// How far a kernel is from plain arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The kernel, which of its buffers if it writes several, and the elements that the entry point is for.
    pub kernel: String,
    /// The largest difference, beside the size of what is expected.
    pub error: f64,
    /// What is allowed: nothing where single precision computes exactly.
    pub tolerance: f64,
}

impl Finding {
    /// Whether the kernel computes what it must.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// The name of what an entry point for these elements writes.
pub(super) fn named(name: &str, element: Element) -> String {
    format!("{name} ({element})")
}

/// The largest difference, beside the size of what is expected. Where that is NaN, NaN must be found.
pub(super) fn largest_error(found: &[f64], expected: &[f64]) -> f64 {
    let error = |(found, expected): (&f64, &f64)| match (found.is_nan(), expected.is_nan()) {
        (false, false) => (found - expected).abs() / (expected.abs() + 1.0),
        (true, true) => 0.0,
        (true, false) | (false, true) => f64::INFINITY,
    };
    let lengths = if found.len() == expected.len() { 0.0 } else { f64::INFINITY };
    found.iter().zip(expected).map(error).fold(lengths, f64::max)
}
