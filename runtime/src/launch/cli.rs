//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};

use super::enlist::RankFlags;
use super::error::LaunchError;
use super::placement::DeviceFlags;
use super::rank_arguments::{Mode, RankArguments};
use crate::bootstrap;
use crate::fabric::FabricKind;
use crate::frontend::DEFAULT_MAX_TOKENS;
use crate::group::Transport;
use crate::wire::{Keeping, Sizes};

/// A model-checked decode scheduler for LLM serving with separate prefill and decode groups.
#[derive(Debug, Parser)]
#[command(name = "lockstep", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One rank; started by the front end, not by hand
    #[command(hide = true)]
    Child(RankArguments),
    /// Serve with a decode group alone; its prefill group is a `lockstep prefill`, and each is lost and started anew by itself
    Decode(DecodeFlags),
    /// Start both groups, send four prompts over HTTP, show what came and what agreement cost, and stop
    Demo(GroupFlags),
    /// Say what this machine offers to a `serve` with the same flags, and what to do about what is missing; fails if it could not run
    Doctor(DoctorFlags),
    /// A prefill group with its front end and bootstrap server, to which one `lockstep decode` attaches
    Prefill(FrontFlags),
    /// One rank of a front end that runs elsewhere; to be started by torchrun, a LeaderWorkerSet, Slurm, mpirun or a shell
    Rank(RankFlags),
    /// Serve a model over HTTP until SIGTERM or SIGINT
    Serve(ServeFlags),
}

/// What `doctor` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Write one JSON document instead of lines
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) serve: ServeFlags,
}

/// What `decode` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct DecodeFlags {
    /// Address and port of the prefill deployment's bootstrap server
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8998")]
    pub(crate) prefill: SocketAddr,
    #[command(flatten)]
    pub(crate) front: FrontFlags,
}

/// What every front end takes, whichever groups it has.
#[derive(Clone, Debug, Args)]
pub(crate) struct FrontFlags {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8000)]
    pub(crate) port: u16,
    /// Requests that may be outstanding; one more is answered 429
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_queue: u32,
    /// Times within ten minutes that lost groups are started anew; 0 leaves that to the operator
    #[arg(long, default_value_t = 8, value_parser = value_parser!(u32).range(..=1_000_000))]
    pub(crate) restarts: u32,
    /// Seconds that running requests get to end when the server is to stop; a second signal ends it at once
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u32).range(..=86_400))]
    pub(crate) drain_seconds: u32,
    #[command(flatten)]
    pub(crate) group: GroupFlags,
}

/// What `serve` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeFlags {
    /// Who starts the ranks
    #[arg(long, value_enum, default_value_t)]
    pub(crate) ranks: RankSource,
    /// Address and port at which ranks that launchers start are to call (`lockstep rank --frontend`)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8100")]
    pub(crate) control: SocketAddr,
    /// Seconds within which launchers must bring lost ranks back; then streams that wait for them end with an error
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = value_parser!(u32).range(1..=86_400))]
    pub(crate) absence_seconds: u32,
    #[command(flatten)]
    pub(crate) front: FrontFlags,
}

/// Who starts the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RankSource {
    /// Launchers, each rank as `lockstep rank`, on whichever machines
    External,
    /// This program, on its own machine
    #[default]
    Local,
}

