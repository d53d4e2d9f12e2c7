//! What computes the ranks' forwards: as the command line asks for it, and as it comes out on this machine.
//!
//! The front end decides once, for both groups and all their epochs, and tells each rank its own part. A rank looks for
//! nothing: ranks of one group that decided each for itself could come to different devices.

use std::fmt;
use std::str::FromStr;

use clap::{Args, ValueEnum, value_parser};
use lockstep_kernels::cuda::{self, Missing};
use thiserror::Error;

use super::wishes::{CollectivesWish, GraphsWish};
use crate::engine::CacheType;

/// What the command line says of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct DeviceFlags {
    /// What computes: the CPU, CUDA devices, or CUDA devices where each rank of a group gets one and else the CPU
    #[arg(long, value_enum, default_value_t)]
    pub device: DeviceKind,
    /// CUDA devices of ranks 0, 1, ... of either group, and again from the first [default: all there are]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub cuda_devices: Vec<usize>,
    /// Type of keys and values on CUDA devices [default: f32]
    #[arg(long, value_enum)]
    pub kv_type: Option<CacheType>,
    /// Where the ranks' sums meet on CUDA devices: in NCCL, between the hosts, or in NCCL where all ranks of a group can join
    #[arg(long, value_enum)]
    pub collectives: Option<CollectivesWish>,
    /// Whether CUDA devices replay decode forwards that they captured at the start: where all ranks of the group can, never, or always
    #[arg(long, value_enum)]
    pub graphs: Option<GraphsWish>,
    /// Memory of each rank for KV pages, in MiB; where fewer than --pages fit, all ranks of a group take as many as fit the one with the
    /// least room [default: no limit]
    #[arg(long, value_name = "MIB", value_parser = value_parser!(u64).range(1..=16_777_216))]
    pub kv_memory: Option<u64>,
}

/// What is to compute.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum DeviceKind {
    /// CUDA devices, or else the CPU.
    Auto,
    /// The CPU: what has never run on a GPU is not taken unasked.
    #[default]
    Cpu,
    /// CUDA devices.
    Cuda,
}

/// Why ranks can not be placed as the command line asks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// A flag is about CUDA devices, and the CPU computes.
    #[error("{flag} is of use on CUDA devices only, and the CPU computes here ({reason}): leave it out")]
    NotOnCpu {
        /// The flag.
        flag: &'static str,
        /// Why the CPU computes.
        reason: String,
    },
    /// There is nothing to run on.
    #[error("--device cuda: {0}; --device cpu needs none of this")]
    Missing(#[from] Missing),
    /// A device is named that is not there.
    #[error("--cuda-devices names device {ordinal}; this machine has {count}, counted from 0")]
    NoSuchDevice {
        /// The device named.
        ordinal: usize,
        /// The number of devices.
        count: usize,
    },
}

/// What computes the forwards of both groups.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Placement {
    /// The CPU.
    Cpu {
        /// Why.
        reason: String,
    },
    /// CUDA devices, of ranks 0, 1, ... and again from the first; at least one.
    Cuda {
        /// The devices.
        ordinals: Vec<usize>,
        /// Type of keys and values.
        kv_type: CacheType,
        /// Where their sums meet.
        collectives: CollectivesWish,
        /// Whether decode forwards are replayed.
        graphs: GraphsWish,
    },
}

/// What computes one rank's forwards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RankDevice {
    /// The CPU.
    Cpu,
    /// The CUDA device of this number.
    Cuda {
        /// Its number, as CUDA counts.
        ordinal: usize,
        /// Type of keys and values.
        kv_type: CacheType,
        /// Where sums are to meet.
        collectives: CollectivesWish,
        /// Whether decode forwards are to be replayed.
        graphs: GraphsWish,
        /// Ranks that use the device, this one among them.
        sharers: u32,
    },
}

impl DeviceFlags {
    /// Bytes of each rank for KV pages, if they are limited.
    #[must_use]
    pub fn kv_bytes(&self) -> Option<u64> {
        self.kv_memory.map(|mebibytes| mebibytes << 20)
    }

