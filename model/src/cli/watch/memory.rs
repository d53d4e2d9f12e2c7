//! Memory of the process, of the machine, and of the control groups that the process is in.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Part of all memory that the process may take when nothing is asked for, in sixteenths.
const DEFAULT_SIXTEENTHS: u64 = 15;
/// Part of all memory that must stay free, as a divisor: other programs, and the kernel, take some at any time.
const FREE_DIVISOR: u64 = 32;

/// Bytes that a search may take between two looks. Where the address space ends no allocation fails gently, so they count as taken.
const BLOCK_BYTES: u64 = 64 << 20;

/// Part of the limit at which it is told, in per cent.
const NEAR_PERCENT: u64 = 80;

/// A number of bytes, as the command line gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "" | "B" => Some(0),
            "K" | "KiB" => Some(10),
            "M" | "MiB" => Some(20),
            "G" | "GiB" => Some(30),
            "T" | "TiB" => Some(40),
            _ => None,
        };
        let number = digits.parse::<u64>().ok();
        let bytes = number.zip(unit).and_then(|(number, unit)| number.checked_mul(1 << unit));
        bytes.map(Self).ok_or_else(|| {
            "write a number of bytes with or without K, M, G, T, such as 512M or 8GiB".to_owned()
        })
    }
}

/// Memory at a moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// What this process has.
    pub(crate) resident: u64,
    /// What can still be taken.
    pub(crate) free: u64,
    /// What there is: of the machine, of the smallest control group around the process, or of its address space (`ulimit -v`).
    pub(crate) total: u64,
}

/// How much memory may be used.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLimit {
    /// The machine.
    pub(crate) machine: Machine,
    most: u64,
    least_free: u64,
}

impl MemoryLimit {
    /// The limit asked for, or one that the machine bears; `None` where the machine does not tell its memory.
    pub(crate) fn new(machine: Machine, asked: Option<Bytes>) -> Option<Self> {
        let total = machine.memory()?.total;
        let most = asked.map_or(total / 16 * DEFAULT_SIXTEENTHS, |asked| asked.0);
        Some(Self { machine, most, least_free: total / FREE_DIVISOR })
    }

    /// Bytes at which the run will be given up, as far as can be told now.
    pub(crate) fn end(&self, memory: &Memory) -> u64 {
        self.most.min(memory.resident.saturating_add(memory.free.saturating_sub(self.least_free)))
    }

    /// Whether the process has so much, if `ahead` more bytes are taken, that whoever looks on should know of the end.
    pub(crate) fn is_near(&self, memory: &Memory, ahead: u64) -> bool {
        memory.resident.saturating_add(ahead) > self.end(memory) / 100 * NEAR_PERCENT
    }

    /// Whether the process has too much, or the machine too little, if `ahead` more bytes are taken.
    pub(crate) const fn is_spent(&self, memory: &Memory, ahead: u64) -> bool {
        memory.resident.saturating_add(ahead) > self.most
            || memory.free < self.least_free.saturating_add(ahead)
    }
}

/// The files in which Linux tells its memory.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    root: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self { root: PathBuf::from("/") }
    }
}

/// Names by which a version of control groups tells its memory.
struct GroupFiles {
    folder: &'static str,
    limit: &'static str,
    usage: &'static str,
    cache: &'static str,
}

const VERSION_2: GroupFiles = GroupFiles {
    folder: "sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    cache: "inactive_file",
};
const VERSION_1: GroupFiles = GroupFiles {
    folder: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: "total_inactive_file",
};

impl Machine {
    /// Memory now; `None` where these files are not.
    pub(crate) fn memory(&self) -> Option<Memory> {
        let status = self.read("proc/self/status")?;
        let machine = self.read("proc/meminfo")?;
        let resident = kibibytes(&status, "VmRSS:")?;
        let (mut total, mut free) =
            (kibibytes(&machine, "MemTotal:")?, kibibytes(&machine, "MemAvailable:")?);
        let space = self.address_space(&status);
        for (limit, left) in self.groups().into_iter().chain(space) {
            total = total.min(limit);
            free = free.min(left);
        }
        Some(Memory { resident, free, total })
    }

    /// Limit and what is left of it, of the process's address space, if it has one.
    fn address_space(&self, status: &str) -> Option<(u64, u64)> {
        let limits = self.read("proc/self/limits")?;
        let limit = field(&limits, "Max address space")?;
        let taken = kibibytes(status, "VmSize:")?.saturating_add(BLOCK_BYTES);
        Some((limit, limit.saturating_sub(taken)))
    }

    /// Limit and what is left of it, of each control group around the process that has a limit.
    fn groups(&self) -> Vec<(u64, u64)> {
        let listed = self.read("proc/self/cgroup").unwrap_or_default();
        let around = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let files = match controllers {
                "" => &VERSION_2,
                _ if controllers.split(',').any(|name| name == "memory") => &VERSION_1,
                _ => return None,
            };
            let own = Path::new(files.folder).join(path.trim_start_matches('/'));
            let inside = own.ancestors().take_while(|folder| folder.starts_with(files.folder));
            Some(inside.filter_map(|folder| self.group(folder, files)).collect::<Vec<_>>())
        };
        listed.lines().filter_map(around).flatten().collect()
    }

    fn group(&self, folder: &Path, files: &GroupFiles) -> Option<(u64, u64)> {
        let number = |name: &str| self.read(folder.join(name))?.trim().parse::<u64>().ok();
        let (limit, usage) = (number(files.limit)?, number(files.usage)?);
        let cache =
            self.read(folder.join("memory.stat")).and_then(|text| field(&text, files.cache)).unwrap_or(0);
        Some((limit, limit.saturating_sub(usage.saturating_sub(cache))))
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }
}

