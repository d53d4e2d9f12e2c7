//! The HTTP server: bounded connections, deadlines on headers and writes, an end that takes one second at most.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::write_deadline::WriteDeadline;

/// Longest wait for a request's headers, and so for the next request on a kept connection.
const HEADER_DEADLINE: Duration = Duration::from_secs(30);

/// Longest wait for a client to take what is written.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);

/// Longest wait for running answers once the server is to end.
const END_DEADLINE: Duration = Duration::from_secs(1);

/// Wait after a failed accept: the process is out of descriptors, and only time gives some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections beyond the outstanding requests, for probes and for refusals.
const SPARE_CONNECTIONS: usize = 512;

/// A server on a bound port.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    router: Router,
    permits: Arc<Semaphore>,
}

impl HttpServer {
    /// A server of these routes that is sized for `max_queue` outstanding requests.
    pub fn new(listener: TcpListener, router: Router, max_queue: usize) -> Self {
        let permits = max_queue.saturating_add(SPARE_CONNECTIONS).min(Semaphore::MAX_PERMITS);
        Self { listener, router, permits: Arc::new(Semaphore::new(permits)) }
    }

    /// Serves until `end` turns true, or its sender is gone.
    pub async fn run(self, end: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = ended(end.clone()) => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.accept() => {
                    if let Some((stream, permit)) = accepted {
                        connections.spawn(serve(stream, permit, self.router.clone(), end.clone()));
                    }
                }
            }
        }
        drop(self.listener);
        let all = async { while connections.join_next().await.is_some() {} };
        // What is late is cut off when the set is dropped.
        tokio::time::timeout(END_DEADLINE, all).await.ok();
    }

    async fn accept(&self) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let accepted: std::io::Result<(TcpStream, SocketAddr)> = self.listener.accept().await;
        match accepted {
            Ok((stream, _)) => Some((stream, permit)),
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }
}

/// Serves one connection. A client that closes it ends this future, and with it the request's: that is the abort.
async fn serve(stream: TcpStream, _permit: OwnedSemaphorePermit, router: Router, end: watch::Receiver<bool>) {
    // Tokens are small writes that must not wait for each other; without it they are late, not wrong.
    stream.set_nodelay(true).ok();
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_DEADLINE);
    let connection = builder.serve_connection(
        TokioIo::new(WriteDeadline::new(stream, WRITE_DEADLINE)),
        TowerToHyperService::new(router),
    );
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = ended(end) => connection.as_mut().graceful_shutdown(),
    }
    connection.await.ok();
}

async fn ended(mut end: watch::Receiver<bool>) {
    // A sender that is gone is an end as well.
    end.wait_for(|&end| end).await.ok();
}
