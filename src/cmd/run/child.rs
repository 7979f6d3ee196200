//! The command itself: its output goes through and is kept, signals go to it, its end is awaited.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::RunArgs;
use super::lease::Held;
use super::signals::Signals;
use crate::cmd::exit::Exit;
use crate::cmd::failure::Failure;
use crate::cmd::output;

/// How long output is awaited after the command has ended. A process that it left in the background
/// may keep it open for ever.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);
const CHUNK: usize = 16 * 1024;

/// A command that runs.
pub(super) struct Running {
    child: Child,
    stdout: JoinHandle<Captured>,
    stderr: JoinHandle<Captured>,
    enough: CancellationToken,
}

/// A command that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) ended: Ended,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Code(u8),
    Killed(i32),
}

/// The beginning of one output and its whole size.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    pub(super) kept: Vec<u8>,
    pub(super) bytes: u64,
}

/// Why a command does not run under our eyes.
#[derive(Debug)]
pub(super) enum NotWatched {
    /// It was not started at all.
    NotStarted(std::io::Error),
    /// It was started and could not be watched: what it does is not known.
    Lost(std::io::Error),
}

/// Whether the error is one of the program itself, from before its first instruction. Any other one
/// can also come after the start, when the new process is registered to be watched.
fn says_not_started(error: &std::io::Error) -> bool {
    /// "Exec format error": neither a binary for this machine nor a script with an interpreter.
    const ENOEXEC: i32 = 8;
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::InvalidInput
            | ErrorKind::ArgumentListTooLong
            | ErrorKind::ExecutableFileBusy
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
    ) || error.raw_os_error() == Some(ENOEXEC)
}

/// Starts the command.
pub(super) fn spawn(args: &RunArgs, held: &Held) -> Result<Running, NotWatched> {
    let Some((program, rest)) = args.command.split_first() else {
        let nothing = ErrorKind::NotFound.into();
        return Err(NotWatched::NotStarted(nothing));
    };
    let mut child = Command::new(program)
        .args(rest)
        .env("ONCEGATE_KEY", &args.key)
        .env("ONCEGATE_FENCE", held.fence.to_string())
        .env("ONCEGATE_ATTEMPT", held.attempt.to_string())
        .env("ONCEGATE_DOWNSTREAM_KEY", &held.downstream_key)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            if says_not_started(&error) {
                NotWatched::NotStarted(error)
            } else {
                NotWatched::Lost(error)
            }
        })?;
    let enough = CancellationToken::new();
    let keep = usize::try_from(args.max_output).unwrap_or(usize::MAX);
    let stdout = pass(
        child.stdout.take(),
        tokio::io::stdout(),
        keep,
        enough.clone(),
    );
    let stderr = pass(
        child.stderr.take(),
        tokio::io::stderr(),
        keep,
        enough.clone(),
    );
    Ok(Running {
        stdout: tokio::spawn(stdout),
        stderr: tokio::spawn(stderr),
        child,
        enough,
    })
}

impl Running {
    /// Waits for the end, passing signals on meanwhile.
    pub(super) async fn finish(mut self, signals: &mut Signals) -> Result<Finished, Failure> {
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status?,
                Some(signal) = signals.next() => {
                    if let Some(process) = self.child.id() {
                        signal.send(process);
                    }
                }
            }
        };
        let both = async { tokio::join!(&mut self.stdout, &mut self.stderr) };
        let (stdout, stderr) = if let Ok(read) = tokio::time::timeout(OUTPUT_GRACE, both).await {
            read
        } else {
            output::note(
                "a process that the command left behind holds its output: not waiting for it",
            );
            self.enough.cancel();
            tokio::join!(self.stdout, self.stderr)
        };
        let broken = |error: tokio::task::JoinError| Failure::new(Exit::Failed, error.to_string());
        Ok(Finished {
            ended: ended(status),
            stdout: stdout.map_err(broken)?,
            stderr: stderr.map_err(broken)?,
        })
    }
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, signal) => Ended::Killed(signal.unwrap_or(0)),
    }
}

/// Passes bytes on as they come and keeps the first of them. A reader that has left does not stop
/// the command: what it would have read is still kept.
async fn pass(
    from: Option<impl AsyncRead + Unpin>,
    to: impl AsyncWrite + Unpin,
    keep: usize,
    enough: CancellationToken,
) -> Captured {
    let mut captured = Captured::default();
    let (Some(mut from), mut to) = (from, Some(to)) else {
        return captured;
    };
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = tokio::select! {
            biased;
            read = from.read(&mut chunk) => read.unwrap_or(0),
            () = enough.cancelled() => 0,
        };
        if read == 0 {
            return captured;
        }
        let bytes = &chunk[..read];
        let room = keep.saturating_sub(captured.kept.len());
        captured.kept.extend_from_slice(&bytes[..read.min(room)]);
        captured.bytes = captured
            .bytes
            .saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        if let Some(open) = &mut to
            && (open.write_all(bytes).await.is_err() || open.flush().await.is_err())
        {
            to = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_goes_through_whole_and_is_kept_up_to_the_limit() {
        let mut shown = Vec::new();
        let enough = CancellationToken::new();
        let captured = pass(Some(&b"0123456789"[..]), &mut shown, 4, enough).await;
        assert_eq!(shown, b"0123456789");
        assert_eq!(captured.kept, b"0123");
        assert_eq!(captured.bytes, 10);
    }

    #[tokio::test]
    async fn a_reader_that_has_left_does_not_stop_the_command() {
        let (reader, writer) = tokio::io::duplex(1);
        drop(reader);
        let enough = CancellationToken::new();
        let captured = pass(Some(&b"0123456789"[..]), writer, 20, enough).await;
        assert_eq!(captured.kept, b"0123456789");
    }

    #[test]
    fn an_end_is_a_code_or_a_signal() {
        assert_eq!(ended(ExitStatus::from_raw(3 << 8)), Ended::Code(3));
        assert_eq!(ended(ExitStatus::from_raw(9)), Ended::Killed(9));
    }
}