/// The number behind `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut of_name = text.lines().filter_map(|line| line.strip_prefix(name));
    of_name.find_map(|rest| rest.split_whitespace().next()?.parse().ok())
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    field(text, name).map(|number| number.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn machine(root: &Path) -> Machine {
        put(root, "proc/self/status", "Name:\tx\nVmRSS:\t    2048 kB\n");
        put(root, "proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 1 kB\nMemAvailable: 524288 kB\n");
        Machine { root: root.to_owned() }
    }

    #[test]
    fn memory_is_the_machines_without_groups() {
        let folder = tempfile::tempdir().unwrap();
        let memory = machine(folder.path()).memory();
        assert_eq!(memory, Some(Memory { resident: 2 * MIB, free: 512 * MIB, total: 1024 * MIB }));
        assert_eq!(Machine { root: folder.path().join("nowhere") }.memory(), None);
    }

    #[test]
    fn memory_is_that_of_the_smallest_group() {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path());
        put(folder.path(), "proc/self/cgroup", "0::/outer/inner\n");
        put(folder.path(), "sys/fs/cgroup/outer/memory.max", "104857600\n");
        put(folder.path(), "sys/fs/cgroup/outer/memory.current", "62914560\n");
        put(folder.path(), "sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 10485760\n");
        put(folder.path(), "sys/fs/cgroup/outer/inner/memory.max", "max\n");
        put(folder.path(), "sys/fs/cgroup/outer/inner/memory.current", "1\n");
        let memory = machine.memory();
        assert_eq!(memory, Some(Memory { resident: 2 * MIB, free: 50 * MIB, total: 100 * MIB }));
    }

    #[test]
    fn memory_reads_groups_of_version_one() {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path());
        put(folder.path(), "proc/self/cgroup", "5:cpu:/a\n4:memory:/job\n");
        put(folder.path(), "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        put(folder.path(), "sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
        put(folder.path(), "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "52428800\n");
        put(folder.path(), "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "52428800\n");
        assert_eq!(machine.memory(), Some(Memory { resident: 2 * MIB, free: 0, total: 50 * MIB }));
    }

    #[test]
    fn memory_is_that_of_a_bounded_address_space() {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path());
        let limits = |soft: &str| {
            format!("Limit  Soft  Hard  Units\nMax address space         {soft}   unlimited   bytes\n")
        };
        put(folder.path(), "proc/self/status", "VmSize:\t  10240 kB\nVmRSS:\t    2048 kB\n");
        put(folder.path(), "proc/self/limits", &limits("104857600"));
        let bounded = Memory { resident: 2 * MIB, free: 26 * MIB, total: 100 * MIB };
        assert_eq!(machine.memory(), Some(bounded));
        put(folder.path(), "proc/self/limits", &limits("unlimited"));
        assert_eq!(machine.memory().map(|memory| memory.total), Some(1024 * MIB));
    }

    #[test]
    fn memory_limit_is_near_before_it_is_spent() {
        let folder = tempfile::tempdir().unwrap();
        let limit = MemoryLimit::new(machine(folder.path()), Some(Bytes(100 * MIB))).unwrap();
        let with = |resident, free| Memory { resident: resident * MIB, free: free * MIB, total: 1024 * MIB };
        assert!(!limit.is_near(&with(79, 500), 0) && limit.is_near(&with(81, 500), 0));
        assert!(limit.is_near(&with(79, 500), 2 * MIB), "what is about to be taken counts");
        assert_eq!(limit.end(&with(50, 500)), 100 * MIB);
        assert_eq!(limit.end(&with(50, 42)), 60 * MIB, "32 MiB of the machine must stay free");
        assert!(limit.is_near(&with(50, 42), 0) && !limit.is_spent(&with(50, 42), 0));
    }

    #[test]
    fn memory_limit_stops_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let limit = MemoryLimit::new(machine(folder.path()), None).unwrap();
        let memory = Memory { resident: 2 * MIB, free: 512 * MIB, total: 1024 * MIB };
        assert!(!limit.is_spent(&memory, 0));
        assert!(limit.is_spent(&memory, 500 * MIB), "32 MiB must stay free");
        assert!(limit.is_spent(&Memory { resident: 970 * MIB, ..memory }, 0), "15 of 16 parts");
        let asked = MemoryLimit::new(machine(folder.path()), Some(Bytes(3 * MIB))).unwrap();
        assert!(!asked.is_spent(&memory, MIB));
        assert!(asked.is_spent(&memory, MIB + 1));
    }

    #[test]
    fn memory_is_written_with_units() {
        assert_eq!(
            ["12", "3K", "4MiB", "5G"].map(str::parse),
            [12, 3 << 10, 4 << 20, 5 << 30].map(|bytes| Ok(Bytes(bytes)))
        );
        assert!(
            ["", "G", "1.5G", "-1", "1X", "99999999999T"].iter().all(|text| text.parse::<Bytes>().is_err())
        );
    }
}
