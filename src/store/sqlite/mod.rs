//! The store in one SQLite file: the embedded default. One thread writes and one reads, so that no
//! read waits for a commit's flush. Several processes may use the same file.

mod error;
pub mod migrate;
mod namespaces;
mod open;
mod records;
mod row;
mod sql;
#[cfg(test)]
mod tests;
mod worker;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use self::worker::{Job, Worker};
use self::writer::Writer;
use crate::domain::command::Command;
use crate::domain::key::RecordKey;
use crate::domain::namespace::Namespace;
use crate::domain::time::Timestamp;
use crate::domain::token::TokenSecrets;
use crate::port::clock::Clock;
use crate::port::store::{Applied, AuditEntry, Health, Reading, Store, StoreError, Swept};
use crate::store::queue::Taken;

/// Bytes that must be free on its disk for a store to be ready: what is under way still fits.
const ROOM_MIN: u64 = 4 * 1024 * 1024;

/// A store in one file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    clock: Clock,
    writer: Worker,
    reader: Worker,
    commits: Arc<AtomicU64>,
}

impl SqliteStore {
    /// Opens the file, makes it if there is none, and brings its schema up to date. Blocks on the
    /// disk.
    ///
    /// # Errors
    ///
    /// `Unusable`: an operator must act, and the text says how; e.g. the folder is missing, or the
    /// schema is newer than this version knows. `Unavailable`: repeating can help.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, StoreError> {
        let path = open::create(path)?;
        let mut writing = open::connect(&path)?;
        migrate::up(&mut writing)?;
        prepare(&writing)?;
        let reading = open::connect(&path)?;
        reading.pragma_update(None, "query_only", "ON")?;
        let commits = Arc::new(AtomicU64::new(0));
        let writer = Writer {
            clock: clock.clone(),
            files: open::Files::of(&path)?,
            commits: Arc::clone(&commits),
        };
        Ok(Self {
            path,
            clock,
            writer: Worker::spawn("oncegate-sqlite", writing, move |connection, taken| {
                writer.serve(connection, taken);
            })?,
            reader: Worker::spawn("oncegate-sqlite-read", reading, serve_read)?,
            commits,
        })
    }

    /// How many commits have changed something since the store was opened. Each has waited for its
    /// flush to the disk.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Does what is queued, moves the log into the file and closes both. Every later call is
    /// `Unavailable`.
    ///
    /// # Errors
    ///
    /// The log could not be moved. Nothing is lost: the next to open the file finds it.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.reader.close().await?;
        self.writer.close().await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        // Nothing is tried again but what failed beside another.
        self.writer.queue.apply(command, Duration::ZERO).await
    }

    async fn read(&self, keys: Vec<RecordKey>) -> Result<Reading, StoreError> {
        let clock = self.clock.clone();
        let work = move |connection: &Connection| records::read(connection, &clock, &keys);
        self.reader.run(work).await
    }

    async fn sweep(&self, batch: u32) -> Result<Swept, StoreError> {
        let clock = self.clock.clone();
        let work = move |connection: &Connection| records::sweep(connection, &clock, batch);
        self.writer.run(work).await
    }

    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, StoreError> {
        let name = name.to_owned();
        let work = move |connection: &Connection| namespaces::get(connection, &name);
        self.reader.run(work).await
    }

    async fn namespaces(&self, after: &str, limit: u32) -> Result<Vec<Namespace>, StoreError> {
        let after = after.to_owned();
        let work = move |connection: &Connection| namespaces::list(connection, &after, limit);
        self.reader.run(work).await
    }

    async fn put_namespace(&self, namespace: Namespace) -> Result<Option<Namespace>, StoreError> {
        let clock = self.clock.clone();
        let work = move |connection: &Connection| namespaces::put(connection, &clock, namespace);
        self.writer.run(work).await
    }

    async fn audit(
        &self,
        key: RecordKey,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let digest = key.digest();
        let work = move |connection: &Connection| records::trail(connection, &digest, after, limit);
        self.reader.run(work).await
    }

    async fn token_secrets(&self) -> Result<TokenSecrets, StoreError> {
        self.writer.run(secrets).await
    }

    async fn check(&self) -> Result<Health, StoreError> {
        let clock = self.clock.clone();
        // In the writer: it proves that its thread lives, that the write lock can be had and that
        // the file is still the one that was opened.
        open::room(&self.path, ROOM_MIN)?;
        let work = move |connection: &Connection| health(connection, &clock);
        let health = self.writer.run(work).await?;
        self.reader.run(|_connection| Ok(())).await?;
        Ok(health)
    }
}

/// Each read has a transaction of its own: what it sees is of one moment, and no older than its
/// start.
fn serve_read(connection: &mut Connection, taken: Taken<Box<dyn Job>>) {
    // Commands go to the writer.
    let Taken::Other(mut job) = taken else { return };
    let read = Transaction::new(connection, TransactionBehavior::Deferred)
        .and_then(|transaction| {
            job.run(&transaction);
            transaction.commit()
        })
        .map_err(StoreError::from);
    job.settle(read);
}

/// Refuses tables that are not this version's, whatever the schema's version says.
fn prepare(connection: &Connection) -> Result<(), StoreError> {
    for statement in sql::ALL {
        connection.prepare_cached(statement).map_err(|error| {
            tracing::error!(%error, "a statement cannot be prepared");
            let problem = "the file's tables are not those of its schema's version";
            StoreError::Unusable(problem.to_owned())
        })?;
    }
    Ok(())
}

fn secrets(connection: &Connection) -> Result<TokenSecrets, StoreError> {
    let mut statement = connection.prepare_cached(sql::SECRETS)?;
    let stored: rusqlite::Result<Vec<_>> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect();
    if let Some(secrets) = TokenSecrets::new(stored?) {
        return Ok(secrets);
    }
    let secret = super::new_secret()?;
    let changed = connection
        .prepare_cached(sql::INSERT_SECRET)?
        .execute([secret])?;
    error::one_row(changed, "the first token secret")?;
    Ok(TokenSecrets::first(secret))
}

fn health(connection: &Connection, clock: &Clock) -> Result<Health, StoreError> {
    let mut statement = connection.prepare_cached(sql::HEALTH)?;
    let read = |row: &rusqlite::Row<'_>| {
        let synchronous = match row.get(4)? {
            open::FULL => "FULL".to_owned(),
            other => other.to_string(),
        };
        Ok(Health {
            engine: "sqlite",
            engine_version: row.get(1)?,
            schema_version: row.get(2)?,
            settings: vec![
                ("journal_mode".to_owned(), row.get(3)?),
                ("synchronous".to_owned(), synchronous),
            ],
            now: Timestamp::from_micros(row.get(0)?),
        })
    };
    Ok(statement.query_row([clock.injected()], read)?)
}
