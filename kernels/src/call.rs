//! A checked call of a kernel: the entry point, the extent of its launch, and its arguments in the table's order.
//!
//! [`Call::of`] starts one; each argument is checked against the parameter whose turn it is: how it is passed, its type
//! and its length. So a call that exists never makes its kernel read or write beyond a buffer, on any device.

use thiserror::Error;

use crate::element::Element;
use crate::kernel::{Entry, Kernel, Parameter, Pass, Type};
use crate::launch::{Launch, LaunchError};

/// The largest dimension: an index that steps past it still fits 32 bits.
const MAX_SIZE: u32 = i32::MAX.cast_unsigned();

/// Memory that a device can pass to its kernels.
pub trait Buffer {
    /// The type of its elements.
    fn element(&self) -> Element;

    /// The number of its elements.
    fn len(&self) -> u64;

    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a call passes for one parameter.
#[derive(Debug)]
pub enum Argument<'a, B> {
    /// A buffer that the kernel only reads.
    Read(&'a B),
    /// A buffer that the kernel writes, or reads and writes.
    Write(&'a mut B),
    /// An `f32`.
    F32(f32),
    /// A `u32`, or a structure of several.
    Words(Vec<u32>),
}

/// A call whose arguments are those of its kernel. Only an [`Operation`](crate::Operation) makes one: devices rely on it.
#[derive(Debug)]
pub struct Call<'a, B> {
    pub(crate) entry: Entry,
    pub(crate) launch: Launch,
    /// In the order of the table.
    pub(crate) arguments: Vec<Argument<'a, B>>,
}

/// Why a call was refused; all are the caller's mistakes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The kernel has no entry point for the type of its weights or cache.
    #[error("{kernel} has no entry point for {element}; convert the buffer")]
    NoEntry {
        /// The kernel.
        kernel: Kernel,
        /// The type.
        element: Element,
    },
    /// An argument comes where the table has another kind of parameter, or none.
    #[error(
        "argument {place} of {entry} is not what the table says; correct the operation that makes this call"
    )]
    Parameter {
        /// The entry point.
        entry: Entry,
        /// The argument's place.
        place: usize,
    },
    /// A buffer's elements are of another type.
    #[error("the {buffer} of {entry} has elements of type {found}; they must be {expected}")]
    ElementType {
        /// The entry point.
        entry: Entry,
        /// The buffer's name.
        buffer: &'static str,
        /// The type it must have.
        expected: Element,
        /// The type it has.
        found: Element,
    },
    /// A buffer's length does not fit the shape.
    #[error("the {buffer} of {entry} has {found} elements; its shape needs exactly {expected}")]
    Length {
        /// The entry point.
        entry: Entry,
        /// The buffer's name.
        buffer: &'static str,
        /// Elements that the shape needs.
        expected: u64,
        /// Elements that the buffer has.
        found: u64,
    },
    /// A size that is 0, or beyond what a kernel's 32-bit index reaches.
    #[error(
        "the {name} of {entry} has a size of {size}; sizes are 1 to {MAX_SIZE}: skip the call, or make it in parts"
    )]
    Size {
        /// The entry point.
        entry: Entry,
        /// The value's name.
        name: &'static str,
        /// The size.
        size: u32,
    },
    /// A value that the kernel cannot compute with.
    #[error("{reason}")]
    Value {
        /// What is wrong with it, and what would be right.
        reason: &'static str,
    },
    /// No grid covers the shape.
    #[error("{entry}: {cause}")]
    Launch {
        /// The entry point.
        entry: Entry,
        /// What is too large or too small.
        cause: LaunchError,
    },
}

impl CallError {
    /// To a download or a fetch.
    pub(crate) const OTHER_VALUES: Self =
        Self::Value { reason: "a buffer is downloaded as values of its own type" };
}

impl<'a, B: Buffer> Call<'a, B> {
    /// Starts a call of a kernel's only entry point, or of that for the buffer whose type decides.
    pub(crate) fn of(kernel: Kernel, decides: Option<&B>) -> Result<Builder<'a, B>, CallError> {
        let element = decides.map(Buffer::element);
        match (kernel.entry(element), element) {
            (Some(entry), _) => Ok(Builder { entry, arguments: Ok(Vec::new()) }),
            (None, Some(element)) => Err(CallError::NoEntry { kernel, element }),
            (None, None) => {
                Err(CallError::Value { reason: "this kernel needs a buffer that decides its type" })
            }
        }
    }
}

/// A call in the making; it remembers the first mistake.
#[derive(Debug)]
pub(crate) struct Builder<'a, B> {
    entry: Entry,
    arguments: Result<Vec<Argument<'a, B>>, CallError>,
}

