//! Opening the file, with settings that are read back: an engine that does not flush is refused.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::migrate;
use crate::port::store::StoreError;

/// How long one process waits for another one's lock on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the change to WAL is tried while another process opens the same new file.
const WAL_TRIES: u32 = 10;
/// `PRAGMA synchronous` as the engine tells it.
pub(super) const FULL: i64 = 2;
/// More than there are statements.
const STATEMENTS_MAX: usize = 32;

/// Makes the file if there is none, for this user alone. Answers its real path.
pub(super) fn create(path: &Path) -> Result<PathBuf, StoreError> {
    let shown = path.display();
    // Only ever created here, never opened: closing a second handle of a file gives up all locks
    // that this process has on it.
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match created {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let problem = format!("there is no folder for {shown}: create it first");
            return Err(StoreError::Unusable(problem));
        }
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            let problem = format!("{shown} cannot be created: {error}");
            return Err(StoreError::Unusable(problem));
        }
        Ok(_) | Err(_) => {}
    }
    fs::canonicalize(path)
        .map_err(|error| StoreError::Unusable(format!("{shown} cannot be found: {error}")))
}

/// Opens a connection that flushes every commit. A file that is not ours, or of a newer schema, is
/// refused before anything of it is changed.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.busy_timeout(BUSY_TIMEOUT)?;
    migrate::known_version(&connection)?;
    let journal = write_ahead(&connection)?;
    if journal != "wal" {
        let problem = format!(
            "the file system of {} allows journal mode {journal} only, not WAL: use a local disk",
            path.display()
        );
        return Err(StoreError::Unusable(problem));
    }
    // On macOS a plain fsync does not reach the disk; elsewhere the last two mean nothing.
    for (name, value) in [
        ("synchronous", "FULL"),
        ("fullfsync", "ON"),
        ("checkpoint_fullfsync", "ON"),
    ] {
        connection.pragma_update(None, name, value)?;
    }
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if synchronous != FULL {
        let problem = format!("synchronous is {synchronous} in place of FULL ({FULL})");
        return Err(StoreError::Unusable(problem));
    }
    Ok(connection)
}

/// Changes to WAL, or finds it. Where another process is changing it at this moment, SQLite does
/// not wait for it by itself; beginning to write does.
fn write_ahead(connection: &Connection) -> rusqlite::Result<String> {
    let mut tries = 0;
    loop {
        let answer =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
        match answer {
            Err(failure)
                if failure.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && tries < WAL_TRIES =>
            {
                tries += 1;
                connection.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
            }
            Ok(_) | Err(_) => return answer,
        }
    }
}

/// The database file and its log as they were when they were opened. A file that was deleted or
/// replaced since can still be written to, but nobody would ever read it again.
#[derive(Debug)]
pub(super) struct Files {
    seen: [(PathBuf, (u64, u64)); 2],
}

impl Files {
    /// Remembers the files of an open connection.
    pub(super) fn of(path: &Path) -> Result<Self, StoreError> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let see = |path: PathBuf| identity(&path).map(|identity| (path, identity));
        Ok(Self {
            seen: [see(path.to_owned())?, see(log.into())?],
        })
    }

    /// Looks whether they are still the same.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        for (path, seen) in &self.seen {
            if identity(path)? != *seen {
                return Err(gone(path));
            }
        }
        Ok(())
    }
}

/// Looks whether so many bytes are free on the disk of the file: what is full fails one write and
/// takes the next, smaller one.
pub(super) fn room(path: &Path, least: u64) -> Result<(), StoreError> {
    let found = rustix::fs::statvfs(path).map_err(|_unreachable| gone(path))?;
    if found.f_bavail.saturating_mul(found.f_frsize) >= least {
        return Ok(());
    }
    let problem = format!(
        "less than {least} bytes are free on the disk of {}",
        path.display()
    );
    Err(StoreError::Unavailable(problem))
}

fn identity(path: &Path) -> Result<(u64, u64), StoreError> {
    let found = fs::metadata(path).map_err(|_unreachable| gone(path))?;
    Ok((found.dev(), found.ino()))
}

fn gone(path: &Path) -> StoreError {
    let problem = format!(
        "{} was deleted, moved or replaced while it was in use: stop all processes that use it, \
         put it back and start again",
        path.display()
    );
    StoreError::Unusable(problem)
}
