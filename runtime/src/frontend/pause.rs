//! Pausing over HTTP, under SGLang's names: `POST /pause_generation` and `POST /continue_generation`.
//!
//! Of SGLang's modes only `in_place` is there: what runs stays in its slot with its pages, and goes on where it was.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::desk::Desk;
use super::error::ApiError;
use super::request::given;

/// Longest wait for every rank to say so.
const SETTLE_DEADLINE: Duration = Duration::from_secs(5);

/// Interval of looking whether they have.
const SETTLE_TICK: Duration = Duration::from_millis(20);

/// Refuses a body that asks for another way of pausing. An empty one asks for nothing.
///
/// # Errors
/// The 400 that says which way there is.
pub(super) fn check(body: &[u8]) -> Result<(), ApiError> {
    if body.is_empty() {
        return Ok(());
    }
    let fields: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| ApiError::BadJson { reason: error.to_string() })?;
    match given(&fields, "mode").is_none_or(|mode| mode == "in_place") {
        true => Ok(()),
        false => {
            Err(ApiError::invalid("mode", "mode must be \"in_place\": requests keep their slots and pages"))
        }
    }
}

/// Passes the word on, and waits until every rank does as it says: 200 then, 202 while it is on its way.
///
/// # Errors
/// The 503 that says why requests are not taken now.
pub(super) async fn answer(desk: &Desk, paused: bool) -> Result<impl IntoResponse + use<>, ApiError> {
    desk.pause(paused)?;
    let settled = async {
        while !desk.is_pause_settled(paused) {
            sleep(SETTLE_TICK).await;
        }
    };
    let (code, status) = match (timeout(SETTLE_DEADLINE, settled).await.is_ok(), paused) {
        (true, true) => (StatusCode::OK, "paused"),
        (true, false) => (StatusCode::OK, "running"),
        (false, true) => (StatusCode::ACCEPTED, "pausing"),
        (false, false) => (StatusCode::ACCEPTED, "resuming"),
    };
    Ok((code, [("content-type", "application/json")], json!({"status": status}).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_takes_only_the_mode_that_is_there() {
        for taken in ["", "{}", r#"{"mode": null}"#, r#"{"mode": "in_place"}"#] {
            assert_eq!(check(taken.as_bytes()), Ok(()), "{taken}");
        }
        for refused in [r#"{"mode": "abort"}"#, r#"{"mode": 1}"#, "[]", "x"] {
            assert_eq!(check(refused.as_bytes()).unwrap_err().status(), StatusCode::BAD_REQUEST, "{refused}");
        }
    }
}