/// What describes the model and the two groups.
#[derive(Clone, Debug, Args)]
pub struct GroupFlags {
    /// Directory of the model: config.json, tokenizer.json, model.safetensors [default: the bundled kjv-1m]
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Ranks of each group
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(1..=256))]
    pub tp: u32,
    /// Ranks of the decode group, where it is to have others than --tp
    #[arg(long, value_name = "TP", value_parser = value_parser!(u32).range(1..=256))]
    pub decode_tp: Option<u32>,
    /// Ranks of the prefill group, where it is to have others than --tp
    #[arg(long, value_name = "TP", value_parser = value_parser!(u32).range(1..=256))]
    pub prefill_tp: Option<u32>,
    /// Requests that each group holds at once
    #[arg(long, default_value_t = 8, value_parser = value_parser!(u32).range(1..=4096))]
    pub slots: u32,
    /// KV pages of each rank
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u32).range(1..=16_777_216))]
    pub pages: u32,
    /// Positions of a KV page
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u32).range(1..=4096))]
    pub page_size: u32,
    /// Tokens of one prefill forward at most; longer prompts are computed in chunks
    #[arg(long, default_value_t = 512, value_parser = value_parser!(u32).range(1..=1_048_576))]
    pub chunk_tokens: u32,
    /// What is kept.
    #[command(flatten)]
    pub keeping: Keeping,
    /// What computes.
    #[command(flatten)]
    pub device: DeviceFlags,
    /// What carries the collectives between the ranks of a group
    #[arg(long, value_enum, default_value_t)]
    pub transport: Transport,
    /// What carries KV from the prefill ranks to the decode ranks; over TCP they find each other through a bootstrap server
    #[arg(long, value_enum, default_value_t)]
    pub fabric: FabricKind,
    /// Port of the bootstrap server; 8998 if none is named [default: a free one]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = bootstrap::DEFAULT_PORT)]
    pub bootstrap_port: Option<u16>,
    /// Address and port of a bootstrap server that the ranks are to use instead of this program's own
    #[arg(long, value_name = "ADDRESS")]
    pub bootstrap_server: Option<SocketAddr>,
    /// Times that a decode rank tries to reach its prefill rank, a second apart, until a handshake has failed
    #[arg(long, value_name = "COUNT", default_value_t = 15, value_parser = value_parser!(u32).range(1..=86_400))]
    pub handshake_tries: u32,
    /// Launch no forward before the last one has retired
    #[arg(long)]
    pub no_overlap: bool,
    /// Reduce votes that launches go with in the devices' queue, ahead of the forward, and not between the hosts
    #[arg(long, conflicts_with = "no_overlap")]
    pub votes_in_stream: bool,
    /// Directory, empty or to be made, in which every rank writes a trace for `lockstep-check validate`
    #[arg(long, value_name = "DIR")]
    pub trace: Option<PathBuf>,
    /// Directory in which the last lines of lost groups' ranks are kept [default: lockstep-evidence among the temporary files]
    #[arg(long, value_name = "DIR")]
    pub evidence: Option<PathBuf>,
    /// Start even if this class of group was not model-checked
    #[arg(long)]
    pub unchecked: bool,
}

