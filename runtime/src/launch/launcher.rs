//! Which rank of how many this process is, as a launcher tells it in environment variables. Flags win over all of them.

use std::fmt;

use clap::ValueEnum;
use thiserror::Error;

/// A program that starts ranks and tells each its index and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Launcher {
    /// A LeaderWorkerSet of Kubernetes, one rank in each pod.
    Lws,
    /// mpirun of Open MPI.
    Mpi,
    /// srun of Slurm.
    Slurm,
    /// torchrun, or whoever sets the same variables.
    Torchrun,
}

impl Launcher {
    /// All of them.
    const ALL: [Self; 4] = [Self::Lws, Self::Mpi, Self::Slurm, Self::Torchrun];

    /// The name on command lines and in messages.
    fn name(self) -> &'static str {
        match self {
            Self::Lws => "lws",
            Self::Mpi => "mpi",
            Self::Slurm => "slurm",
            Self::Torchrun => "torchrun",
        }
    }

    /// The variables of a rank's index and of the number of ranks; of the latter the first that is set counts.
    fn variables(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Lws => ("LWS_WORKER_INDEX", &["LWS_GROUP_SIZE"]),
            Self::Mpi => ("OMPI_COMM_WORLD_RANK", &["OMPI_COMM_WORLD_SIZE"]),
            // Under sbatch the second may be the whole job's.
            Self::Slurm => ("SLURM_PROCID", &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]),
            Self::Torchrun => ("RANK", &["WORLD_SIZE"]),
        }
    }
}

/// A rank's index and the number of ranks of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The index, below the size.
    pub(crate) rank: u32,
    /// The number of ranks.
    pub(crate) size: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "rank {} of {}", self.rank, self.size)
    }
}

/// What the command line says of the place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// `--rank`.
    pub(crate) rank: Option<u32>,
    /// `--world-size`.
    pub(crate) size: Option<u32>,
    /// `--launcher`: look at this one's variables only.
    pub(crate) launcher: Option<Launcher>,
}

/// Why a process does not know which rank it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PlaceError {
    /// Nobody tells it.
    #[error(
        "which rank this is is not known: give --rank and --world-size, or start it with a launcher; looked for {looked_for}"
    )]
    Unknown {
        /// The launchers' variables, and which of them are set.
        looked_for: String,
    },
    /// Launchers within launchers tell different things.
    #[error("which rank this is is told in several ways ({}): choose one with --launcher, or give --rank and --world-size", .0.join("; "))]
    Ambiguous(Vec<String>),
    /// A variable is no number.
    #[error("{name}={value:?} is no number of a rank or of ranks")]
    NoNumber {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
    },
    /// There is no such rank.
    #[error("there is no {0}: ranks are counted from 0")]
    Beyond(Place),
}

/// Finds the place of this process, whose environment variables `variable` tells.
///
/// # Errors
/// [`PlaceError`]; all of them are for the operator to repair.
pub(crate) fn find(asked: Asked, variable: impl Fn(&str) -> Option<String>) -> Result<Place, PlaceError> {
    let place = match (asked.rank, asked.size) {
        (Some(rank), Some(size)) => Place { rank, size },
        (_, _) => told(asked, &variable)?,
    };
    if place.rank < place.size { Ok(place) } else { Err(PlaceError::Beyond(place)) }
}

/// The rank's index among those on its machine, if a launcher tells it; else 0, as where each rank sees its own device alone.
pub(crate) fn local_rank(variable: impl Fn(&str) -> Option<String>) -> u32 {
    let names = ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"];
    names.iter().find_map(|name| variable(name)?.trim().parse().ok()).unwrap_or(0)
}

/// What the launchers tell, where all that tell anything whole tell the same.
fn told(asked: Asked, variable: &impl Fn(&str) -> Option<String>) -> Result<Place, PlaceError> {
    let launchers = || Launcher::ALL.into_iter().filter(|one| asked.launcher.is_none_or(|only| only == *one));
    let mut found: Vec<(Launcher, Place)> = Vec::new();
    for launcher in launchers() {
        let (rank, sizes) = launcher.variables();
        let rank = number(asked.rank, &[rank], variable)?;
        let size = number(asked.size, sizes, variable)?;
        found.extend(rank.zip(size).map(|(rank, size)| (launcher, Place { rank, size })));
    }
    match found.as_slice() {
        [] => Err(PlaceError::Unknown { looked_for: looked_for(launchers(), variable) }),
        [(_, place), rest @ ..] if rest.iter().all(|(_, other)| other == place) => Ok(*place),
        several => Err(PlaceError::Ambiguous(
            several.iter().map(|(launcher, place)| format!("{}: {place}", launcher.name())).collect(),
        )),
    }
}

