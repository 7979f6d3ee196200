//! What SQLite's failures mean to a caller, in words of our own: its texts go to the log only.

use rusqlite::{Error, ErrorCode};

use crate::port::store::StoreError;

/// For every statement but COMMIT: its transaction is rolled back, so nothing was written.
impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        tracing::error!(%error, "SQLite failed");
        meaning(&error)
    }
}

/// A COMMIT failed. If the disk is full or the lock was not got, its last page was never written;
/// after any other failure it may be in the log on disk.
pub(super) fn of_commit(error: Error) -> StoreError {
    let full_or_busy = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    );
    if full_or_busy {
        return error.into();
    }
    tracing::error!(%error, "SQLite failed to commit");
    StoreError::OutcomeUnknown("the disk failed during a commit".to_owned())
}

/// A write that must change one row changed another number of them. One writer, inside one
/// transaction, cannot see that unless the database is damaged.
pub(super) fn one_row(changed: usize, what: &str) -> Result<(), StoreError> {
    if changed == 1 {
        return Ok(());
    }
    let problem = format!("{what} changed {changed} rows in place of one");
    tracing::error!(problem, "the database contradicts itself");
    Err(StoreError::Corrupt(problem))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the engine's enums: what is not told apart"
)]
fn meaning(error: &Error) -> StoreError {
    let unavailable = |text: &str| StoreError::Unavailable(text.to_owned());
    let unusable = |text: &str| StoreError::Unusable(text.to_owned());
    let corrupt = |text: &str| StoreError::Corrupt(text.to_owned());
    let Some(code) = error.sqlite_error_code() else {
        return match error {
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..) => corrupt("a column does not hold what belongs there"),
            Error::QueryReturnedNoRows => corrupt("a row that is always there is missing"),
            _ => unavailable("the database could not be asked"),
        };
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            unavailable("another process holds the database file's lock")
        }
        ErrorCode::DiskFull => unavailable("the disk of the database file is full"),
        ErrorCode::SystemIoFailure => unavailable("the disk of the database file fails"),
        ErrorCode::OutOfMemory => unavailable("there is not enough memory"),
        ErrorCode::ReadOnly => unusable(
            "the database file is read-only: let this process write to it and to its folder",
        ),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => unusable(
            "the database file cannot be opened: let this process read and write it and its folder",
        ),
        ErrorCode::DatabaseCorrupt => {
            corrupt("the database file is damaged: restore it from a backup")
        }
        ErrorCode::NotADatabase => unusable("the file is no SQLite database"),
        ErrorCode::ConstraintViolation => corrupt("a row breaks a rule of its table"),
        _ => unavailable("the database failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_says_whether_repeating_helps_and_shows_no_sql() {
        use rusqlite::ffi;
        for (code, retryable) in [
            (ffi::SQLITE_BUSY, true),
            (ffi::SQLITE_LOCKED, true),
            (ffi::SQLITE_FULL, true),
            (ffi::SQLITE_IOERR, true),
            (ffi::SQLITE_NOMEM, true),
            (ffi::SQLITE_ERROR, true),
            (ffi::SQLITE_READONLY, false),
            (ffi::SQLITE_CANTOPEN, false),
            (ffi::SQLITE_PERM, false),
            (ffi::SQLITE_CORRUPT, false),
            (ffi::SQLITE_NOTADB, false),
            (ffi::SQLITE_CONSTRAINT, false),
        ] {
            let detail = Some("INSERT INTO secrets".to_owned());
            let meaning = StoreError::from(Error::SqliteFailure(ffi::Error::new(code), detail));
            assert_eq!(meaning.is_retryable(), retryable, "{meaning}");
            assert!(!meaning.to_string().contains("INSERT"), "{meaning}");
        }
    }

    #[test]
    fn a_commit_that_fails_is_unknown_unless_it_cannot_have_been_written() {
        use rusqlite::ffi;
        for (code, unknown) in [
            (ffi::SQLITE_FULL, false),
            (ffi::SQLITE_BUSY, false),
            (ffi::SQLITE_IOERR_FSYNC, true),
            (ffi::SQLITE_IOERR_WRITE, true),
            (ffi::SQLITE_READONLY, true),
        ] {
            let meaning = of_commit(Error::SqliteFailure(ffi::Error::new(code), None));
            assert_eq!(
                matches!(meaning, StoreError::OutcomeUnknown(_)),
                unknown,
                "{meaning}"
            );
        }
    }
}
