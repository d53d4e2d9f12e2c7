//! The HTTP routes, and what a request must pass before it is accepted.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::desk::Desk;
use super::error::ApiError;
use super::journal::Submission;
use super::metrics;
use super::pairing;
use super::pairing::Pairing;
use super::pause;
use super::request::{CompletionRequest, Prompt};
use super::stream::Answer;
use super::text::TextCodec;
use crate::wire::{Room, Sampling};

/// Largest request body in bytes: a prompt of 128 Ki tokens as numbers of seven digits, with room.
const BODY_BYTES: usize = 2 * 1024 * 1024;

/// Longest wait for a request's body.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// What the routes serve.
#[derive(Clone)]
pub struct Service {
    /// The desk.
    pub desk: Arc<Desk>,
    /// The model's tokenizer.
    pub codec: Arc<dyn TextCodec>,
    /// The model's name.
    pub model: String,
    /// The bootstrap server of the prefill side, where that is a deployment of its own.
    pub prefill: Option<SocketAddr>,
}

/// The routes over a service that decodes.
pub fn router(service: Service) -> Router {
    common(Router::new().route("/v1/completions", post(completions)), service)
}

/// The routes over a service that computes prompts for a decode deployment: a request is answered once that has its first token.
pub fn prefill_router(service: Service, pairing: Arc<Pairing>) -> Router {
    let wait = async move |State(service): State<Service>, request: Request| {
        let body = body(request).await?;
        let request = CompletionRequest::parse(&body, &service.model)?;
        service.desk.room()?;
        pairing.wait(&request).await.map(|()| pairing::answer(&service.model, request.stream))
    };
    common(Router::new().route("/v1/completions", post(wait)), service)
}

fn common(routes: Router<Service>, service: Service) -> Router {
    routes
        .route("/v1/models", get(models))
        .route("/pause_generation", post(pause))
        .route("/continue_generation", post(resume))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/readyz", get(ready))
        .route("/livez", get(live))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(service)
}

async fn unknown_path(uri: Uri) -> ApiError {
    ApiError::UnknownPath { path: uri.path().into() }
}

async fn wrong_method(uri: Uri) -> ApiError {
    ApiError::WrongMethod { path: uri.path().into() }
}

async fn models(State(service): State<Service>) -> Response {
    let model = json!({"id": service.model, "object": "model", "owned_by": "lockstep"});
    json_response(StatusCode::OK, &json!({"object": "list", "data": [model]}))
}

async fn health(State(service): State<Service>) -> Response {
    let health = service.desk.health();
    json_response(health.code(), &json!(health))
}

async fn metrics(State(service): State<Service>) -> Response {
    let text = metrics::render(&service.desk.health(), &service.desk.progress());
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

async fn ready(State(service): State<Service>) -> Response {
    let health = service.desk.health();
    json_response(health.code(), &json!({"status": health.status, "reason": health.reason}))
}

async fn pause(State(service): State<Service>, request: Request) -> Result<Response, ApiError> {
    pause::check(&read(request).await?)?;
    Ok(pause::answer(&service.desk, true).await?.into_response())
}

async fn resume(State(service): State<Service>) -> Result<Response, ApiError> {
    Ok(pause::answer(&service.desk, false).await?.into_response())
}

/// Answers at all: the front end lives, whatever its groups do.
async fn live() -> Response {
    json_response(StatusCode::OK, &json!({"status": "ok"}))
}

async fn completions(State(service): State<Service>, request: Request) -> Result<Response, ApiError> {
    let body = body(request).await?;
    let request = CompletionRequest::parse(&body, &service.model)?;
    let named = match service.prefill {
        Some(prefill) => pairing::check(&request.bootstrap, prefill).await?,
        None => None,
    };
    let room = service.desk.room()?;
    let prompt = tokenize(&service, request.prompt).await?;
    check_prompt(&prompt, service.desk.plan().vocabulary)?;
    check_capacity(prompt.len(), request.max_tokens, room)?;

    let prompt_tokens = prompt.len();
    let CompletionRequest { max_tokens, ignore_eos, temperature_milli, seed, .. } = request;
    // Kept with the request from here on, so that a group that takes it up again draws the same.
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(prompt_tokens));
    let sampling = Sampling { seed, temperature_milli };
    let submission = Submission { prompt, max_tokens, ignore_eos, sampling, room: named };
    let live = service.desk.submit(submission)?;
    let answer = Answer::new(live, service.codec.detokenizer(), service.model, prompt_tokens);
    match request.stream {
        true => Ok(answer.streamed(request.include_usage)),
        false => Ok(json_response(StatusCode::OK, &answer.whole().await?)),
    }
}

