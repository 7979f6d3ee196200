//! The signals that end a command: passed on to it, never acted on in its place.

use std::io::IsTerminal;
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::cmd::exit::Exit;

/// What is sent to a whole process group ends the command and comes to this process as well, in either
/// order and a little apart: until then it was meant for the command.
const ONE_MOMENT: Duration = Duration::from_millis(200);

/// A signal that asks a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Hangup,
    Interrupt,
    Terminate,
}

impl Ending {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// Why a right is given back that was not used.
    pub(super) fn before_start(self) -> String {
        format!("stopped by {} before the command was started", self.name())
    }

    const fn raw(self) -> rustix::process::Signal {
        match self {
            Self::Hangup => rustix::process::Signal::HUP,
            Self::Interrupt => rustix::process::Signal::INT,
            Self::Terminate => rustix::process::Signal::TERM,
        }
    }

    /// How a shell reports that this signal ended a process.
    pub(super) fn exit(self) -> Exit {
        exit_of(self.raw().as_raw())
    }

    /// Sends it to a process that is not reaped yet, so that its id is nobody else's.
    pub(super) fn send(self, process: u32) {
        // From a terminal it has reached every process in front of it already; twice, many
        // programs take it for an order to give up at once.
        if self == Self::Interrupt && std::io::stdin().is_terminal() {
            return;
        }
        let target = i32::try_from(process).ok().and_then(Pid::from_raw);
        if let Some(target) = target {
            // It may just have ended: then there is nobody left to be told.
            kill_process(target, self.raw()).ok();
        }
    }
}

/// 128 and the signal's number, as a shell does.
pub(super) fn exit_of(signal: i32) -> Exit {
    Exit::Command(u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX))
}

/// Takes the signals away from their default, which is to end this process.
#[derive(Debug)]
pub(super) struct Signals {
    receiver: tokio::sync::mpsc::UnboundedReceiver<(Ending, Instant)>,
    /// The command has ended: what came earlier was meant for it.
    ours_from: Option<Instant>,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Self> {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        for (kind, ending) in [
            (SignalKind::hangup(), Ending::Hangup),
            (SignalKind::interrupt(), Ending::Interrupt),
            (SignalKind::terminate(), Ending::Terminate),
        ] {
            let mut stream = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send((ending, Instant::now())).is_ok()
                {
                }
            });
        }
        Ok(Self {
            receiver,
            ours_from: None,
        })
    }

    /// One that has come already.
    pub(super) fn pending(&mut self) -> Option<Ending> {
        self.receiver.try_recv().ok().map(|(signal, _)| signal)
    }

    /// From here on nobody is left to pass them on to: they tell this process to end.
    pub(super) fn command_ended(&mut self) {
        self.ours_from = Some(Instant::now() + ONE_MOMENT);
    }

    /// Waits for the next one; once the command has ended, for one that came after it.
    ///
    /// # Cancel safety
    ///
    /// None is lost.
    pub(super) async fn next(&mut self) -> Option<Ending> {
        loop {
            let (signal, at) = self.receiver.recv().await?;
            if self.ours_from.is_none_or(|from| at >= from) {
                return Some(signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_command_ends_like_in_a_shell() {
        assert_eq!(exit_of(9).code(), 137);
        assert_eq!(Ending::Terminate.exit().code(), 143);
        assert_eq!(Ending::Interrupt.exit().code(), 130);
        assert_eq!(Ending::Hangup.exit().code(), 129);
    }
}
