//! One output of the command on its way to this process's own: passed on as it comes, and its
//! beginning kept. Once the command has ended, what is kept does not wait for whoever reads.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const CHUNK: usize = 16 * 1024;
/// The most that waits for its reader after the command's end: no pipe of the system holds more.
const WAITING_MAX: usize = 1024 * 1024;
/// The beginning of one output and its whole size.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    pub(super) kept: Vec<u8>,
    pub(super) bytes: u64,
}

/// What both outputs of a command are told about its end.
#[derive(Debug, Clone, Default)]
pub(super) struct Phase {
    /// The command has ended: nobody is left to be held back by a slow reader.
    pub(super) ended: CancellationToken,
    /// Nothing more is read.
    pub(super) enough: CancellationToken,
}

/// An output that is being passed on.
#[derive(Debug)]
pub(super) struct Passing {
    captured: oneshot::Receiver<Captured>,
    written: JoinHandle<()>,
}

impl Passing {
    /// Starts passing on, in the background.
    pub(super) fn start(
        from: Option<impl AsyncRead + Unpin + Send + 'static>,
        to: impl AsyncWrite + Unpin + Send + 'static,
        keep: usize,
        phase: Phase,
    ) -> Self {
        let (told, captured) = oneshot::channel();
        let written = tokio::spawn(async move {
            if let Some(from) = from {
                pass(from, to, keep, phase, told).await;
            }
        });
        Self { captured, written }
    }

    /// What was kept, once everything is read.
    ///
    /// # Cancel safety
    ///
    /// It can be asked for again.
    pub(super) async fn captured(&mut self) -> Captured {
        (&mut self.captured).await.unwrap_or_default()
    }

    /// Waits until everything is passed on.
    ///
    /// # Cancel safety
    ///
    /// It can be waited for again.
    pub(super) async fn written(&mut self) {
        if !self.written.is_finished() {
            (&mut self.written).await.ok();
        }
    }
}

/// One of this process's own outputs, without the buffer and the lock of the standard library: a write
/// that nobody reads must not hold up what is told there.
pub(super) fn own(stream: &impl AsFd) -> io::Result<tokio::fs::File> {
    let own = stream.as_fd().try_clone_to_owned()?;
    Ok(tokio::fs::File::from_std(File::from(own)))
}

/// Passes bytes on. While the command runs, a slow reader holds it back as a plain pipe would. One that
/// has left does not stop it: what it would have read is still kept.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    keep: usize,
    phase: Phase,
    told: oneshot::Sender<Captured>,
) {
    let mut captured = Captured::default();
    let (mut told, mut to) = (Some(told), Some(to));
    let mut waiting = Vec::new();
    let mut chunk = vec![0; CHUNK];
    let mut waiting_max = 1;
    while told.is_some() || !waiting.is_empty() {
        let read = tokio::select! {
            biased;
            read = from.read(&mut chunk), if told.is_some() && waiting.len() < waiting_max => {
                read.unwrap_or(0)
            }
            written = write(&mut to, &waiting), if !waiting.is_empty() => {
                waiting.drain(..written);
                continue;
            }
            () = phase.ended.cancelled(), if waiting_max < WAITING_MAX => {
                waiting_max = WAITING_MAX;
                continue;
            }
            () = phase.enough.cancelled(), if told.is_some() => 0,
        };
        captured.add(&chunk[..read], keep);
        if to.is_some() {
            waiting.extend_from_slice(&chunk[..read]);
        }
        if read == 0
            && let Some(told) = told.take()
        {
            told.send(std::mem::take(&mut captured)).ok();
        }
    }
    if let Some(mut open) = to {
        open.flush().await.ok();
    }
}

/// Writes some of the bytes; all of them count as written if nobody can read them any more.
async fn write(to: &mut Option<impl AsyncWrite + Unpin>, bytes: &[u8]) -> usize {
    if let Some(open) = to
        && let Ok(written @ 1..) = open.write(bytes).await
    {
        return written;
    }
    *to = None;
    bytes.len()
}

impl Captured {
    fn add(&mut self, bytes: &[u8], keep: usize) {
        let room = keep.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(more);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TEXT: &[u8] = b"0123456789";

    #[tokio::test]
    async fn output_goes_through_whole_and_is_kept_up_to_the_limit() {
        let (mut reader, writer) = tokio::io::duplex(3);
        let mut passing = Passing::start(Some(TEXT), writer, 4, Phase::default());
        let mut shown = Vec::new();
        reader.read_to_end(&mut shown).await.expect("it is read");
        assert_eq!(shown, TEXT);
        let captured = passing.captured().await;
        assert_eq!((&*captured.kept, captured.bytes), (&b"0123"[..], 10));
    }

    #[tokio::test]
    async fn a_reader_that_has_left_does_not_stop_the_command() {
        let (reader, writer) = tokio::io::duplex(1);
        drop(reader);
        let mut passing = Passing::start(Some(TEXT), writer, 20, Phase::default());
        assert_eq!(passing.captured().await.kept, TEXT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_reader_holds_the_command_back_and_not_what_is_kept_of_it() {
        let (mut command, from) = tokio::io::duplex(CHUNK);
        let (mut reader, to) = tokio::io::duplex(1);
        let phase = Phase::default();
        let mut passing = Passing::start(Some(from), to, usize::MAX, phase.clone());
        let text = vec![b'a'; 3 * CHUNK];
        let told = command.write_all(&text);
        let held_back = tokio::time::timeout(Duration::from_mins(1), told).await;
        assert!(held_back.is_err(), "the command is held back");
        drop(command);

        phase.ended.cancel();
        let captured = passing.captured().await;
        assert_eq!(captured.kept.len(), 2 * CHUNK);
        let mut shown = Vec::new();
        reader.read_to_end(&mut shown).await.expect("it is read");
        assert_eq!(shown.len(), 2 * CHUNK);
        passing.written().await;
    }
}