fn number(
    flag: Option<u32>,
    names: &[&'static str],
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Option<u32>, PlaceError> {
    let set = || names.iter().find_map(|&name| Some((name, variable(name)?)));
    match (flag, set()) {
        (Some(flag), _) => Ok(Some(flag)),
        (None, None) => Ok(None),
        (None, Some((name, value))) => {
            value.trim().parse().map(Some).map_err(|_| PlaceError::NoNumber { name, value })
        }
    }
}

fn looked_for(
    launchers: impl Iterator<Item = Launcher>,
    variable: &impl Fn(&str) -> Option<String>,
) -> String {
    let shown = |name: &str| match variable(name) {
        Some(value) => format!("{name} (set to {value})"),
        None => format!("{name} (not set)"),
    };
    let of_one = |launcher: Launcher| {
        let (rank, sizes) = launcher.variables();
        let sizes: Vec<String> = sizes.iter().map(|name| shown(name)).collect();
        format!("{} and {} of {}", shown(rank), sizes.join(" or "), launcher.name())
    };
    launchers.map(of_one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_in(asked: Asked, variables: &str) -> Result<Place, PlaceError> {
        let lookup = |name: &str| {
            let pairs = variables.split_whitespace().map(|pair| pair.split_once('=').unwrap());
            pairs.filter(|(set, _)| *set == name).map(|(_, value)| value.to_owned()).next_back()
        };
        find(asked, lookup)
    }

    const NOTHING: Asked = Asked { rank: None, size: None, launcher: None };
    const SECOND_OF_FOUR: Result<Place, PlaceError> = Ok(Place { rank: 1, size: 4 });

    #[test]
    fn launcher_of_each_kind_tells_the_place() {
        for variables in [
            "RANK=1 WORLD_SIZE=4 LOCAL_RANK=0 MASTER_ADDR=node0 MASTER_PORT=29500",
            "LWS_WORKER_INDEX=1 LWS_GROUP_SIZE=4 LWS_LEADER_ADDRESS=a.b.c",
            "SLURM_PROCID=1 SLURM_NTASKS=4",
            "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=64",
            "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1",
        ] {
            assert_eq!(find_in(NOTHING, variables), SECOND_OF_FOUR, "{variables}");
        }
    }

    #[test]
    fn launcher_flags_win_one_by_one() {
        let torchrun = "RANK=7 WORLD_SIZE=8";
        let both = Asked { rank: Some(1), size: Some(4), launcher: None };
        assert_eq!(find_in(both, torchrun), SECOND_OF_FOUR);
        assert_eq!(find_in(both, "RANK=x"), SECOND_OF_FOUR, "nobody looks");
        assert_eq!(find_in(Asked { size: Some(4), ..NOTHING }, "RANK=1"), SECOND_OF_FOUR);
        assert_eq!(find_in(Asked { rank: Some(1), ..NOTHING }, "WORLD_SIZE=4"), SECOND_OF_FOUR);
    }

    #[test]
    fn launchers_within_launchers_must_agree_or_be_chosen_among() {
        let inner = "SLURM_PROCID=0 SLURM_NTASKS=2 RANK=1 WORLD_SIZE=4";
        let error = find_in(NOTHING, inner).unwrap_err().to_string();
        assert!(error.contains("slurm: rank 0 of 2; torchrun: rank 1 of 4"), "{error}");
        assert!(error.contains("--launcher"), "{error}");
        let chosen = Asked { launcher: Some(Launcher::Torchrun), ..NOTHING };
        assert_eq!(find_in(chosen, inner), SECOND_OF_FOUR);
        assert_eq!(find_in(NOTHING, "SLURM_NTASKS=64 RANK=1 WORLD_SIZE=4"), SECOND_OF_FOUR, "half of one");
        let same = "SLURM_PROCID=1 SLURM_NTASKS=4 RANK=1 WORLD_SIZE=4";
        assert_eq!(find_in(NOTHING, same), SECOND_OF_FOUR);
    }

    #[test]
    fn launcher_that_tells_too_little_is_told_what_was_looked_for() {
        let error = find_in(NOTHING, "RANK=1").unwrap_err().to_string();
        for name in ["LWS_WORKER_INDEX (not set)", "RANK (set to 1)", "WORLD_SIZE (not set)", "--world-size"]
        {
            assert!(error.contains(name), "{name}: {error}");
        }
        let chosen = Asked { launcher: Some(Launcher::Mpi), ..NOTHING };
        let error = find_in(chosen, "RANK=1 WORLD_SIZE=4").unwrap_err().to_string();
        assert!(error.contains("OMPI_COMM_WORLD_RANK (not set)") && !error.contains("LWS"), "{error}");
        assert!(find_in(NOTHING, "RANK=one WORLD_SIZE=4").unwrap_err().to_string().contains("RANK=\"one\""));
        assert_eq!(
            find_in(NOTHING, "RANK=4 WORLD_SIZE=4"),
            Err(PlaceError::Beyond(Place { rank: 4, size: 4 }))
        );
    }
}
