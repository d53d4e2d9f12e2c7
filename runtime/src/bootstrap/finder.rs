//! How a decode rank finds its prefill rank: it asks what the group is like, then where the rank is. What it is told is kept by spec's client.

use std::io;
use std::net::SocketAddr;

use super::client::{Client, Tick};
use super::error::{BootstrapError, Failure};
use super::messages::{PrefillServerInfo, RankAddress};
use crate::fabric::{Address, FabricError, Finder};

/// Asks for what the group is like.
pub(super) const GROUP: &str =
    "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1";

/// Which prefill rank is wanted, and what its group must be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Index of the rank.
    pub rank: u32,
    /// Ranks of the group.
    pub size: u32,
    /// Positions of a KV page.
    pub page_size: u32,
    /// Epoch of the group; any, where it counts its own.
    pub epoch: Option<u64>,
}

/// A decode rank's view of the bootstrap server.
#[derive(Debug)]
pub struct RankFinder {
    client: Client,
    wanted: Wanted,
}

impl RankFinder {
    /// One that asks this server.
    ///
    /// # Errors
    /// The system's reason.
    pub fn new(server: SocketAddr, wanted: Wanted) -> io::Result<Self> {
        Ok(Self { client: Client::new(server)?, wanted })
    }

    fn ask(&self, tick: Tick<'_>) -> Result<Address, BootstrapError> {
        let Wanted { rank, .. } = self.wanted;
        let info: PrefillServerInfo = self.client.get(GROUP, tick)?;
        self.check(&info).map_err(|why| self.client.blame(why))?;
        let path =
            format!("/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank={rank}&target_pp_rank=0");
        let found: RankAddress = self.client.get(&path, tick)?;
        self.check_epoch(found.epoch).map_err(|why| self.client.blame(why))?;
        Ok(Address::Tcp(SocketAddr::new(found.rank_ip, found.rank_port)))
    }

    fn check(&self, info: &PrefillServerInfo) -> Result<(), Failure> {
        let Wanted { size, page_size, .. } = self.wanted;
        let pairs = [
            ("attn_tp_size", info.attn_tp_size, size),
            ("attn_cp_size", info.attn_cp_size, 1),
            ("dp_size", info.dp_size, 1),
            ("pp_size", info.pp_size, 1),
            ("page_size", info.page_size.unwrap_or(page_size), page_size),
        ];
        match pairs.into_iter().find(|(_, theirs, ours)| theirs != ours) {
            Some((what, theirs, ours)) => {
                Err(Failure::Differs { what, theirs: theirs.into(), ours: ours.into() })
            }
            None => self.check_epoch(info.epoch),
        }
    }

    fn check_epoch(&self, epoch: Option<u64>) -> Result<(), Failure> {
        match epoch.zip(self.wanted.epoch) {
            Some((theirs, ours)) if theirs != ours => Err(Failure::Differs { what: "epoch", theirs, ours }),
            Some(_) | None => Ok(()),
        }
    }
}

impl Finder for RankFinder {
    fn find(&mut self, tick: Tick<'_>) -> Result<Address, FabricError> {
        self.ask(tick).map_err(|error| FabricError::Unfound(error.to_string()))
    }
}
