//! Inputs, and the element types in plain Rust.

use lockstep_kernels::{Element, Plain};

/// The splitmix64 word of a seed at a place.
pub(super) fn mixed(seed: u64, place: u64) -> u64 {
    let word = seed.wrapping_add(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(place + 1));
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// A seed's numbers from -2 to 2, in steps of 1/64: every element type holds them, and single precision the sums of their
/// products.
pub(super) fn numbers(seed: u64, count: impl Into<u64>) -> Vec<f32> {
    let number = |place| f32::from(mixed(seed, place).to_le_bytes()[0].cast_signed()) / 64.0;
    (0..count.into()).map(number).collect()
}

/// The bytes of [`numbers`].
pub(super) fn encoded(element: Element, values: &[f32]) -> Vec<u8> {
    match element {
        Element::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Element::Bf16 => {
            values.iter().flat_map(|value| (value.to_bits() >> 16).to_le_bytes()[..2].to_vec()).collect()
        }
        Element::F16 => values.iter().flat_map(|&value| half(value).to_le_bytes()[..2].to_vec()).collect(),
        Element::U32 | Element::U64 => unreachable!("no type of weights or caches"),
    }
}

/// The bits of a number that a half holds: its exponent has 3 bits less, and 112 less is added to it.
fn half(value: f32) -> u32 {
    let (sign, magnitude) = (value.to_bits() >> 31 << 15, value.abs().to_bits());
    if magnitude == 0 { sign } else { sign | (magnitude - (112 << 23)) >> 13 }
}

/// A number as an element holds it: the nearest, and of two the even one.
pub(super) fn rounded(element: Element, value: f64) -> f64 {
    if element != Element::Bf16 || value == 0.0 {
        return value;
    }
    let step = value.abs().log2().floor().exp2() / 128.0;
    (value / step).round_ties_even() * step
}

/// How a cache of these elements is read.
pub(super) fn reader(element: Element) -> fn(&[u8]) -> Vec<f64> {
    if element == Element::Bf16 { bfloats } else { floats }
}

/// The values of single precision.
pub(super) fn floats(bytes: &[u8]) -> Vec<f64> {
    f32::all_of(bytes).into_iter().map(f64::from).collect()
}

/// The values of bfloat16.
pub(super) fn bfloats(bytes: &[u8]) -> Vec<f64> {
    let value = |half: &[u8; 2]| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(*half)) << 16));
    bytes.as_chunks().0.iter().map(value).collect()
}

/// The values of 32 bits.
pub(super) fn words(bytes: &[u8]) -> Vec<f64> {
    u32::all_of(bytes).into_iter().map(f64::from).collect()
}

/// The values of 64 bits, of which 53 are used.
pub(super) fn long_words(bytes: &[u8]) -> Vec<f64> {
    u64::all_of(bytes).into_iter().map(|word| word as f64).collect()
}

/// The sum of products.
pub(super) fn dot(left: &[f32], right: &[f32]) -> f64 {
    left.iter().zip(right).map(|(&left, &right)| f64::from(left) * f64::from(right)).sum()
}
