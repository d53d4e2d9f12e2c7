//! The interface to a rank process: its command line, written by the front end and read by the rank. All else is on the wire.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::placement::RankDevice;
use crate::fabric::FabricKind;
use crate::group::Transport;
use crate::wire::{Keeping, RankName, Role, Seat};
use lockstep_spec::ids::Epoch;

/// How many forwards a group launches ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// None: a forward is launched when the last one has retired.
    Normal,
    /// One: a forward is queued behind the running one.
    Overlap,
    /// One, too, and a vote that a launch goes with is reduced in the devices' queue.
    Stream,
}

impl Mode {
    /// The name on command lines and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Overlap => "overlap",
            Self::Stream => "stream",
        }
    }
}

/// Directory of the ranks' last lines, in the directory of their epoch.
pub(crate) const EVIDENCE: &str = "evidence";

/// What a rank is told when the supervisor starts it.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RankArguments {
    /// Process id of the front end, whose child the rank must be
    #[arg(long)]
    pub front: u32,
    /// Socket of the front end for this rank's messages
    #[arg(long)]
    pub control_socket: PathBuf,
    /// All else.
    #[command(flatten)]
    pub plan: RankPlan,
}

/// What a rank is and does in one epoch, whoever started it.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RankPlan {
    /// Group of the rank
    #[arg(long)]
    pub role: Role,
    /// Index of the rank in its group
    #[arg(long)]
    pub rank: u32,
    /// Ranks of the group
    #[arg(long)]
    pub size: u32,
    /// Ranks of the other group
    #[arg(long)]
    pub peers: u32,
    /// Epoch that the group is to form
    #[arg(long)]
    pub epoch: u64,
    /// Number that no other deployment has
    #[arg(long)]
    pub deployment: u64,
    /// Directory for the sockets of the ranks among each other
    #[arg(long)]
    pub run_directory: PathBuf,
    /// What computes the rank's forwards
    #[arg(long)]
    pub device: RankDevice,
    /// What carries the group's collectives
    #[arg(long)]
    pub transport: Transport,
    /// Bootstrap server through which ranks find each other, if KV is to travel over TCP
    #[arg(long)]
    pub bootstrap: Option<SocketAddr>,
    /// Times that a decode rank tries to reach its prefill rank, a second apart
    #[arg(long)]
    pub handshake_tries: u32,
    /// Directory of the model
    #[arg(long)]
    pub model: PathBuf,
    /// Mode of the group
    #[arg(long)]
    pub mode: Mode,
    /// Requests that the group holds at once
    #[arg(long)]
    pub slots: u32,
    /// KV pages of the rank
    #[arg(long)]
    pub pages: u32,
    /// Bytes for KV pages, where fewer than `pages` may fit
    #[arg(long)]
    pub kv_memory: Option<u64>,
    /// Positions of a KV page
    #[arg(long)]
    pub page_size: u32,
    /// Tokens of one prefill forward at most
    #[arg(long)]
    pub chunk_tokens: u32,
    /// What carries KV, where no bootstrap server is named
    #[arg(long, value_enum)]
    pub fabric: FabricKind,
    /// What the group keeps, where it is the prefill group
    #[command(flatten)]
    pub keeping: Keeping,
    /// Directory for the rank's trace, if one is wanted
    #[arg(long)]
    pub trace: Option<PathBuf>,
    /// Whether the class need not be model-checked
    #[arg(long)]
    pub unchecked: bool,
    /// Whether the other group is a deployment of its own
    #[arg(long)]
    pub apart: bool,
}

impl RankPlan {
    /// The rank's name.
    pub fn name(&self) -> RankName {
        RankName { role: self.role, rank: self.rank }
    }

    /// The rank's place in its epoch.
    pub fn seat(&self) -> Seat {
        Seat { epoch: Epoch(self.epoch), name: self.name() }
    }

    /// The file of the rank's trace, if one is wanted.
    pub(crate) fn trace_file(&self) -> Option<PathBuf> {
        self.trace.as_ref().map(|directory| directory.join(format!("e{}-{}", self.epoch, self.record_name())))
    }

    /// The file in which the rank leaves its last lines when it ends.
    pub(crate) fn last_lines_file(&self) -> PathBuf {
        self.run_directory.join(EVIDENCE).join(self.record_name())
    }

