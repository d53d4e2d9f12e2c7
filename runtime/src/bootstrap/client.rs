//! A client of the bootstrap server, for threads of a rank: one request a connection, one deadline a request.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::error::{BootstrapError, Failure};

/// Longest wait for an answer; as long as in SGLang.
const DEADLINE: Duration = Duration::from_secs(5);
/// Longest answer.
const ANSWER_BYTES: usize = 64 * 1024;
/// Characters of a refusal that are told on.
const REFUSAL_CHARACTERS: usize = 256;
/// How often a wait calls its tick.
const TICK: Duration = Duration::from_millis(20);

/// What a wait calls again and again, and what ends it.
pub(super) type Tick<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// One server, as a thread asks it.
#[derive(Debug)]
pub(super) struct Client {
    server: SocketAddr,
    runtime: Runtime,
}

impl Client {
    /// A client that has asked nothing yet.
    ///
    /// # Errors
    /// The system's reason.
    pub(super) fn new(server: SocketAddr) -> io::Result<Self> {
        Ok(Self { server, runtime: Builder::new_current_thread().enable_all().build()? })
    }

    /// Asks for `path`.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str, tick: Tick<'_>) -> Result<T, BootstrapError> {
        self.ask(Method::GET, path, String::new(), tick)
            .and_then(|answer| parse(&answer))
            .map_err(|why| self.blame(why))
    }

    /// Puts `message` at `path`.
    pub(super) fn put(
        &self,
        path: &str,
        message: &impl Serialize,
        tick: Tick<'_>,
    ) -> Result<(), BootstrapError> {
        let body = serde_json::to_string(message)
            .map_err(|error| self.blame(Failure::Garbage(error.to_string())))?;
        self.ask(Method::PUT, path, body, tick).map(drop).map_err(|why| self.blame(why))
    }

    pub(super) fn blame(&self, why: Failure) -> BootstrapError {
        BootstrapError { server: self.server, why }
    }

    fn ask(&self, method: Method, path: &str, body: String, tick: Tick<'_>) -> Result<Vec<u8>, Failure> {
        let late = |_| Failure::Late { seconds: DEADLINE.as_secs() };
        self.runtime.block_on(async {
            let asked = timeout(DEADLINE, exchange(self.server, method, path, body));
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            tokio::pin!(asked);
            loop {
                tokio::select! {
                    answer = asked.as_mut() => return answer.map_err(late)?,
                    _ = ticks.tick() => tick()?,
                }
            }
        })
    }
}

/// Asks a server once for `path`, from within a runtime.
pub(super) async fn get_once<T: DeserializeOwned>(
    server: SocketAddr,
    path: &str,
) -> Result<T, BootstrapError> {
    let late = Err(Failure::Late { seconds: DEADLINE.as_secs() });
    let asked = timeout(DEADLINE, exchange(server, Method::GET, path, String::new())).await;
    asked.unwrap_or(late).and_then(|answer| parse(&answer)).map_err(|why| BootstrapError { server, why })
}

async fn exchange(server: SocketAddr, method: Method, path: &str, body: String) -> Result<Vec<u8>, Failure> {
    let stream = TcpStream::connect(server).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", server.to_string())
        .header("connection", "close")
        .header("content-type", "application/json")
        .body(Body::from(body))?;
    let answered = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| Failure::Garbage(error.to_string()))?.to_bytes();
        if status == StatusCode::OK { Ok(body.to_vec()) } else { Err(refusal(status, &body)) }
    };
    // The connection is driven beside the exchange, and ends with it.
    tokio::pin!(answered);
    tokio::select! {
        answer = answered.as_mut() => return answer,
        ended = connection => ended?,
    }
    answered.await
}

fn parse<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(answer).map_err(|error| Failure::Garbage(error.to_string()))
}

fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(body).chars().take(REFUSAL_CHARACTERS).collect();
    Failure::Refused { status, text }
}