impl GroupFlags {
    /// Ranks of the groups.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let Self { tp, decode_tp, prefill_tp, .. } = *self;
        Sizes { decode: decode_tp.unwrap_or(tp), prefill: prefill_tp.unwrap_or(tp) }
    }

    /// The mode of both groups.
    pub fn mode(&self) -> Mode {
        match (self.no_overlap, self.votes_in_stream) {
            (true, _) => Mode::Normal,
            (false, true) => Mode::Stream,
            (false, false) => Mode::Overlap,
        }
    }

    /// Checks what the flags mean together.
    ///
    /// # Errors
    /// [`LaunchError::PagesTooFew`] when not even one short request of the default length fits, [`LaunchError::NoBootstrap`] when a
    /// bootstrap server is named that nobody would ask.
    pub fn check(&self) -> Result<(), LaunchError> {
        let positions = u64::from(self.pages) * u64::from(self.page_size);
        let needed = u64::from(DEFAULT_MAX_TOKENS);
        if positions < needed {
            return Err(LaunchError::PagesTooFew { pages: self.pages, page_size: self.page_size, needed });
        }
        let named = self.bootstrap_port.is_some() || self.bootstrap_server.is_some();
        match (self.fabric, named) {
            (FabricKind::Shm | FabricKind::Unix, true) => Err(LaunchError::NoBootstrap),
            (FabricKind::Shm | FabricKind::Unix, false) | (FabricKind::Tcp, _) => Ok(()),
        }
    }

    /// Checks what the flags mean where launchers start the ranks.
    ///
    /// # Errors
    /// [`LaunchError::CalledOverTcp`] when ranks of several machines could not meet, [`LaunchError::CalledRecords`] or
    /// [`LaunchError::CalledDevices`] when a directory or a device is named that is the ranks' own matter.
    pub(crate) fn check_called(&self) -> Result<(), LaunchError> {
        match (self.transport, self.fabric) {
            (Transport::Tcp, FabricKind::Tcp) => {}
            (Transport::Shm | Transport::Unix, _) | (_, FabricKind::Shm | FabricKind::Unix) => {
                return Err(LaunchError::CalledOverTcp);
            }
        }
        let recorded = self.trace.is_some() || self.evidence.is_some();
        match (recorded, self.device == DeviceFlags::default()) {
            (true, _) => Err(LaunchError::CalledRecords),
            (false, false) => Err(LaunchError::CalledDevices),
            (false, true) => Ok(()),
        }
    }

    /// The port for a bootstrap server of this program's own, if there is to be one; 0 takes a free one.
    pub(crate) fn own_bootstrap_port(&self) -> Option<u16> {
        match (self.fabric, self.bootstrap_port, self.bootstrap_server) {
            (FabricKind::Shm | FabricKind::Unix, ..) | (FabricKind::Tcp, None, Some(_)) => None,
            (FabricKind::Tcp, port, _) => Some(port.unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(["lockstep"].into_iter().chain(arguments.split_whitespace()))
    }

    #[test]
    fn cli_refuses_groups_that_can_not_be() {
        for wrong in [
            "--tp 0",
            "--slots 0",
            "--pages 0",
            "--page-size 0",
            "--max-queue 0",
            "--port 70000",
            "--transport pigeon",
            "--what",
        ] {
            assert!(parse(&format!("serve {wrong}")).is_err(), "{wrong}");
        }
        assert!(parse("serve --tp 4 --no-overlap").is_ok());
    }

    #[test]
    fn cli_flags_must_make_sense_together() {
        let check = |arguments: &str| match parse(arguments).unwrap().command {
            Command::Demo(flags) => flags.check(),
            Command::Child(_) | Command::Decode(_) | Command::Doctor(_) => panic!("not the demo"),
            Command::Prefill(_) | Command::Rank(_) | Command::Serve(_) => {
                panic!("not the demo")
            }
        };
        assert!(check("demo --bootstrap-port").is_err(), "nobody would ask it");
        assert!(check("demo --bootstrap-port --fabric tcp").is_ok());
        let called =
            |arguments: &str| match parse(&format!("serve --ranks external {arguments}")).unwrap().command {
                Command::Serve(flags) => flags.front.group.check_called(),
                Command::Child(_) | Command::Decode(_) | Command::Demo(_) => panic!("not the server"),
                Command::Doctor(_) | Command::Prefill(_) | Command::Rank(_) => {
                    panic!("not the server")
                }
            };
        assert!(called("").is_err() && called("--transport tcp").is_err() && called("--fabric tcp").is_err());
        assert!(called("--transport tcp --fabric tcp").is_ok());
        assert!(called("--transport tcp --fabric tcp --trace t").is_err(), "the ranks' own");
        assert!(check("demo --pages 15 --page-size 1").is_err());
        assert!(check("demo --pages 16 --page-size 1").is_ok());
    }

    #[test]
    fn cli_bootstrap_server_is_on_a_free_port_unless_one_is_asked_for() {
        let port = |arguments: &str| match parse(&format!("demo {arguments}")).unwrap().command {
            Command::Demo(flags) => flags.own_bootstrap_port(),
            Command::Child(_) | Command::Decode(_) | Command::Doctor(_) => panic!("not the demo"),
            Command::Prefill(_) | Command::Rank(_) | Command::Serve(_) => {
                panic!("not the demo")
            }
        };
        assert_eq!(port(""), None);
        assert_eq!(port("--fabric tcp"), Some(0));
        assert_eq!(port("--fabric tcp --bootstrap-port"), Some(8998));
        assert_eq!(port("--fabric tcp --bootstrap-port 70 --bootstrap-server 10.1.2.3:71"), Some(70));
        assert_eq!(port("--fabric tcp --bootstrap-server 10.1.2.3:71"), None);
    }
}
