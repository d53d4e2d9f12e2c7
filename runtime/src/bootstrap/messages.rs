//! The JSON of the bootstrap server; the names of fields are SGLang's, but for `epoch`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The way to balance load that stands for none named.
const FOLLOW_ROOM: &str = "follow_bootstrap_room";

/// Body of `PUT /route`: a prefill rank, and where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    /// What the rank has in common with all of its group.
    #[serde(flatten)]
    pub layout: Layout,
    /// Its place in the group.
    #[serde(flatten)]
    pub at: Coordinates,
    /// Its address.
    pub rank_ip: IpAddr,
    /// Its port.
    pub rank_port: u16,
    /// The port of its HTTP API.
    #[serde(default)]
    pub prefill_http_port: Option<u16>,
    /// The epoch of its group; whoever names none is of the epoch that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// What all ranks of a prefill group have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// Ranks that share a layer's heads.
    pub attn_tp_size: u32,
    /// Ranks that share a prompt's positions.
    pub attn_cp_size: u32,
    /// Data-parallel groups within the engine.
    pub attn_dp_size: u32,
    /// Stages of the pipeline.
    pub pp_size: u32,
    /// Data-parallel engines.
    pub system_dp_size: u32,
    /// Positions of a KV page.
    pub page_size: u32,
    /// What KV is stored as.
    pub kv_cache_dtype: Option<String>,
    /// How KV lies in a page.
    #[serde(default)]
    pub kv_layout: Option<String>,
    /// What a speculative decoder adds to it; handed on as it came.
    #[serde(default)]
    pub dsv41_spec_layout: Option<Value>,
    /// How requests are spread over data-parallel groups.
    #[serde(default)]
    pub load_balance_method: Option<String>,
    /// Whether the ranks share a layer's KV.
    #[serde(default)]
    pub enable_dsa_cache_layer_split: bool,
    /// Whether the ranks share the KV cache.
    #[serde(default)]
    pub enable_kv_cache_sharding: bool,
    /// When the decode side takes pages.
    #[serde(default)]
    pub decode_allocation_policy: Option<String>,
}

impl Layout {
    /// The layout of a group whose ranks share nothing but heads.
    #[must_use]
    pub fn of_heads(size: u32, page_size: u32) -> Self {
        Self {
            attn_tp_size: size,
            attn_cp_size: 1,
            attn_dp_size: 1,
            pp_size: 1,
            system_dp_size: 1,
            page_size,
            kv_cache_dtype: Some("auto".into()),
            kv_layout: None,
            dsv41_spec_layout: None,
            load_balance_method: Some(FOLLOW_ROOM.into()),
            enable_dsa_cache_layer_split: false,
            enable_kv_cache_sharding: false,
            decode_allocation_policy: None,
        }
    }

    /// Data-parallel groups: of the engine, or of engines.
    pub(super) fn dp_size(&self) -> u32 {
        if self.system_dp_size == 1 { self.attn_dp_size } else { self.system_dp_size }
    }

    /// Ranks of the whole group.
    pub(super) fn ranks(&self) -> u128 {
        [self.dp_size(), self.attn_cp_size, self.attn_tp_size, self.pp_size]
            .into_iter()
            .map(u128::from)
            .product()
    }

    pub(super) fn follows_room(&self) -> bool {
        self.load_balance_method.as_deref().is_none_or(|method| method == FOLLOW_ROOM)
    }
}

/// The place of a rank in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinates {
    /// Among those that share heads.
    pub attn_tp_rank: u32,
    /// Among those that share positions.
    pub attn_cp_rank: u32,
    /// Among the data-parallel groups of the engine.
    pub attn_dp_rank: u32,
    /// Among the stages of the pipeline.
    pub pp_rank: u32,
    /// Among the data-parallel engines.
    pub system_dp_rank: u32,
}

/// Answer to a `GET /route` for no rank: what the group is like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrefillServerInfo {
    /// Ranks that share a layer's heads.
    pub attn_tp_size: u32,
    /// Ranks that share a prompt's positions.
    pub attn_cp_size: u32,
    /// Data-parallel groups.
    pub dp_size: u32,
    /// Stages of the pipeline.
    pub pp_size: u32,
    /// Positions of a KV page.
    pub page_size: Option<u32>,
    /// What KV is stored as.
    pub kv_cache_dtype: Option<String>,
    /// Whether a request's room says which data-parallel group has it.
    pub follow_bootstrap_room: bool,
    /// Whether the ranks share a layer's KV.
    #[serde(default)]
    pub enable_dsa_cache_layer_split: bool,
    /// What a speculative decoder adds to KV.
    #[serde(default)]
    pub dsv41_spec_layout: Option<Value>,
    /// How KV lies in a page.
    #[serde(default)]
    pub kv_layout: Option<String>,
    /// When the decode side takes pages.
    #[serde(default)]
    pub decode_allocation_policy: Option<String>,
    /// Whether the ranks share the KV cache.
    #[serde(default)]
    pub enable_kv_cache_sharding: bool,
    /// The port of the HTTP API.
    #[serde(default)]
    pub prefill_http_port: Option<u16>,
    #[serde(flatten, skip_deserializing)]
    pub(super) to_be_worked_out: Blanks,
    /// The epoch of the group.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// Where a decode deployment attaches, on the server's host, if it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_port: Option<u16>,
}

/// Fields of [`PrefillServerInfo`] that travel empty: an asker fills them in for its own rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Blanks {
    target_tp_rank: (),
    target_tp_ranks: (),
    target_cp_ranks: (),
    target_pp_ranks: (),
    required_dst_info_num: (),
    required_prefill_response_num: (),
}

/// Answer to a `GET /route` for one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankAddress {
    /// Its address.
    pub rank_ip: IpAddr,
    /// Its port.
    pub rank_port: u16,
    /// The epoch of its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// Body of `POST /register_dp_rank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RoomRegistration {
    pub(super) bootstrap_room: u64,
    pub(super) dp_rank: u32,
}

/// Body of `POST /query_dp_ranks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RoomQuery {
    pub(super) bootstrap_rooms: Vec<u64>,
}
