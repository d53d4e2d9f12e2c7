//! Why the program could not do what it was asked to.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::model::ModelError;
use super::placement::PlacementError;
use crate::demo::DemoError;
use crate::frontend::TextError;
use crate::supervisor::SupervisorError;

/// A failed run of `serve` or `demo`.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The pages hold no request.
    #[error(
        "{pages} pages of {page_size} positions are too few for one request, which needs {needed} positions: raise --pages or --page-size"
    )]
    PagesTooFew {
        /// KV pages.
        pages: u32,
        /// Positions of a page.
        page_size: u32,
        /// Positions needed.
        needed: u64,
    },
    /// A bootstrap server is named, and nobody would ask it.
    #[error(
        "--bootstrap-port and --bootstrap-server are of use over TCP only: add --fabric tcp, or leave them out"
    )]
    NoBootstrap,
    /// A bootstrap server is named where there is no choice.
    #[error(
        "deployed apart, the bootstrap server is prefill's own: leave --bootstrap-server out, give --bootstrap-port to `lockstep prefill` alone, and --prefill to `lockstep decode`"
    )]
    ApartBootstrap,
    /// The ranks can not be placed on this machine's devices.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// Ranks of launchers would not find each other.
    #[error(
        "ranks that launchers start may be on several machines: add --transport tcp --fabric tcp to --ranks external"
    )]
    CalledOverTcp,
    /// A directory is named that is on the ranks' machines.
    #[error(
        "with --ranks external each rank has its own directory for traces and evidence: give --trace and --evidence to `lockstep rank`"
    )]
    CalledRecords,
    /// Devices are named that are on the ranks' machines.
    #[error(
        "with --ranks external each rank says what computes: give --device, --cuda-devices, --kv-type, --collectives, --graphs and --kv-memory to `lockstep rank`"
    )]
    CalledDevices,
    /// There is no such model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model's tokenizer could not be loaded.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Somebody else listens on the port.
    #[error("port {port} on {host} is taken: stop what listens there, or choose another with {flag}")]
    PortTaken {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The flag that sets it.
        flag: &'static str,
    },
    /// The directory for traces cannot be used.
    #[error("traces cannot be written to {}: {source}; name another directory with --trace", .directory.display())]
    Trace {
        /// The directory.
        directory: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The directory for traces holds something.
    #[error("{} is not empty: name another directory with --trace, so that nothing is written over", .0.display())]
    TraceNotEmpty(PathBuf),
    /// The address could not be listened on.
    #[error("{host}:{port} can not be listened on: {source}")]
    Listen {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused something that every run needs.
    #[error("{what} failed: {source}")]
    System {
        /// What was refused.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The ranks did not start, or did not end.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// Ranks did not leave in an orderly way.
    #[error("stopped, but not in an orderly way:\n  {}", .ranks.join("\n  "))]
    Unclean {
        /// Which, and how they ended.
        ranks: Vec<String>,
    },
    /// The machine does not offer what `serve` needs.
    #[error("{missing} of the findings keep `lockstep serve` from running: do what they say")]
    Unfit {
        /// How many.
        missing: usize,
    },
    /// The demonstration did not go as it must.
    #[error("the demo failed: {0}")]
    Demo(#[from] DemoError),
}

impl LaunchError {
    /// A refusal of the system.
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// The process's exit code: 2 when the command line is to be changed, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::PagesTooFew { .. }
            | Self::NoBootstrap
            | Self::ApartBootstrap
            | Self::Placement(_)
            | Self::CalledOverTcp
            | Self::CalledRecords
            | Self::CalledDevices
            | Self::Model(_)
            | Self::Text(_)
            | Self::Trace { .. }
            | Self::TraceNotEmpty(_) => 2,
            Self::PortTaken { .. } | Self::Listen { .. } | Self::System { .. } => 1,
            Self::Supervisor(_) | Self::Unclean { .. } | Self::Unfit { .. } | Self::Demo(_) => 1,
        }
    }
}