async fn body(request: Request) -> Result<Bytes, ApiError> {
    if !is_json(request.headers()) {
        return Err(ApiError::WrongContentType);
    }
    read(request).await
}

async fn read(request: Request) -> Result<Bytes, ApiError> {
    let read = tokio::time::timeout(BODY_DEADLINE, Bytes::from_request(request, &())).await;
    let body = read.map_err(|_| ApiError::SlowBody { seconds: BODY_DEADLINE.as_secs() })?;
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::BodyTooLarge { limit: BODY_BYTES },
        _ => ApiError::BadBody { reason: rejection.body_text() },
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let named = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = named.and_then(|name| name.split(';').next()).map(|name| name.trim().to_ascii_lowercase());
    essence.as_deref() == Some("application/json")
}

/// Tokenizes away from the threads that serve connections: a long prompt takes milliseconds.
async fn tokenize(service: &Service, prompt: Prompt) -> Result<Vec<u32>, ApiError> {
    let text = match prompt {
        Prompt::Tokens(tokens) => return Ok(tokens),
        Prompt::Text(text) => text,
    };
    let codec = Arc::clone(&service.codec);
    let encoded = tokio::task::spawn_blocking(move || codec.encode(&text)).await;
    let encoded = encoded.map_err(|error| ApiError::Failed { reason: error.to_string() })?;
    encoded.map_err(|error| ApiError::invalid("prompt", error.to_string()))
}

fn check_prompt(prompt: &[u32], vocabulary: u32) -> Result<(), ApiError> {
    if prompt.is_empty() {
        return Err(ApiError::invalid("prompt", "prompt must have one token at least"));
    }
    match prompt.iter().find(|&&token| token >= vocabulary) {
        Some(token) => Err(ApiError::invalid(
            "prompt",
            format!("prompt has token {token}, but ids go up to {}", vocabulary - 1),
        )),
        None => Ok(()),
    }
}

/// The last token is sent but never fed back, so it takes no position.
fn check_capacity(prompt: usize, max_tokens: u32, room: Room) -> Result<(), ApiError> {
    let capacity = u64::from(room.context).min(u64::from(room.pages) * u64::from(room.page_size));
    let prompt = u32::try_from(prompt).unwrap_or(u32::MAX);
    match u64::from(prompt) + u64::from(max_tokens) - 1 <= capacity {
        true => Ok(()),
        false => Err(ApiError::TooLong { prompt, max_tokens, capacity }),
    }
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut response = (status, body.to_string()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { pages: 4, page_size: 16, slots: 2, context: 100 };

    #[test]
    fn routes_capacity_counts_every_position_but_the_last_token() {
        assert_eq!(check_capacity(1, 64, ROOM), Ok(()));
        assert!(check_capacity(1, 65, ROOM).is_err());
        assert!(check_capacity(usize::MAX, u32::MAX, ROOM).is_err());
        let long = Room { pages: 400, ..ROOM };
        assert_eq!(check_capacity(100, 1, long), Ok(()));
        assert!(check_capacity(100, 2, long).is_err());
    }

    #[test]
    fn routes_prompts_hold_tokens_of_the_vocabulary() {
        assert_eq!(check_prompt(&[0, 255], 256), Ok(()));
        assert!(check_prompt(&[], 256).is_err());
        assert!(check_prompt(&[256], 256).is_err());
    }

    #[test]
    fn routes_json_is_known_by_its_essence() {
        for (value, expected) in
            [("application/json", true), ("Application/JSON; charset=utf-8", true), ("text/plain", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
            assert_eq!(is_json(&headers), expected, "{value}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
