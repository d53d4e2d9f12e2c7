//! A deadline on writes: a client that stays but does not read must not hold its connection for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail when the other end takes nothing for a while.
#[derive(Debug)]
pub(super) struct WriteDeadline<T> {
    stream: T,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> WriteDeadline<T> {
    /// `stream`, each of whose writes may wait for `patience`.
    pub(super) fn new(stream: T, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    /// Passes on what a write gave; where it must wait, waits for the deadline as well.
    fn bounded<V>(&mut self, written: Poll<io::Result<V>>, context: &mut Context<'_>) -> Poll<io::Result<V>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteDeadline<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const PATIENCE: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn write_deadline_ends_a_write_that_nobody_reads() {
        let (near, _far) = duplex(4);
        let error = WriteDeadline::new(near, PATIENCE).write_all(&[0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn write_deadline_counts_anew_after_each_write() {
        let (near, mut far) = duplex(1);
        let reader = async {
            for _ in 0..4 {
                sleep(PATIENCE / 2).await;
                far.read_u8().await.unwrap();
            }
        };
        let mut near = WriteDeadline::new(near, PATIENCE);
        let (written, ()) = tokio::join!(near.write_all(&[0; 4]), reader);
        written.unwrap();
    }
}
