//! The thread that keeps a prefill rank registered: until it succeeds, and again and again, so that a server that was started anew knows it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::client::Client;
use super::error::BootstrapError;
use super::messages::Registration;
use crate::socket::after;

/// The pause after the first failure; each later one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The pause after a success.
const REFRESH: Duration = Duration::from_secs(5);

/// Keeps a rank registered for as long as it lives.
#[derive(Debug)]
pub struct Registrar {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Registrar {
    /// Starts to register, and returns at once. `failed` hears of the first of several failures in a row.
    ///
    /// # Errors
    /// The system's reason.
    pub fn start(
        server: SocketAddr,
        registration: Registration,
        failed: impl Fn(BootstrapError) + Send + 'static,
    ) -> io::Result<Self> {
        let client = Client::new(server)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let thread = thread::Builder::new()
            .name("bootstrap-registrar".to_owned())
            .spawn(move || keep(&client, &registration, &stop, failed))?;
        Ok(Self { stopping, thread: Some(thread) })
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // One that panicked has nothing left to hand over.
            drop(thread.join());
        }
    }
}

fn keep(client: &Client, registration: &Registration, stop: &AtomicBool, failed: impl Fn(BootstrapError)) {
    let is_stopping = || stop.load(Ordering::Acquire);
    let mut tick = || if is_stopping() { Err(ErrorKind::Interrupted.into()) } else { Ok(()) };
    let mut after_failure = FIRST_PAUSE;
    while !is_stopping() {
        let pause = match client.put("/route", registration, &mut tick) {
            Ok(()) => {
                after_failure = FIRST_PAUSE;
                REFRESH
            }
            Err(_) if is_stopping() => return,
            Err(error) => {
                let pause = after_failure;
                after_failure = pause.saturating_mul(2).min(LONGEST_PAUSE);
                if pause == FIRST_PAUSE {
                    failed(error);
                }
                pause
            }
        };
        let until = after(pause);
        while !is_stopping() && Instant::now() < until {
            thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
    }
}
