//! What `/health` says, as data.

use axum::http::StatusCode;
use serde::Serialize;

use super::desk::Standing;
use super::groups::GroupHealth;

/// The body of `/health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Health {
    /// `ok`, `paused`, `stalled`, `starting`, `restarting`, `lost` or `stopping`.
    pub status: &'static str,
    /// Whether nothing is to be launched; requests are taken and wait.
    pub paused: bool,
    /// The epoch of the ranks below.
    pub epoch: u64,
    /// Epochs that followed one that was lost, since the start.
    pub restarts: u64,
    /// Both groups and their ranks.
    pub groups: Vec<GroupHealth>,
    /// Legs wanted anew for requests that gave their pages up midway, since the start.
    pub resumes: u64,
    /// Requests that are accepted and not ended.
    pub queue: u64,
    /// How many may be.
    pub queue_limit: u64,
    /// Where the prefill side is a deployment of its own: `attached`, or `away`, when requests wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill: Option<&'static str>,
    /// Why the status is neither `ok` nor `paused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Health {
    /// The status and its reason, where `stalled` is what keeps groups that are ready from going on; all else is to be filled in.
    pub fn of(standing: &Standing, paused: bool, stalled: Option<String>) -> Self {
        let (status, reason) = match standing {
            Standing::Ready(_) if stalled.is_some() => ("stalled", stalled),
            Standing::Starting => ("starting", Some("not every rank is ready yet".into())),
            Standing::Ready(_) => (if paused { "paused" } else { "ok" }, None),
            Standing::Restarting { ended, reason, .. } => {
                ("restarting", Some(format!("epoch {} ended: {reason}; the next is being formed", ended.0)))
            }
            Standing::Lost(reason) => ("lost", Some(reason.clone())),
            Standing::Stopping => ("stopping", Some("the server is stopping".into())),
        };
        Self {
            status,
            reason,
            paused,
            epoch: 0,
            restarts: 0,
            groups: Vec::new(),
            resumes: 0,
            queue: 0,
            queue_limit: 0,
            prefill: None,
        }
    }

    /// 200 when requests are taken, 503 otherwise.
    pub fn code(&self) -> StatusCode {
        if self.reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    }
}
