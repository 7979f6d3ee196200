//! The exit codes, all of them. `docs/cli.md` has them in its tables; a test compares.

use std::process::ExitCode;

use tonic::Code;

/// How a command ends. The codes from 100 on are chosen so that `run`, which passes on its
/// command's own code, is rarely mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked; GRANTED and REPLAY too.
    Ok,
    /// Something failed that has no code of its own.
    Failed,
    /// The arguments are wrong, or the server refused one of them.
    Usage,
    /// Somebody is at work, or it is too early: ask again later.
    InProgress,
    /// The key was used for something else.
    Mismatch,
    /// A person must decide.
    Parked,
    /// An earlier holder disappeared: find out what happened.
    Recover,
    /// It happened once; the outcome is no longer kept.
    Expired,
    /// The token is no longer the current one.
    Stale,
    /// There is no such record or namespace.
    NotFound,
    /// The credential is missing, unknown or not allowed to do this.
    Denied,
    /// The server or its store does not answer, or has too much to do; nothing was granted.
    Unavailable,
    /// It has changed since it was read, or another outcome is recorded already.
    Conflict,
    /// The record's state does not allow it.
    NotPossible,
    /// `run`: the code of the command itself, or what a shell makes of its end.
    Command(u8),
}

impl Exit {
    /// The number that the process ends with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::InProgress => 100,
            Self::Mismatch => 101,
            Self::Parked => 102,
            Self::Recover => 103,
            Self::Expired => 104,
            Self::Stale => 105,
            Self::NotFound => 106,
            Self::Denied => 107,
            Self::Unavailable => 108,
            Self::Conflict => 109,
            Self::NotPossible => 110,
            Self::Command(code) => code,
        }
    }

    /// What a gRPC error ends with.
    pub(crate) const fn of_status(code: Code) -> Self {
        match code {
            Code::Ok => Self::Ok,
            Code::InvalidArgument | Code::OutOfRange => Self::Usage,
            Code::Unauthenticated | Code::PermissionDenied => Self::Denied,
            Code::NotFound => Self::NotFound,
            Code::FailedPrecondition => Self::NotPossible,
            Code::Aborted | Code::AlreadyExists => Self::Conflict,
            Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::ResourceExhausted => Self::Unavailable,
            Code::Unknown | Code::Unimplemented | Code::Internal | Code::DataLoss => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: [Exit; 14] = [
        Exit::Ok,
        Exit::Failed,
        Exit::Usage,
        Exit::InProgress,
        Exit::Mismatch,
        Exit::Parked,
        Exit::Recover,
        Exit::Expired,
        Exit::Stale,
        Exit::NotFound,
        Exit::Denied,
        Exit::Unavailable,
        Exit::Conflict,
        Exit::NotPossible,
    ];

    /// Read from the text above, so that a code cannot be added without its rows.
    #[test]
    fn every_exit_code_stands_in_the_manual() {
        let (above, _) = include_str!("exit.rs")
            .split_once("mod tests")
            .expect("is here");
        let coded = |line: &str| {
            let (name, code) = line.trim().strip_prefix("Self::")?.split_once(" => ")?;
            let code: u8 = code.trim_end_matches(',').parse().ok()?;
            Some((name.to_owned(), code))
        };
        let coded: Vec<_> = above.lines().filter_map(coded).collect();
        assert_eq!(coded.len(), FIXED.len(), "{coded:?}");
        let manual = include_str!("../../docs/cli.md");
        let (_, of_run) = manual.split_once("### `oncegate run`\n").expect("is there");
        let (of_run, _) = of_run.split_once("\n### ").expect("it ends");
        for (name, code) in coded {
            let row = format!("| {code} | `{name}` |");
            assert!(manual.contains(&row), "docs/cli.md has no row {row}");
            let codes = of_run.lines().filter_map(|line| line.split('|').nth(1));
            let mut codes = codes.flat_map(|cell| cell.split(','));
            let is_there = codes.any(|one| one.trim() == code.to_string());
            assert!(is_there || code == 0, "the codes of run lack {code}");
        }
    }

    #[test]
    fn no_two_exits_share_a_code() {
        for (at, one) in FIXED.iter().enumerate() {
            for other in &FIXED[at + 1..] {
                assert_ne!(one.code(), other.code(), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn every_grpc_code_has_its_exit() {
        for (code, want) in [
            (Code::Ok, Exit::Ok),
            (Code::InvalidArgument, Exit::Usage),
            (Code::OutOfRange, Exit::Usage),
            (Code::Unauthenticated, Exit::Denied),
            (Code::PermissionDenied, Exit::Denied),
            (Code::NotFound, Exit::NotFound),
            (Code::FailedPrecondition, Exit::NotPossible),
            (Code::Aborted, Exit::Conflict),
            (Code::AlreadyExists, Exit::Conflict),
            (Code::Unavailable, Exit::Unavailable),
            (Code::DeadlineExceeded, Exit::Unavailable),
            (Code::Cancelled, Exit::Unavailable),
            (Code::ResourceExhausted, Exit::Unavailable),
            (Code::Unknown, Exit::Failed),
            (Code::Unimplemented, Exit::Failed),
            (Code::Internal, Exit::Failed),
            (Code::DataLoss, Exit::Failed),
        ] {
            assert_eq!(Exit::of_status(code), want, "{code:?}");
        }
    }
}
