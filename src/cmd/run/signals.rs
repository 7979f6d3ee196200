//! The signals that end a command: passed on to it, never acted on in its place.

use std::io::IsTerminal;

use rustix::process::{Pid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::cmd::exit::Exit;

/// A signal that asks a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Hangup,
    Interrupt,
    Terminate,
}

impl Ending {
    /// Why a right is given back that was not used.
    pub(super) fn before_start(self) -> String {
        let name = match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        };
        format!("stopped by {name} before the command was started")
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
    receiver: tokio::sync::mpsc::UnboundedReceiver<Ending>,
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
                while stream.recv().await.is_some() && sender.send(ending).is_ok() {}
            });
        }
        Ok(Self { receiver })
    }

    /// One that has come already.
    pub(super) fn pending(&mut self) -> Option<Ending> {
        self.receiver.try_recv().ok()
    }

    /// Waits for the next one.
    ///
    /// # Cancel safety
    ///
    /// None is lost.
    pub(super) async fn next(&mut self) -> Option<Ending> {
        self.receiver.recv().await
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