impl<'a, B: Buffer> Builder<'a, B> {
    /// Passes a buffer of exactly `length` elements that the kernel reads.
    pub(crate) fn read(self, buffer: &'a B, length: u64) -> Self {
        let entry = self.entry;
        self.add(Pass::Read, None, |parameter| {
            check_buffer(entry, parameter, buffer, length).map(|()| Argument::Read(buffer))
        })
    }

    /// Passes a buffer of exactly `length` elements that the kernel writes.
    pub(crate) fn write(self, buffer: &'a mut B, length: u64) -> Self {
        let entry = self.entry;
        self.add(Pass::Write, None, |parameter| {
            check_buffer(entry, parameter, buffer, length).map(|()| Argument::Write(buffer))
        })
    }

    /// Passes sizes, each at least 1: a value, or the fields of a structure.
    pub(crate) fn sizes<const FIELDS: usize>(self, sizes: [u32; FIELDS]) -> Self {
        let entry = self.entry;
        self.add(Pass::Value(FIELDS), Some(Element::U32), |parameter| {
            match sizes.iter().find(|size| !(1..=MAX_SIZE).contains(size)) {
                Some(&size) => Err(CallError::Size { entry, name: parameter.name, size }),
                None => Ok(Argument::Words(sizes.to_vec())),
            }
        })
    }

    /// Passes a number that may be 0.
    pub(crate) fn number(self, number: u32) -> Self {
        self.add(Pass::Value(1), Some(Element::U32), |_| Ok(Argument::Words(vec![number])))
    }

    /// Passes a number of single precision.
    pub(crate) fn float(self, number: f32) -> Self {
        self.add(Pass::Value(1), Some(Element::F32), |_| Ok(Argument::F32(number)))
    }

    /// The call, if every parameter has its argument and the launch exists.
    pub(crate) fn launch(self, launch: Result<Launch, LaunchError>) -> Result<Call<'a, B>, CallError> {
        let entry = self.entry;
        let arguments = self.arguments?;
        if arguments.len() != entry.kernel().parameters().len() {
            return Err(CallError::Parameter { entry, place: arguments.len() });
        }
        let launch = launch.map_err(|cause| CallError::Launch { entry, cause })?;
        Ok(Call { entry, launch, arguments })
    }

    /// Adds what `check` makes of the next parameter, if that is passed so and, for a value, is of this type.
    fn add(
        mut self,
        pass: Pass,
        value: Option<Element>,
        check: impl FnOnce(&'static Parameter) -> Result<Argument<'a, B>, CallError>,
    ) -> Self {
        let entry = self.entry;
        self.arguments = self.arguments.and_then(|mut arguments| {
            let place = arguments.len();
            let fits = |parameter: &&Parameter| {
                parameter.pass == pass && value.is_none_or(|value| entry.element(parameter) == value)
            };
            let parameter = entry.kernel().parameters().get(place).filter(fits);
            let argument = check(parameter.ok_or(CallError::Parameter { entry, place })?)?;
            arguments.push(argument);
            Ok(arguments)
        });
        self
    }
}

/// Checks type and length. Words are counted in a buffer of any type that holds only whole ones.
fn check_buffer<B: Buffer>(
    entry: Entry,
    parameter: &'static Parameter,
    buffer: &B,
    expected: u64,
) -> Result<(), CallError> {
    let (wanted, element, name) = (entry.element(parameter), buffer.element(), parameter.name);
    let found = match parameter.kind {
        Type::Words => words(buffer.len(), element),
        Type::Always(_) | Type::Varies if wanted == element => buffer.len(),
        Type::Always(_) | Type::Varies => {
            return Err(CallError::ElementType { entry, buffer: name, expected: wanted, found: element });
        }
    };
    match found == expected {
        true => Ok(()),
        false => Err(CallError::Length { entry, buffer: name, expected, found }),
    }
}

/// Words of 8 bytes in a buffer; 0, which fits no shape, if they are not whole.
fn words(length: u64, element: Element) -> u64 {
    let bytes = length.saturating_mul(element.bytes());
    if bytes.is_multiple_of(Element::U64.bytes()) { bytes / Element::U64.bytes() } else { 0 }
}

/// The elements of a buffer; beyond `u32`, a number that no launch covers.
pub(crate) fn count(buffer: &impl Buffer) -> u32 {
    u32::try_from(buffer.len()).unwrap_or(u32::MAX)
}

/// The product of sizes; the largest number, which no buffer's length is, if it is beyond it.
pub(crate) fn product(sizes: &[u32]) -> u64 {
    sizes.iter().fold(1, |product: u64, &size| product.saturating_mul(size.into()))
}
