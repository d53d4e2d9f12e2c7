//! The server's routes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use lockstep_spec::ids::Epoch;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Refusal;
use super::messages::{PrefillServerInfo, RoomQuery, RoomRegistration};
use super::registry::{Place, Registry};
use super::rooms::Rooms;

/// Largest body: a question for tens of thousands of rooms.
const BODY_BYTES: usize = 1024 * 1024;
/// Longest wait for a body.
const BODY_DEADLINE: Duration = Duration::from_secs(5);

/// Says which epoch it is.
type Clock = Box<dyn Fn() -> Epoch + Send + Sync>;

struct Shared {
    epoch: Clock,
    registry: Mutex<Registry>,
    rooms: Mutex<Rooms>,
    line_port: Option<u16>,
}

impl Shared {
    /// The registry of the epoch that is.
    fn registry(&self) -> MutexGuard<'_, Registry> {
        let mut registry = lock(&self.registry);
        registry.enter((self.epoch)());
        registry
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The routes of a server that knows nobody yet. What ranks register is void when `epoch` says another one. `line_port`: where a decode
/// deployment attaches to this one, if it may.
pub fn routes(epoch: impl Fn() -> Epoch + Send + Sync + 'static, line_port: Option<u16>) -> Router {
    let registry = Mutex::new(Registry::new(epoch()));
    let shared = Shared { epoch: Box::new(epoch), registry, rooms: Mutex::default(), line_port };
    Router::new()
        .route("/route", put(register).get(route))
        .route("/register_dp_rank", post(register_room))
        .route("/query_dp_ranks", post(query_rooms))
        .route("/health", get(async || "OK"))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(Arc::new(shared))
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), self.to_string()).into_response()
    }
}

async fn register(State(shared): State<Arc<Shared>>, request: Request) -> Result<&'static str, Refusal> {
    let registration = read(request).await?;
    shared.registry().register(registration)?;
    Ok("OK")
}

async fn route(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Refusal> {
    match asked(uri.query().unwrap_or_default())? {
        None => json(&PrefillServerInfo { line_port: shared.line_port, ..shared.registry().info()? }),
        Some(place) => json(&shared.registry().rank(place)?),
    }
}

async fn register_room(State(shared): State<Arc<Shared>>, request: Request) -> Result<&'static str, Refusal> {
    let RoomRegistration { bootstrap_room, dp_rank } = read(request).await?;
    lock(&shared.rooms).register(bootstrap_room, dp_rank, Instant::now())?;
    Ok("OK")
}

async fn query_rooms(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let RoomQuery { bootstrap_rooms } = read(request).await?;
    let known = lock(&shared.rooms).dp_ranks(&bootstrap_rooms, Instant::now());
    json(&known)
}

async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Refusal> {
    let read = tokio::time::timeout(BODY_DEADLINE, Bytes::from_request(request, &())).await;
    let late = |_| Refusal::Malformed(format!("the body did not come within {} s", BODY_DEADLINE.as_secs()));
    let body = read.map_err(late)?.map_err(|rejection| Refusal::Malformed(rejection.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| Refusal::Malformed(error.to_string()))
}

fn json(answer: &impl Serialize) -> Result<Response, Refusal> {
    let body = serde_json::to_string(answer).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let mut response = (StatusCode::OK, body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Which rank a query asks for; four times -1 asks for none.
pub(super) fn asked(query: &str) -> Result<Option<Place>, Refusal> {
    let names = ["prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank"];
    let mut values = [0; 4];
    for (value, name) in values.iter_mut().zip(names) {
        *value = number(query, name)?;
    }
    if values == [-1; 4] {
        return Ok(None);
    }
    let [dp, cp, tp, pp] = values.map(u32::try_from);
    match (dp, cp, tp, pp) {
        (Ok(dp), Ok(cp), Ok(tp), Ok(pp)) => Ok(Some(Place { dp, cp, tp, pp })),
        _ => Err(Refusal::Malformed("a rank is negative, or over the limit; all four may be -1".into())),
    }
}

fn number(query: &str, name: &str) -> Result<i64, Refusal> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value);
    let missing = || Refusal::Malformed("Missing inputs for bootstrap server.".into());
    let unread = |_| Refusal::Malformed(format!("{name} is no number"));
    value.filter(|value| !value.is_empty()).ok_or_else(missing)?.parse().map_err(unread)
}