    /// Places groups of `tp` ranks on what this machine has. CUDA is looked for only if it may be used.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn place(&self, tp: u32) -> Result<Placement, PlacementError> {
        match self.device {
            DeviceKind::Cpu => self.on_cpu("--device cpu".into()),
            DeviceKind::Auto | DeviceKind::Cuda => self.place_among(tp, cuda::device_count()),
        }
    }

    /// Places groups of `tp` ranks, with so many CUDA devices.
    fn place_among(&self, tp: u32, count: Result<usize, Missing>) -> Result<Placement, PlacementError> {
        let automatic = self.device == DeviceKind::Auto && self.cuda_devices.is_empty();
        let count = match count {
            Err(missing) if self.device == DeviceKind::Auto => return self.on_cpu(missing.to_string()),
            Ok(count) if automatic && count < tp as usize => {
                return self.on_cpu(format!("{count} CUDA devices for {tp} ranks of a group"));
            }
            Ok(count) => count,
            Err(missing) => return Err(missing.into()),
        };
        if let Some(&ordinal) = self.cuda_devices.iter().find(|&&ordinal| ordinal >= count) {
            return Err(PlacementError::NoSuchDevice { ordinal, count });
        }
        let named = !self.cuda_devices.is_empty();
        let ordinals = if named { self.cuda_devices.clone() } else { (0..count).collect() };
        let (kv_type, collectives) = (self.kv_type.unwrap_or_default(), self.collectives.unwrap_or_default());
        Ok(Placement::Cuda { ordinals, kv_type, collectives, graphs: self.graphs.unwrap_or_default() })
    }

    fn on_cpu(&self, reason: String) -> Result<Placement, PlacementError> {
        let of_use_elsewhere = [
            ("--cuda-devices", !self.cuda_devices.is_empty()),
            ("--kv-type", self.kv_type.is_some()),
            ("--collectives", self.collectives.is_some()),
            ("--graphs", self.graphs.is_some()),
        ];
        match of_use_elsewhere.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(PlacementError::NotOnCpu { flag, reason }),
            None => Ok(Placement::Cpu { reason }),
        }
    }
}

impl Placement {
    /// What computes for rank `rank` of either group, of `tp` ranks each on this machine.
    #[must_use]
    pub fn of_rank(&self, rank: u32, tp: u32) -> RankDevice {
        match self {
            Self::Cpu { .. } => RankDevice::Cpu,
            &Self::Cuda { ref ordinals, kv_type, collectives, graphs } => {
                let place = |rank: u32| rank as usize % ordinals.len();
                let ordinal = ordinals[place(rank)];
                let in_a_group = (0..tp).filter(|other| ordinals[place(*other)] == ordinal).count().max(1);
                let sharers = u32::try_from(2 * in_a_group).unwrap_or(u32::MAX);
                RankDevice::Cuda { ordinal, kv_type, collectives, graphs, sharers }
            }
        }
    }
}

/// For whoever started the program.
impl fmt::Display for Placement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu { reason } => write!(out, "the CPU computes ({reason})"),
            Self::Cuda { ordinals, kv_type, .. } => {
                let ordinals: Vec<_> = ordinals.iter().map(ToString::to_string).collect();
                write!(out, "CUDA devices {} compute, KV in {}", ordinals.join(", "), kv_type.name())
            }
        }
    }
}

impl RankDevice {
    /// Type of keys and values.
    #[must_use]
    pub fn kv_type(&self) -> CacheType {
        match self {
            Self::Cpu => CacheType::F32,
            Self::Cuda { kv_type, .. } => *kv_type,
        }
    }

    /// Its part of so many bytes of the device's memory, a tenth of which is left for other things.
    #[must_use]
    pub fn share_of(&self, free: u64) -> u64 {
        match self {
            Self::Cpu => free,
            Self::Cuda { sharers, .. } => free / 10 * 9 / u64::from(*sharers).max(1),
        }
    }

    /// Where the sums of its group are to meet.
    #[must_use]
    pub fn collectives(&self) -> CollectivesWish {
        match self {
            Self::Cpu => CollectivesWish::Host,
            Self::Cuda { collectives, .. } => *collectives,
        }
    }

    /// Whether its group's decode forwards are to be replayed; nothing but CUDA captures any.
    #[must_use]
    pub fn graphs(&self) -> GraphsWish {
        match self {
            Self::Cpu => GraphsWish::Off,
            Self::Cuda { graphs, .. } => *graphs,
        }
    }

    /// What all ranks of a group must have in common.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Self::Cpu => "cpu".into(),
            Self::Cuda { kv_type, collectives, graphs, .. } => {
                format!("cuda/{}/{}/{}", kv_type.name(), collectives.name(), graphs.name())
            }
        }
    }
}

/// As [`FromStr`] reads it: `cpu`, or `cuda:0/f32/auto/on/2`.
impl fmt::Display for RankDevice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => out.write_str("cpu"),
            Self::Cuda { ordinal, kv_type, collectives, graphs, sharers } => {
                let (kv_type, collectives, graphs) = (kv_type.name(), collectives.name(), graphs.name());
                write!(out, "cuda:{ordinal}/{kv_type}/{collectives}/{graphs}/{sharers}")
            }
        }
    }
}

