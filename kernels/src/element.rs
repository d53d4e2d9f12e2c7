//! Element types of buffers and values, and their bytes on a device (little-endian, as on the host).

use std::fmt::{self, Debug};

/// The type of one element of a buffer, or of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// The upper half of an IEEE 754 single: 8 bits of exponent, 7 of fraction.
    Bf16,
    /// IEEE 754 half precision.
    F16,
    /// IEEE 754 single precision.
    F32,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
}

impl Element {
    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 | Self::U32 => 4,
            Self::U64 => 8,
        }
    }

    /// The name: `f32` and so on, as in the names of entry points.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::U32 => "u32",
            Self::U64 => "u64",
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type whose values are elements.
pub trait Plain: Copy + Debug + Send + 'static {
    /// The element type.
    const ELEMENT: Element;

    /// Appends the value's bytes.
    fn append_to(self, bytes: &mut Vec<u8>);

    /// The values of `bytes`; bytes beyond the last whole value are left out.
    fn all_of(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! plain {
    ($($type:ty: $element:ident),*) => {$(
        impl Plain for $type {
            const ELEMENT: Element = Element::$element;

            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn all_of(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks().0.iter().copied().map(Self::from_le_bytes).collect()
            }
        }
    )*};
}

plain!(f32: F32, u32: U32, u64: U64);

/// The bytes of values, in order.
pub fn bytes_of<T: Plain>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(values));
    values.iter().for_each(|value| value.append_to(&mut bytes));
    bytes
}
