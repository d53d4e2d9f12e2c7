//! The CPU's wide vectors, for plain code: nothing in it names an instruction.

/// Runs `work`, compiled for the widest vectors that this CPU has; what `work` calls is so too if it is inlined.
///
/// Changes no bit of a result: the compiler fuses no multiplication with an addition, and adds in the order that is
/// written.
#[inline]
pub fn on_widest_vectors<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has the feature.
            return unsafe { with_avx512(work) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the feature.
            return unsafe { with_avx2(work) };
        }
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn with_avx512<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<T>(work: impl FnOnce() -> T) -> T {
    work()
}