impl FromStr for RankDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cuda = || {
            let mut parts = text.strip_prefix("cuda:")?.splitn(5, '/');
            let ordinal = parts.next()?.parse().ok()?;
            let kv_type = CacheType::from_str(parts.next()?, false).ok()?;
            let collectives = CollectivesWish::from_str(parts.next()?, false).ok()?;
            let graphs = GraphsWish::from_str(parts.next()?, false).ok()?;
            let sharers = parts.next()?.parse().ok()?;
            Some(Self::Cuda { ordinal, kv_type, collectives, graphs, sharers })
        };
        match text {
            "cpu" => Ok(Self::Cpu),
            _ => cuda().ok_or_else(|| format!("{text} is neither cpu nor like cuda:0/f32/auto/on/2")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_DRIVER: Result<usize, Missing> = Err(Missing::DriverLibrary);

    fn flags(device: DeviceKind, cuda_devices: &[usize]) -> DeviceFlags {
        DeviceFlags { device, cuda_devices: cuda_devices.into(), ..DeviceFlags::default() }
    }

    fn ordinals(flags: &DeviceFlags, tp: u32, count: usize) -> Option<Vec<usize>> {
        match flags.place_among(tp, Ok(count)).unwrap() {
            Placement::Cpu { .. } => None,
            Placement::Cuda { ordinals, .. } => Some(ordinals),
        }
    }

    #[test]
    fn placement_auto_takes_cuda_only_with_a_device_for_each_rank_of_a_group() {
        let auto = flags(DeviceKind::Auto, &[]);
        assert_eq!(ordinals(&auto, 2, 2), Some(vec![0, 1]));
        assert_eq!(ordinals(&auto, 3, 2), None);
        let Ok(Placement::Cpu { reason }) = auto.place_among(1, NO_DRIVER) else { panic!("not the CPU") };
        assert!(reason.contains("libcuda.so.1"), "{reason}");
    }

    #[test]
    fn placement_cuda_shares_devices_but_needs_one() {
        let cuda = flags(DeviceKind::Cuda, &[]);
        assert_eq!(ordinals(&cuda, 4, 2), Some(vec![0, 1]));
        assert_eq!(cuda.place_among(1, NO_DRIVER), Err(Missing::DriverLibrary.into()));
        let error = PlacementError::from(Missing::DriverLibrary).to_string();
        assert!(error.contains("libcuda.so.1") && error.contains("--device cpu"), "{error}");
    }

    #[test]
    fn placement_gives_each_rank_the_device_that_is_named_for_it() {
        let placement = flags(DeviceKind::Auto, &[3, 1]).place_among(4, Ok(4)).unwrap();
        let devices = [0, 1, 2, 3].map(|rank| placement.of_rank(rank, 4).to_string());
        assert_eq!(devices, [3, 1, 3, 1].map(|ordinal| format!("cuda:{ordinal}/f32/auto/auto/4")));
        let beyond = flags(DeviceKind::Cuda, &[0, 4]).place_among(1, Ok(4));
        assert_eq!(beyond, Err(PlacementError::NoSuchDevice { ordinal: 4, count: 4 }));
    }

    #[test]
    fn placement_refuses_flags_that_would_do_nothing() {
        let refused = |flags: DeviceFlags| flags.place_among(1, NO_DRIVER).unwrap_err().to_string();
        assert!(refused(flags(DeviceKind::Auto, &[0])).starts_with("--cuda-devices is of use"));
        let rounded = DeviceFlags { kv_type: Some(CacheType::Bf16), ..flags(DeviceKind::Auto, &[]) };
        assert!(refused(rounded).starts_with("--kv-type is of use"));
        let joined = DeviceFlags { collectives: Some(CollectivesWish::Host), ..flags(DeviceKind::Auto, &[]) };
        assert!(refused(joined).starts_with("--collectives is of use"));
        let captured = DeviceFlags { graphs: Some(GraphsWish::On), ..flags(DeviceKind::Auto, &[]) };
        assert!(refused(captured).starts_with("--graphs is of use"));
    }

    #[test]
    fn placement_of_a_rank_is_read_as_it_was_written() {
        let cuda = RankDevice::Cuda {
            ordinal: 12,
            kv_type: CacheType::Bf16,
            collectives: CollectivesWish::Nccl,
            graphs: GraphsWish::Off,
            sharers: 2,
        };
        for device in [RankDevice::Cpu, cuda] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for wrong in [
            "",
            "gpu",
            "cuda:/f32/auto/on/2",
            "cuda:0",
            "cuda:0/f32/auto/2",
            "cuda:0/f64/auto/on/2",
            "cuda:-1/f32/auto/on/2",
            "cuda:0/f32/auto/on/2/x",
        ] {
            assert!(wrong.parse::<RankDevice>().is_err(), "{wrong}");
        }
    }
}
