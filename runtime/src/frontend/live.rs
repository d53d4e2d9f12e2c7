//! A request that a handler holds: its deliveries, and the abort that follows when it is let go early.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::desk::Desk;
use super::journal::{Delivery, End};

/// An accepted request. Dropped before its end has come, it is aborted in the decode group.
#[derive(Debug)]
pub struct LiveRequest {
    desk: Arc<Desk>,
    request: u64,
    deliveries: mpsc::Receiver<Delivery>,
}

impl LiveRequest {
    pub(crate) fn new(desk: Arc<Desk>, request: u64, deliveries: mpsc::Receiver<Delivery>) -> Self {
        Self { desk, request, deliveries }
    }

    /// The request's number in acceptance order.
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Waits for the next delivery. The supervisor's deadlines see to it that an end always comes.
    pub async fn next(&mut self) -> Delivery {
        let lost = || Delivery { token: None, end: Some(End::Lost("the request was dropped".into())) };
        self.deliveries.recv().await.unwrap_or_else(lost)
    }
}

impl Drop for LiveRequest {
    fn drop(&mut self) {
        self.desk.abandon(self.request);
    }
}