    /// The name of what the rank records.
    pub(crate) fn record_name(&self) -> String {
        format!("{}-{}.ndjson", self.role, self.rank)
    }
}

impl RankArguments {
    /// The same rank in another epoch, whose sockets are in `run_directory`.
    pub(crate) fn of_epoch(self, epoch: Epoch, run_directory: &Path) -> Self {
        let plan = RankPlan { epoch: epoch.0, run_directory: run_directory.into(), ..self.plan };
        Self { plan, ..self }
    }

    /// The arguments of the process.
    pub(crate) fn command_line(&self) -> Vec<OsString> {
        let Self { front, control_socket, plan } = self;
        let flags: [(&str, OsString); 22] = [
            ("--role=", plan.role.name().into()),
            ("--rank=", plan.rank.to_string().into()),
            ("--size=", plan.size.to_string().into()),
            ("--peers=", plan.peers.to_string().into()),
            ("--epoch=", plan.epoch.to_string().into()),
            ("--deployment=", plan.deployment.to_string().into()),
            ("--front=", front.to_string().into()),
            ("--control-socket=", control_socket.clone().into()),
            ("--run-directory=", plan.run_directory.clone().into()),
            ("--device=", plan.device.to_string().into()),
            ("--transport=", plan.transport.name().into()),
            ("--handshake-tries=", plan.handshake_tries.to_string().into()),
            ("--model=", plan.model.clone().into()),
            ("--mode=", plan.mode.name().into()),
            ("--slots=", plan.slots.to_string().into()),
            ("--pages=", plan.pages.to_string().into()),
            ("--page-size=", plan.page_size.to_string().into()),
            ("--chunk-tokens=", plan.chunk_tokens.to_string().into()),
            ("--fabric=", plan.fabric.name().into()),
            ("--prefix-pages=", plan.keeping.prefix_pages.to_string().into()),
            ("--host-pages=", plan.keeping.host_pages.to_string().into()),
            ("--swap-pages=", plan.keeping.swap_pages.to_string().into()),
        ];
        let flags =
            flags.iter().map(|(name, value)| [OsStr::new(name), value.as_os_str()].into_iter().collect());
        let trace =
            plan.trace.iter().map(|trace| [OsStr::new("--trace="), trace.as_os_str()].into_iter().collect());
        let bootstrap = plan.bootstrap.map(|server| format!("--bootstrap={server}").into());
        let kv_memory = plan.kv_memory.map(|bytes| format!("--kv-memory={bytes}").into());
        let unchecked = plan.unchecked.then(|| "--unchecked".into());
        let apart = plan.apart.then(|| "--apart".into());
        std::iter::once("child".into())
            .chain(flags)
            .chain(bootstrap)
            .chain(kv_memory)
            .chain(trace)
            .chain(unchecked)
            .chain(apart)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CacheType;
    use crate::launch::cli::{Cli, Command};
    use crate::launch::{CollectivesWish, GraphsWish};
    use clap::Parser;

    #[test]
    fn rank_arguments_are_read_as_they_were_written() {
        let plan = RankPlan {
            role: Role::Prefill,
            rank: 1,
            size: 2,
            peers: 4,
            epoch: 3,
            deployment: u64::MAX,
            run_directory: "-odd".into(),
            device: RankDevice::Cuda {
                ordinal: 3,
                kv_type: CacheType::Bf16,
                collectives: CollectivesWish::Nccl,
                graphs: GraphsWish::On,
                sharers: 4,
            },
            transport: Transport::Tcp,
            handshake_tries: 9,
            bootstrap: Some("[::1]:70".parse().unwrap()),
            model: "/models/m".into(),
            mode: Mode::Overlap,
            slots: 5,
            pages: 6,
            kv_memory: Some(9 << 30),
            page_size: 7,
            chunk_tokens: 8,
            fabric: FabricKind::Unix,
            keeping: Keeping { prefix_pages: 9, host_pages: 10, swap_pages: 11 },
            trace: Some("/tr aces".into()),
            unchecked: true,
            apart: true,
        };
        let written = RankArguments { front: 4, control_socket: "/run/a b/control.sock".into(), plan };
        let line = [OsString::from("lockstep")].into_iter().chain(written.command_line());
        let Command::Child(read) = Cli::try_parse_from(line).unwrap().command else { panic!("no child") };
        assert_eq!(read, written);
    }
}
