//! Inputs, and the element types in plain Rust.

use lockstep_kernels::Element;

/// The splitmix64 sequence.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.word() % u64::from(limit)).expect("below a u32")
    }

    /// The numbers below `limit` in a drawn order.
    pub(crate) fn shuffled(&mut self, limit: u32) -> Vec<u32> {
        let mut numbers: Vec<(u64, u32)> = (0..limit).map(|number| (self.word(), number)).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|(_, number)| number).collect()
    }

    /// Uniform in -1..1.
    pub(crate) fn float(&mut self) -> f32 {
        let word = u16::try_from(self.word() >> 48).expect("16 bits");
        f32::from(word) / 32_768.0 - 1.0
    }

    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }

    /// Values that `element` holds exactly.
    pub(crate) fn exact(&mut self, count: usize, element: Element) -> Vec<f32> {
        (0..count).map(|_| decode(element, &encode(element, &[self.float()]))[0]).collect()
    }
}

/// The value of a half: sign, 5 bits of exponent, 10 of fraction.
pub(crate) fn half_value(bits: u16) -> f64 {
    let (sign, fraction) = (if bits >> 15 == 0 { 1.0 } else { -1.0 }, f64::from(bits & 0x3FF));
    match i32::from(bits >> 10 & 0x1F) {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        exponent => sign * (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// The value of a bfloat16: the upper half of a single.
pub(crate) fn bfloat_value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bfloat16, ties to even, of a number.
pub(crate) fn nearest_bfloat(value: f32) -> u16 {
    let down = u16::try_from(value.to_bits() >> 16).expect("16 bits");
    let error = |bits: u16| (f64::from(bfloat_value(bits)) - f64::from(value)).abs();
    let up = down + 1;
    match error(down).total_cmp(&error(up)) {
        std::cmp::Ordering::Less => down,
        std::cmp::Ordering::Greater => up,
        std::cmp::Ordering::Equal => down + (down & 1),
    }
}

/// The half next to a number on the side of zero.
fn half_towards_zero(value: f32) -> u16 {
    let magnitude = f64::from(value.abs());
    let bits = (0..15).rev().fold(0, |bits: u16, place| {
        let more = bits | 1 << place;
        if more < 0x7C00 && half_value(more) <= magnitude { more } else { bits }
    });
    bits | u16::from(value.is_sign_negative()) << 15
}

/// The bytes of values, rounded to the nearest bfloat16 or towards zero to a half.
pub(crate) fn encode(element: Element, values: &[f32]) -> Vec<u8> {
    match element {
        Element::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Element::Bf16 => values.iter().flat_map(|&value| nearest_bfloat(value).to_le_bytes()).collect(),
        Element::F16 => values.iter().flat_map(|&value| half_towards_zero(value).to_le_bytes()).collect(),
        Element::U32 | Element::U64 => panic!("not a floating-point type"),
    }
}

/// The values of bytes.
pub(crate) fn decode(element: Element, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
    match element {
        Element::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Element::Bf16 => halves().map(bfloat_value).collect(),
        #[expect(clippy::cast_possible_truncation, reason = "a single holds every half")]
        Element::F16 => halves().map(|bits| half_value(bits) as f32).collect(),
        Element::U32 | Element::U64 => panic!("not a floating-point type"),
    }
}

/// Asserts that every value is within `tolerance` of what is expected, relative to it or to 1.
pub(crate) fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, case: &str) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for (place, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let close = (f64::from(found) - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(close, "{case}: element {place} is {found}, not {expected}");
    }
}
