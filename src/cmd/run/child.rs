//! The command itself: its output goes through and is kept, signals go to it, its end is awaited.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::RunArgs;
use super::lease::Held;
use super::pass::{self, Captured, Passing, Phase};
use super::signals::Signals;
use crate::cmd::failure::Failure;
use crate::cmd::output;

/// How long after the command's end its output is awaited. A process that it left in the background
/// may keep it open for ever.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// How long what the command said may take so that what we say comes after it.
const IN_ORDER: Duration = Duration::from_millis(100);
/// How long a reader has, once the command has ended and its end is reported, to read the rest.
const REST_WITHIN: Duration = Duration::from_mins(1);

/// A command that runs.
pub(super) struct Running {
    child: Child,
    stdout: Passing,
    stderr: Passing,
    phase: Phase,
}

/// A command that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) ended: Ended,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
}

/// What a command that has ended had written and nobody has read yet.
pub(super) struct Rest {
    stdout: Passing,
    stderr: Passing,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Code(u8),
    Killed(i32),
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
    let own =
        pass::own(&std::io::stdout()).and_then(|out| Ok((out, pass::own(&std::io::stderr())?)));
    let (own_stdout, own_stderr) = own.map_err(NotWatched::NotStarted)?;
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
    let phase = Phase::default();
    let keep = usize::try_from(args.max_output).unwrap_or(usize::MAX);
    Ok(Running {
        stdout: Passing::start(child.stdout.take(), own_stdout, keep, phase.clone()),
        stderr: Passing::start(child.stderr.take(), own_stderr, keep, phase.clone()),
        child,
        phase,
    })
}

impl Running {
    /// Waits for the end, passing signals on meanwhile.
    pub(super) async fn finish(
        mut self,
        signals: &mut Signals,
    ) -> Result<(Finished, Rest), Failure> {
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
        self.phase.ended.cancel();
        let (mut stdout, mut stderr) = (self.stdout, self.stderr);
        let (out, err) = {
            let both = async { tokio::join!(stdout.captured(), stderr.captured()) };
            tokio::pin!(both);
            if let Ok(captured) = timeout(OUTPUT_GRACE, &mut both).await {
                captured
            } else {
                self.phase.enough.cancel();
                output::note(
                    "a process that the command left behind holds its output: not waiting for it",
                );
                both.await
            }
        };
        let finished = Finished {
            ended: ended(status),
            stdout: out,
            stderr: err,
        };
        let mut rest = Rest { stdout, stderr };
        timeout(IN_ORDER, rest.read()).await.ok();
        signals.command_ended();
        Ok((finished, rest))
    }
}

impl Rest {
    /// Waits until it is read, for a while at most, and no longer than until a signal comes.
    pub(super) async fn until_read(mut self, signals: &mut Signals) {
        let unread = tokio::select! {
            read = timeout(REST_WITHIN, self.read()) => read.is_err(),
            Some(_) = signals.next() => true,
        };
        if unread {
            output::note("the end of the command's output was not read, and is not waited for");
        }
    }

    async fn read(&mut self) {
        tokio::join!(self.stdout.written(), self.stderr.written());
    }
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, signal) => Ended::Killed(signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_code_or_a_signal() {
        assert_eq!(ended(ExitStatus::from_raw(3 << 8)), Ended::Code(3));
        assert_eq!(ended(ExitStatus::from_raw(9)), Ended::Killed(9));
    }
}
