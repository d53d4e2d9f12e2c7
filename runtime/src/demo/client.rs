//! A client of the HTTP API for one streamed completion. Dropping it closes its connection.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Longest wait for the next event, the first one included.
const EVENT_DEADLINE: Duration = Duration::from_secs(60);

/// Why a completion was not received.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The server could not be reached.
    #[error("no connection: {0}")]
    Connect(#[from] std::io::Error),
    /// The connection broke, or what came was not HTTP.
    #[error("the connection broke: {0}")]
    Http(#[from] hyper::Error),
    /// The request could not be written.
    #[error("the request is malformed: {0}")]
    Request(#[from] hyper::http::Error),
    /// Nothing came in time.
    #[error("no event came within {} s", EVENT_DEADLINE.as_secs())]
    Late,
    /// The server refused, or ended the stream with an error.
    #[error("the server says: {0}")]
    Refused(String),
    /// The stream ended without saying so, or without a token.
    #[error("the stream ended early")]
    EndedEarly,
    /// An event was no JSON.
    #[error("an event is malformed: {0}")]
    Event(#[from] serde_json::Error),
}

/// A completion that is being received.
pub(crate) struct Completion {
    body: Incoming,
    pending: Vec<u8>,
    // Drives the connection; dropped, it closes the socket.
    _connection: JoinSet<()>,
}

impl Completion {
    /// Sends the request and waits for the head of the answer.
    pub(crate) async fn request(address: SocketAddr, fields: &Value) -> Result<Self, ClientError> {
        let opened = timeout(EVENT_DEADLINE, open(address, fields)).await;
        let (response, connection) = opened.map_err(|_| ClientError::Late)??;
        let status = response.status();
        let mut completion =
            Self { body: response.into_body(), pending: Vec::new(), _connection: connection };
        if status == StatusCode::OK { Ok(completion) } else { Err(completion.refusal(status).await) }
    }

    /// Waits for the data of the next event; `None` at the stream's orderly end.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, ClientError> {
        loop {
            if let Some(data) = self.take_event() {
                let Some(data) = data.strip_prefix("data: ") else { continue };
                return if data == "[DONE]" {
                    Ok(None)
                } else {
                    checked(serde_json::from_str(data)?).map(Some)
                };
            }
            if !self.receive().await? {
                return Err(ClientError::EndedEarly);
            }
        }
    }

    fn take_event(&mut self) -> Option<String> {
        let end = self.pending.windows(2).position(|pair| pair == b"\n\n")?;
        let event: Vec<u8> = self.pending.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&event).trim_end().to_owned())
    }

    /// Receives the next piece of the body; `false` at its end.
    async fn receive(&mut self) -> Result<bool, ClientError> {
        let frame = timeout(EVENT_DEADLINE, self.body.frame()).await.map_err(|_| ClientError::Late)?;
        let Some(frame) = frame.transpose()? else { return Ok(false) };
        self.pending.extend(frame.data_ref().into_iter().flat_map(|data| data.iter().copied()));
        Ok(true)
    }

    async fn refusal(&mut self, status: StatusCode) -> ClientError {
        while matches!(self.receive().await, Ok(true)) {}
        ClientError::Refused(format!("{status}: {}", String::from_utf8_lossy(&self.pending)))
    }
}

async fn open(address: SocketAddr, fields: &Value) -> Result<(Response<Incoming>, JoinSet<()>), ClientError> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // Its errors reach the body's reader as well.
        connection.await.ok();
    });
    let request = Request::post("/v1/completions")
        .header("host", address.to_string())
        .header("content-type", "application/json");
    let response = sender.send_request(request.body(Body::from(fields.to_string()))?).await?;
    Ok((response, driver))
}

fn checked(event: Value) -> Result<Value, ClientError> {
    match event.get("error") {
        Some(error) => Err(ClientError::Refused(
            error["message"].as_str().unwrap_or("an error without a message").to_owned(),
        )),
        None => Ok(event),
    }
}
