//! The virtual GPU architectures that PTX is committed for.

use std::fmt;

/// A virtual architecture. The driver compiles PTX for its own device; an older architecture runs on every newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// Compute capability 8.0 (A100) and later.
    Sm80,
    /// Compute capability 9.0 (H100, H200) and later.
    Sm90,
    /// Compute capability 10.0 (B200) and later.
    Sm100,
}

impl Architecture {
    /// Every architecture, oldest first.
    pub const ALL: [Self; 3] = [Self::Sm80, Self::Sm90, Self::Sm100];

    /// The newest architecture whose PTX runs on a device of this compute capability; `None` if all are newer.
    #[must_use]
    pub fn newest_for(capability: (i32, i32)) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|architecture| architecture.capability() <= capability)
    }

    /// The compute capability, as (major, minor).
    #[must_use]
    pub const fn capability(self) -> (i32, i32) {
        match self {
            Self::Sm80 => (8, 0),
            Self::Sm90 => (9, 0),
            Self::Sm100 => (10, 0),
        }
    }
}

/// `sm_80`, as in PTX's `.target`.
impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability();
        write!(f, "sm_{major}{minor}")
    }
}

#[cfg(test)]
mod tests {
    use super::Architecture;

    #[test]
    fn architecture_is_the_newest_that_the_device_runs() {
        assert_eq!(Architecture::newest_for((7, 5)), None);
        assert_eq!(Architecture::newest_for((8, 0)), Some(Architecture::Sm80));
        assert_eq!(Architecture::newest_for((8, 9)), Some(Architecture::Sm80));
        assert_eq!(Architecture::newest_for((9, 0)), Some(Architecture::Sm90));
        assert_eq!(Architecture::newest_for((12, 1)), Some(Architecture::Sm100));
    }
}
