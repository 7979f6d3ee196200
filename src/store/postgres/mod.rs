//! The store in Postgres. Callers put jobs into a queue; workers, each with a connection of its
//! own, carry them out. The database arbitrates every race by one conditional statement; nothing
//! is ever read and then written without that.

mod apply;
mod error;
mod job;
mod known;
mod migrate;
mod row;
mod session;
mod settings;
mod sql;
mod sweep;
mod tables;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

pub use migrate::{MigrationReport, SCHEMA_VERSION, migrate, migrate_down, schema_version};

use self::job::{Job, Pending};
use self::known::Known;
use self::session::Target;
use self::worker::Shared;
use crate::domain::command::Command;
use crate::domain::key::RecordKey;
use crate::domain::namespace::Namespace;
use crate::domain::token::TokenSecrets;
use crate::port::clock::Clock;
use crate::port::store::{Applied, AuditEntry, Health, Reading, Store, StoreError, Swept};
use crate::store::queue::Queue;

/// Where the database is and how long it is waited for.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    pub url: String,
    /// How many connections are held, each with its worker; at least one.
    pub connections: u32,
    /// Whose clock decides.
    pub clock: Clock,
    /// How long one statement may take, at least 1 ms.
    pub statement_timeout: Duration,
    /// How long one statement may wait for a lock, at least 1 ms.
    pub lock_timeout: Duration,
    /// How long one connection may take to open.
    pub connect_timeout: Duration,
    /// How long after it was asked an operation is still tried again.
    pub retry_for: Duration,
}

impl PostgresOptions {
    /// The defaults, for the database at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections: 3,
            clock: Clock::Database,
            statement_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(3),
            retry_for: Duration::from_secs(10),
        }
    }
}

/// Without the URL: it holds the password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PostgresOptions")
            .field("connections", &self.connections)
            .field("clock", &self.clock)
            .field("statement_timeout", &self.statement_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("retry_for", &self.retry_for)
            .finish_non_exhaustive()
    }
}

/// A store in Postgres.
#[derive(Debug)]
pub struct PostgresStore {
    queue: Arc<Queue<Job>>,
    workers: TaskTracker,
    retry_for: Duration,
}

impl PostgresStore {
    /// Starts the workers, on the current Tokio runtime. The database need not be up: as long as
    /// it is not, every operation is `Unavailable`.
    ///
    /// # Errors
    ///
    /// `Unusable`: the URL cannot be read.
    pub fn connect(options: &PostgresOptions) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::new());
        let shared = Arc::new(Shared {
            queue: Arc::clone(&queue),
            target: Target::new(options)?,
            known: Known::default(),
        });
        let workers = TaskTracker::new();
        for _ in 0..options.connections.max(1) {
            workers.spawn(worker::run(Arc::clone(&shared)));
        }
        let retry_for = options.retry_for;
        Ok(Self {
            queue,
            workers,
            retry_for,
        })
    }

    /// Waits until everything that was asked is answered and the connections are closed. What is
    /// asked meanwhile is done, too.
    pub async fn close(self) {
        let workers = self.workers.clone();
        drop(self);
        workers.close();
        workers.wait().await;
    }

    async fn ask<Q, A>(
        &self,
        question: Q,
        retry_for: Duration,
        job: impl FnOnce(Pending<Q, A>) -> Job,
    ) -> Result<A, StoreError> {
        let (reply, answer) = oneshot::channel();
        let deadline = Instant::now() + retry_for;
        self.queue.add(job(Pending {
            question,
            deadline,
            reply,
        }))?;
        let broke_off = || StoreError::OutcomeUnknown("the operation broke off".to_owned());
        answer.await.unwrap_or_else(|_dropped| Err(broke_off()))
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        self.queue.apply(command, self.retry_for).await
    }

    async fn read(&self, keys: Vec<RecordKey>) -> Result<Reading, StoreError> {
        self.ask(keys, self.retry_for, Job::Read).await
    }

    async fn sweep(&self, batch: u32) -> Result<Swept, StoreError> {
        self.ask(batch, self.retry_for, Job::Sweep).await
    }

    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, StoreError> {
        self.ask(name.to_owned(), self.retry_for, Job::Namespace)
            .await
    }

    async fn namespaces(&self, after: &str, limit: u32) -> Result<Vec<Namespace>, StoreError> {
        self.ask((after.to_owned(), limit), self.retry_for, Job::Namespaces)
            .await
    }

    async fn put_namespace(&self, namespace: Namespace) -> Result<Option<Namespace>, StoreError> {
        self.ask(namespace, self.retry_for, Job::PutNamespace).await
    }

    async fn audit(
        &self,
        key: RecordKey,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.ask((key, after, limit), self.retry_for, Job::Audit)
            .await
    }

    async fn token_secrets(&self) -> Result<TokenSecrets, StoreError> {
        self.ask((), self.retry_for, Job::TokenSecrets).await
    }

    async fn check(&self) -> Result<Health, StoreError> {
        // Tried once: whoever asks wants to know how it is now.
        self.ask((), Duration::ZERO, Job::Check).await
    }
}

/// What the integration tests need of the inside.
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod testing {
    /// Every statement by name.
    pub const STATEMENTS: &[(&str, &str)] = super::sql::ALL;
}
