//! A stream that lets what is ready to run go first when it is asked to write, once: the answers of
//! all calls that end together leave in one write and not in one each. There is no timer: if nothing
//! else is ready, the write is done at once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Such a stream. It must be polled in a Tokio task.
#[derive(Debug)]
pub struct Coalesced<S> {
    stream: S,
    /// Others had their turn since the last flush.
    yielded: bool,
}

impl<S> Coalesced<S> {
    /// Takes the stream.
    pub const fn new(stream: S) -> Self {
        Self {
            stream,
            yielded: false,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Coalesced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

/// Without vectored writes: what is small is copied together, which costs less than a write.
impl<S: AsyncWrite + Unpin> AsyncWrite for Coalesced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.yielded {
            self.yielded = true;
            // A task that wakes itself goes behind all that are ready.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.yielded = false;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_is_ready_runs_before_the_first_write_and_only_before_that() {
        let (near, mut far) = tokio::io::duplex(1024);
        let ran = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&ran);
        let mut near = Coalesced::new(near);
        let other = tokio::spawn(async move { runs.store(true, Ordering::SeqCst) });
        assert!(!ran.load(Ordering::SeqCst), "nothing was awaited yet");
        near.write_all(b"one").await.expect("written");
        assert!(ran.load(Ordering::SeqCst), "the other task came first");
        other.await.expect("it ended");

        let later = Arc::clone(&ran);
        ran.store(false, Ordering::SeqCst);
        let other = tokio::spawn(async move { later.store(true, Ordering::SeqCst) });
        near.write_all(b" two").await.expect("written");
        assert!(!ran.load(Ordering::SeqCst), "not between two writes");
        near.flush().await.expect("flushed");
        near.write_all(b" three").await.expect("written");
        assert!(ran.load(Ordering::SeqCst), "after a flush again");
        other.await.expect("it ended");

        drop(near);
        let mut read = String::new();
        far.read_to_string(&mut read).await.expect("read");
        assert_eq!(read, "one two three");
    }
}
