//! What the tests share: a server on a port of its own, whose epoch the test sets, and ranks.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use lockstep_spec::ids::Epoch;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::bootstrap::{Coordinates, Layout, Registration, routes};
use crate::frontend::HttpServer;

pub(super) const PAGE_SIZE: u32 = 16;

/// Rank `rank` of a group of `size`, reached at `port`.
pub(super) fn rank(rank: u32, size: u32, port: u16) -> Registration {
    Registration {
        layout: Layout::of_heads(size, PAGE_SIZE),
        at: Coordinates { attn_tp_rank: rank, ..Coordinates::default() },
        rank_ip: Ipv4Addr::LOCALHOST.into(),
        rank_port: port,
        prefill_http_port: None,
        epoch: None,
    }
}

/// A server that ends when it is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) epoch: Arc<AtomicU64>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    pub(super) fn start_at(address: SocketAddr) -> Self {
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let epoch = Arc::new(AtomicU64::new(1));
        let (end, ended) = watch::channel(false);
        let told = Arc::clone(&epoch);
        let routes = routes(move || Epoch(told.load(Ordering::SeqCst)), None);
        let thread = thread::spawn(move || {
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                HttpServer::new(listener, routes, 16).run(ended).await;
            });
        });
        Self { address, epoch, end, thread: Some(thread) }
    }

    pub(super) fn raise_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.send_replace(true);
        self.thread.take().unwrap().join().unwrap();
    }
}
