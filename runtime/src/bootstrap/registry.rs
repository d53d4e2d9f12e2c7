//! What the bootstrap server knows of the prefill group. No I/O, no clock.

use std::collections::BTreeMap;
use std::fmt;

use lockstep_spec::ids::Epoch;

use super::error::Refusal;
use super::messages::{Coordinates, Layout, PrefillServerInfo, RankAddress, Registration};

/// Most ranks of a group; it bounds what is kept, with the length of a body.
const MOST_RANKS: usize = 4096;

/// Which rank a `GET /route` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Data-parallel group.
    pub dp: u32,
    /// Among those that share positions.
    pub cp: u32,
    /// Among those that share heads.
    pub tp: u32,
    /// Stage of the pipeline.
    pub pp: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dp, cp, tp, pp } = self;
        write!(out, "dp_rank={dp} cp_rank={cp} tp_rank={tp} pp_rank={pp}")
    }
}

/// The prefill group of one epoch.
#[derive(Debug)]
pub(super) struct Registry {
    epoch: Epoch,
    group: Option<Group>,
}

#[derive(Debug)]
struct Group {
    layout: Layout,
    http_port: Option<u16>,
    ranks: BTreeMap<Place, RankAddress>,
}

impl Registry {
    /// Knows nobody yet.
    pub(super) fn new(epoch: Epoch) -> Self {
        Self { epoch, group: None }
    }

    /// Notes the epoch that is. Another one than before voids what is known: those ranks are no more.
    pub(super) fn enter(&mut self, epoch: Epoch) {
        if self.epoch != epoch {
            *self = Self::new(epoch);
        }
    }

    /// Takes a rank in, or where it is now.
    pub(super) fn register(&mut self, registration: Registration) -> Result<(), Refusal> {
        let current = self.epoch.0;
        let Registration { layout, at, rank_ip, rank_port, prefill_http_port, epoch } = registration;
        if let Some(theirs) = epoch.filter(|theirs| *theirs != current) {
            return Err(Refusal::OtherEpoch { current, theirs });
        }
        let place = place(&layout, at)?;
        let group = match &mut self.group {
            Some(group) => group,
            none => none.insert(Group::of(layout.clone())?),
        };
        same_layout(&group.layout, &layout)?;
        group.http_port = group.http_port.or(prefill_http_port);
        group.ranks.insert(place, RankAddress { rank_ip, rank_port, epoch: Some(current) });
        Ok(())
    }

    /// What the group is like, once it is whole.
    pub(super) fn info(&self) -> Result<PrefillServerInfo, Refusal> {
        let Group { layout, http_port, .. } = self.whole()?;
        Ok(PrefillServerInfo {
            attn_tp_size: layout.attn_tp_size,
            attn_cp_size: layout.attn_cp_size,
            dp_size: layout.dp_size(),
            pp_size: layout.pp_size,
            page_size: Some(layout.page_size),
            kv_cache_dtype: layout.kv_cache_dtype.clone(),
            follow_bootstrap_room: layout.follows_room(),
            enable_dsa_cache_layer_split: layout.enable_dsa_cache_layer_split,
            dsv41_spec_layout: layout.dsv41_spec_layout.clone(),
            kv_layout: layout.kv_layout.clone(),
            decode_allocation_policy: layout.decode_allocation_policy.clone(),
            enable_kv_cache_sharding: layout.enable_kv_cache_sharding,
            prefill_http_port: *http_port,
            to_be_worked_out: super::messages::Blanks::default(),
            epoch: Some(self.epoch.0),
            line_port: None,
        })
    }

    /// Where a rank is, once the group is whole.
    pub(super) fn rank(&self, place: Place) -> Result<RankAddress, Refusal> {
        self.whole()?.ranks.get(&place).copied().ok_or(Refusal::NoSuchRank(place))
    }

    fn whole(&self) -> Result<&Group, Refusal> {
        let group = self.group.as_ref().ok_or(Refusal::NotWhole { registered: 0, expected: 0 })?;
        let (registered, expected) = (group.ranks.len(), group.layout.ranks());
        if registered as u128 == expected {
            Ok(group)
        } else {
            Err(Refusal::NotWhole { registered, expected })
        }
    }
}

impl Group {
    fn of(layout: Layout) -> Result<Self, Refusal> {
        let (ranks, limit) = (layout.ranks(), MOST_RANKS);
        if ranks > limit as u128 {
            return Err(Refusal::TooLarge { ranks, limit });
        }
        Ok(Self { layout, http_port: None, ranks: BTreeMap::new() })
    }
}

/// The place of a rank, which is within its group.
fn place(layout: &Layout, at: Coordinates) -> Result<Place, Refusal> {
    let dp = if layout.system_dp_size == 1 { at.attn_dp_rank } else { at.system_dp_rank };
    let axes = [
        ("attn_dp_rank or system_dp_rank", dp, layout.dp_size()),
        ("attn_cp_rank", at.attn_cp_rank, layout.attn_cp_size),
        ("attn_tp_rank", at.attn_tp_rank, layout.attn_tp_size),
        ("pp_rank", at.pp_rank, layout.pp_size),
    ];
    match axes.into_iter().find(|(_, rank, size)| rank >= size) {
        Some((name, rank, size)) => {
            Err(Refusal::Malformed(format!("{name} is {rank}, but there are {size}")))
        }
        None => Ok(Place { dp, cp: at.attn_cp_rank, tp: at.attn_tp_rank, pp: at.pp_rank }),
    }
}

fn same_layout(first: &Layout, other: &Layout) -> Result<(), Refusal> {
    let same = [
        ("attn_tp_size", first.attn_tp_size == other.attn_tp_size),
        ("attn_cp_size", first.attn_cp_size == other.attn_cp_size),
        ("dp_size", first.dp_size() == other.dp_size()),
        ("pp_size", first.pp_size == other.pp_size),
        ("page_size", first.page_size == other.page_size),
        ("kv_cache_dtype", first.kv_cache_dtype == other.kv_cache_dtype),
        ("kv_layout", first.kv_layout == other.kv_layout),
        ("dsv41_spec_layout", first.dsv41_spec_layout == other.dsv41_spec_layout),
        ("load_balance_method", first.follows_room() == other.follows_room()),
        (
            "enable_dsa_cache_layer_split",
            first.enable_dsa_cache_layer_split == other.enable_dsa_cache_layer_split,
        ),
        ("enable_kv_cache_sharding", first.enable_kv_cache_sharding == other.enable_kv_cache_sharding),
        ("decode_allocation_policy", first.decode_allocation_policy == other.decode_allocation_policy),
    ];
    match same.into_iter().find(|(_, same)| !same) {
        Some((name, _)) => Err(Refusal::Differs(name)),
        None => Ok(()),
    }
}
