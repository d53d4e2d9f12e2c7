//! Everything an HTTP client can be refused with, in OpenAI's form. Variants are ordered by blame: client, load, server.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use thiserror::Error;

/// A refusal, or the failure of an accepted request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApiError {
    /// The body is no JSON object.
    #[error("the body is not a JSON object: {reason}")]
    BadJson {
        /// The parser's reason.
        reason: String,
    },
    /// The body could not be read.
    #[error("the body could not be read: {reason}")]
    BadBody {
        /// Why.
        reason: String,
    },
    /// A field has a value that is not taken.
    #[error("{message}")]
    Invalid {
        /// The field.
        param: &'static str,
        /// What is wrong and what is taken.
        message: String,
    },
    /// The prompt and its answer do not fit.
    #[error(
        "a prompt of {prompt} tokens and max_tokens {max_tokens} need {} positions, but a request can have {capacity}; shorten one",
        u64::from(*.prompt) + u64::from(*.max_tokens) - 1
    )]
    TooLong {
        /// Tokens of the prompt.
        prompt: u32,
        /// Tokens asked for.
        max_tokens: u32,
        /// Positions that one request can have.
        capacity: u64,
    },
    /// The content type is not JSON.
    #[error("send the request with content-type: application/json")]
    WrongContentType,
    /// The body did not come in time.
    #[error("the body did not arrive within {seconds} s")]
    SlowBody {
        /// The deadline.
        seconds: u64,
    },
    /// The body is too large.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// The bound.
        limit: usize,
    },
    /// No such model.
    #[error("the model {asked:?} is not served here; the model is {served:?}")]
    UnknownModel {
        /// The model asked for.
        asked: String,
        /// The model served.
        served: String,
    },
    /// No such path.
    #[error("there is nothing at {path}")]
    UnknownPath {
        /// The path.
        path: String,
    },
    /// The path takes another method.
    #[error("{path} does not take this method")]
    WrongMethod {
        /// The path.
        path: String,
    },
    /// As many requests as allowed are outstanding.
    #[error("{limit} requests are outstanding, which is the limit; retry later")]
    QueueFull {
        /// The bound.
        limit: usize,
    },
    /// A room is waited for already.
    #[error("bootstrap_room {room} is waited for already: give each request a room of its own")]
    RoomTaken {
        /// The room.
        room: u64,
    },
    /// No decode deployment came for a room.
    #[error("no decode side named bootstrap_room {room} within {seconds} s: send it the same request")]
    NoDecode {
        /// The room.
        room: u64,
        /// The deadline.
        seconds: u64,
    },
    /// The ranks are still starting.
    #[error("the model is not ready yet; retry later")]
    Starting,
    /// The server stops.
    #[error("the server is stopping")]
    Stopping,
    /// A group is lost and requests are not taken.
    #[error("a group is lost: {reason}")]
    Lost {
        /// Who died, and how.
        reason: String,
    },
    /// An accepted request failed.
    #[error("the request failed: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

impl ApiError {
    /// An invalid field.
    pub fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { param, message: message.into() }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadJson { .. } | Self::BadBody { .. } | Self::Invalid { .. } | Self::TooLong { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::WrongContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::SlowBody { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnknownModel { .. } | Self::UnknownPath { .. } => StatusCode::NOT_FOUND,
            Self::WrongMethod { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::QueueFull { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::RoomTaken { .. } => StatusCode::CONFLICT,
            Self::NoDecode { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Starting | Self::Stopping | Self::Lost { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The `code` of OpenAI's form.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::TooLong { .. } => Some("context_length_exceeded"),
            Self::UnknownModel { .. } => Some("model_not_found"),
            Self::QueueFull { .. } => Some("queue_full"),
            Self::RoomTaken { .. } => Some("room_taken"),
            Self::NoDecode { .. } => Some("no_decode"),
            Self::Starting => Some("not_ready"),
            Self::Stopping => Some("stopping"),
            Self::Lost { .. } => Some("group_lost"),
            Self::Failed { .. } => Some("request_failed"),
            Self::BadJson { .. } | Self::BadBody { .. } | Self::Invalid { .. } | Self::WrongContentType => {
                None
            }
            Self::SlowBody { .. }
            | Self::BodyTooLarge { .. }
            | Self::UnknownPath { .. }
            | Self::WrongMethod { .. } => None,
        }
    }

    fn param(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { param, .. } => Some(param),
            Self::TooLong { .. } => Some("max_tokens"),
            Self::UnknownModel { .. } => Some("model"),
            Self::RoomTaken { .. } | Self::NoDecode { .. } => Some("bootstrap_room"),
            Self::BadJson { .. } | Self::BadBody { .. } | Self::WrongContentType | Self::SlowBody { .. } => {
                None
            }
            Self::BodyTooLarge { .. }
            | Self::UnknownPath { .. }
            | Self::WrongMethod { .. }
            | Self::QueueFull { .. } => None,
            Self::Starting | Self::Stopping | Self::Lost { .. } | Self::Failed { .. } => None,
        }
    }

    fn kind(&self) -> &'static str {
        let status = self.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            "rate_limit_error"
        } else if status.is_server_error() {
            "server_error"
        } else {
            "invalid_request_error"
        }
    }

    /// The body, which is also the in-band event of a stream that breaks.
    pub fn body(&self) -> Value {
        json!({"error": {"message": self.to_string(), "type": self.kind(), "param": self.param(), "code": self.code()}})
    }

    /// A header that tells the client whether to try again: clients of OpenAI's library retry by status otherwise.
    fn retry_header(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::QueueFull { .. } | Self::Starting => Some(("retry-after", "1")),
            Self::Stopping => Some(("x-should-retry", "false")),
            Self::BadJson { .. } | Self::BadBody { .. } | Self::Invalid { .. } | Self::TooLong { .. } => None,
            Self::RoomTaken { .. } | Self::NoDecode { .. } => None,
            Self::WrongContentType
            | Self::SlowBody { .. }
            | Self::BodyTooLarge { .. }
            | Self::UnknownModel { .. } => None,
            Self::UnknownPath { .. } | Self::WrongMethod { .. } | Self::Lost { .. } | Self::Failed { .. } => {
                None
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = self.retry_header() {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
