//! The CPU's wide vectors: code that is written once over [`Lanes`], and compiled for each kind that a CPU may have.
//!
//! All kinds give the same bits. Each lane is rounded after every multiplication and every addition, nothing is fused, and
//! [`Lanes::sum`] adds in one order.

use std::array::from_fn;

/// Lanes of a vector: 4 registers of SSE, 2 of AVX or 1 of AVX-512.
pub const LANES: usize = 16;

/// As many `f32` as there are lanes.
pub trait Lanes: Copy {
    /// Registers of the CPU that hold one.
    const REGISTERS: usize;

    /// Zero in every lane.
    fn zeros() -> Self;

    /// These numbers.
    fn of(numbers: &[f32; LANES]) -> Self;

    /// `self + left * right`, lane by lane.
    fn plus_product(self, left: Self, right: Self) -> Self;

    /// The sum of the lanes: their upper half is added to the lower until one is left.
    fn sum(self) -> f32;
}

/// Something to compute with vectors. Its `run`, and what that calls, is to be `#[inline(always)]`: it is compiled for the
/// vectors only where it is inlined.
pub trait Work {
    /// What comes of it.
    type Output;

    /// Computes it.
    fn run<V: Lanes>(self) -> Self::Output;
}

/// Runs `work` with the widest vectors that this CPU has.
#[inline]
pub fn on_widest_vectors<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has the feature.
            return unsafe { x86::with_avx512(work) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the feature.
            return unsafe { x86::with_avx2(work) };
        }
    }
    work.run::<Plain>()
}

/// Left to the compiler.
#[derive(Clone, Copy)]
struct Plain([f32; LANES]);

impl Lanes for Plain {
    const REGISTERS: usize = 4;

    #[inline(always)]
    fn zeros() -> Self {
        Self([0.0; LANES])
    }

    #[inline(always)]
    fn of(numbers: &[f32; LANES]) -> Self {
        Self(*numbers)
    }

    #[inline(always)]
    fn plus_product(self, Self(left): Self, Self(right): Self) -> Self {
        Self(from_fn(|lane| self.0[lane] + left[lane] * right[lane]))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let eight: [f32; 8] = from_fn(|lane| self.0[lane] + self.0[lane + 8]);
        let four: [f32; 4] = from_fn(|lane| eight[lane] + eight[lane + 4]);
        (four[0] + four[2]) + (four[1] + four[3])
    }
}

/// The vectors of x86. Their methods use what the CPU must have; outside of this module nobody can name them, and inside
/// only the function that demands it does.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{LANES, Lanes, Work};

    #[target_feature(enable = "avx512f")]
    pub(super) fn with_avx512<W: Work>(work: W) -> W::Output {
        work.run::<Avx512>()
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn with_avx2<W: Work>(work: W) -> W::Output {
        work.run::<Avx2>()
    }

    #[derive(Clone, Copy)]
    struct Avx512(__m512);

    impl Lanes for Avx512 {
        const REGISTERS: usize = 1;

        #[inline(always)]
        fn zeros() -> Self {
            // SAFETY: `with_avx512` alone names the type.
            Self(unsafe { _mm512_setzero_ps() })
        }

        #[inline(always)]
        fn of(numbers: &[f32; LANES]) -> Self {
            // SAFETY: as in `zeros`; there are as many numbers as are read.
            Self(unsafe { _mm512_loadu_ps(numbers.as_ptr()) })
        }

        #[inline(always)]
        fn plus_product(self, left: Self, right: Self) -> Self {
            // SAFETY: as in `zeros`.
            Self(unsafe { _mm512_add_ps(self.0, _mm512_mul_ps(left.0, right.0)) })
        }

        #[inline(always)]
        fn sum(self) -> f32 {
            // SAFETY: as in `zeros`.
            unsafe {
                let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self.0)));
                sum_of_eight(_mm256_add_ps(_mm512_castps512_ps256(self.0), upper))
            }
        }
    }

    #[derive(Clone, Copy)]
    struct Avx2([__m256; 2]);

    impl Lanes for Avx2 {
        const REGISTERS: usize = 2;

        #[inline(always)]
        fn zeros() -> Self {
            // SAFETY: `with_avx2` alone names the type.
            Self([unsafe { _mm256_setzero_ps() }; 2])
        }

        #[inline(always)]
        fn of(numbers: &[f32; LANES]) -> Self {
            let start = numbers.as_ptr();
            // SAFETY: as in `zeros`; there are as many numbers as are read.
            Self(unsafe { [_mm256_loadu_ps(start), _mm256_loadu_ps(start.add(LANES / 2))] })
        }

        #[inline(always)]
        fn plus_product(self, Self([a, b]): Self, Self([c, d]): Self) -> Self {
            let Self([first, second]) = self;
            // SAFETY: as in `zeros`.
            Self(unsafe {
                [_mm256_add_ps(first, _mm256_mul_ps(a, c)), _mm256_add_ps(second, _mm256_mul_ps(b, d))]
            })
        }

        #[inline(always)]
        fn sum(self) -> f32 {
            let Self([lower, upper]) = self;
            // SAFETY: as in `zeros`.
            unsafe { sum_of_eight(_mm256_add_ps(lower, upper)) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx")]
    fn sum_of_eight(eight: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

#[cfg(test)]
mod tests {
    use super::{LANES, Lanes, Plain, Work, on_widest_vectors};

    /// Numbers whose sums depend on the order of their additions.
    struct Mixed([[f32; LANES]; 3]);

    impl Work for Mixed {
        type Output = u32;

        #[inline(always)]
        fn run<V: Lanes>(self) -> u32 {
            let [start, left, right] = self.0.each_ref().map(V::of);
            V::zeros().plus_product(start, V::of(&[1.0; LANES])).plus_product(left, right).sum().to_bits()
        }
    }

    fn mixed(seed: usize) -> Mixed {
        let sizes = [1.0, 1e3, 1e6];
        let number = |index: usize| ((index * 7919 + seed) as f32 * 0.37).sin() * sizes[index % 3];
        Mixed([0, 1, 2].map(|row| std::array::from_fn(|lane| number(row * LANES + lane))))
    }

    #[test]
    fn wide_vectors_of_every_kind_give_the_same_bits() {
        for seed in 0..100 {
            let expected = mixed(seed).run::<Plain>();
            assert_eq!(on_widest_vectors(mixed(seed)), expected);
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the CPU has the feature.
                assert_eq!(unsafe { super::x86::with_avx2(mixed(seed)) }, expected);
            }
        }
    }
}
