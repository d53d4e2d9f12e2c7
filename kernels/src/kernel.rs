//! The table of kernels: entry name, parameters and PTX of each.
//!
//! One row per file of `cuda/`. Everything else names a kernel by [`Kernel`], never by string.

use std::fmt;

/// A kernel of `cuda/`; its source file and its entry point carry the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Root-mean-square normalisation of rows of `f32`.
    RmsNorm,
    /// Element-wise minimum of the ranks' vote vectors of `u64`.
    VoteMin,
}

/// A virtual GPU architecture that PTX is committed for.
///
/// The driver compiles PTX for its own device; an older architecture runs on every newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// Compute capability 8.0 (A100) and later.
    Sm80,
    /// Compute capability 9.0 (H100, H200) and later.
    Sm90,
}

/// A parameter of a kernel, in the order of its C++ signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A device buffer that the kernel only reads.
    Input(Element),
    /// A device buffer that the kernel writes.
    Output(Element),
    /// A value passed with the launch.
    Scalar(Element),
}

/// The type of a scalar, or of one element of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// IEEE 754 single precision.
    F32,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
}

impl Kernel {
    /// Every kernel, in the order of the enum.
    pub const ALL: [Self; 2] = [Self::RmsNorm, Self::VoteMin];

    /// The name of the `extern "C"` entry point, and the stem of the source file.
    pub const fn entry(self) -> &'static str {
        match self {
            Self::RmsNorm => "rmsnorm",
            Self::VoteMin => "vote_min",
        }
    }

    /// The parameters that a launch passes.
    ///
    /// * `RmsNorm`: output `[rows, width]`, input `[rows, width]`, weight `[width]`, width, epsilon.
    /// * `VoteMin`: output `[width]`, votes `[ranks, width]`, ranks, width.
    pub const fn parameters(self) -> &'static [Parameter] {
        use Element::{F32, U32, U64};
        use Parameter::{Input, Output, Scalar};
        match self {
            Self::RmsNorm => &[Output(F32), Input(F32), Input(F32), Scalar(U32), Scalar(F32)],
            Self::VoteMin => &[Output(U64), Input(U64), Scalar(U32), Scalar(U32)],
        }
    }

    /// The committed PTX for an architecture.
    pub const fn ptx(self, architecture: Architecture) -> &'static str {
        match (self, architecture) {
            (Self::RmsNorm, Architecture::Sm80) => include_str!("../ptx/rmsnorm.sm_80.ptx"),
            (Self::RmsNorm, Architecture::Sm90) => include_str!("../ptx/rmsnorm.sm_90.ptx"),
            (Self::VoteMin, Architecture::Sm80) => include_str!("../ptx/vote_min.sm_80.ptx"),
            (Self::VoteMin, Architecture::Sm90) => include_str!("../ptx/vote_min.sm_90.ptx"),
        }
    }
}

impl Architecture {
    /// Every architecture, oldest first.
    pub const ALL: [Self; 2] = [Self::Sm80, Self::Sm90];

    /// The newest architecture whose PTX runs on a device of this compute capability; `None` if all are newer.
    pub fn newest_for(capability: (i32, i32)) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|architecture| architecture.capability() <= capability)
    }

    /// The compute capability, as (major, minor).
    pub const fn capability(self) -> (i32, i32) {
        match self {
            Self::Sm80 => (8, 0),
            Self::Sm90 => (9, 0),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry())
    }
}

/// `sm_80`, as in PTX's `.target`.
impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability();
        write!(f, "sm_{major}{minor}")
    }
}

/// `const f32*`, `f32*` or `f32`.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(element) => write!(f, "const {element}*"),
            Self::Output(element) => write!(f, "{element}*"),
            Self::Scalar(element) => write!(f, "{element}"),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::U32 => "u32",
            Self::U64 => "u64",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The PTX ISA of CUDA 13.0; a driver of the 580 branch refuses anything newer.
    const NEWEST_ISA: (u32, u32) = (9, 0);

    fn every_ptx() -> impl Iterator<Item = (Kernel, Architecture, &'static str)> {
        let pairs = Kernel::ALL
            .into_iter()
            .flat_map(|kernel| Architecture::ALL.map(|architecture| (kernel, architecture)));
        pairs.map(|(kernel, architecture)| (kernel, architecture, kernel.ptx(architecture)))
    }

    fn directive<'ptx>(ptx: &'ptx str, name: &str) -> &'ptx str {
        let line = ptx.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in the PTX")).trim()
    }

    fn ptx_type(parameter: &Parameter) -> &'static str {
        match parameter {
            Parameter::Input(_) | Parameter::Output(_) | Parameter::Scalar(Element::U64) => ".u64",
            Parameter::Scalar(Element::F32) => ".f32",
            Parameter::Scalar(Element::U32) => ".u32",
        }
    }

    #[test]
    fn ptx_has_the_entry_with_the_parameters_of_the_table() {
        for (kernel, architecture, ptx) in every_ptx() {
            let head = format!(".visible .entry {kernel}(");
            let (_, rest) =
                ptx.split_once(&head).unwrap_or_else(|| panic!("{kernel}.{architecture}: no entry"));
            let (list, _) = rest.split_once(')').expect("an entry's parameter list ends");
            let types: Vec<_> = list.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
            let expected: Vec<_> = kernel.parameters().iter().map(ptx_type).collect();
            assert_eq!(types, expected, "{kernel}.{architecture}");
        }
    }

    #[test]
    fn ptx_targets_its_architecture() {
        for (kernel, architecture, ptx) in every_ptx() {
            assert_eq!(directive(ptx, ".target"), architecture.to_string(), "{kernel}");
        }
    }

    #[test]
    fn ptx_isa_is_one_that_the_supported_driver_accepts() {
        for (kernel, architecture, ptx) in every_ptx() {
            let (major, minor) = directive(ptx, ".version").split_once('.').expect("major.minor");
            let version: (u32, u32) = (major.parse().expect("a number"), minor.parse().expect("a number"));
            assert!(version <= NEWEST_ISA, "{kernel}.{architecture}: ISA {version:?}");
        }
    }

    #[test]
    fn table_has_a_row_for_every_source() {
        let folder =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/cuda")).expect("the folder of sources");
        let paths = folder.map(|entry| entry.expect("a readable folder").path());
        let mut sources: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|end| end == "cu")).collect();
        sources.sort();
        let stems: Vec<_> = sources.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
        assert_eq!(stems, Kernel::ALL.map(Kernel::entry));
    }

    #[test]
    fn architecture_is_the_newest_that_the_device_runs() {
        assert_eq!(Architecture::newest_for((7, 5)), None);
        assert_eq!(Architecture::newest_for((8, 0)), Some(Architecture::Sm80));
        assert_eq!(Architecture::newest_for((8, 9)), Some(Architecture::Sm80));
        assert_eq!(Architecture::newest_for((9, 0)), Some(Architecture::Sm90));
        assert_eq!(Architecture::newest_for((12, 1)), Some(Architecture::Sm90));
    }
}
