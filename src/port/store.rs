//! The one interface between the services and a store. Every store passes the same conformance
//! suite (`testkit::conformance`), decorated or not.

use std::sync::Arc;

use async_trait::async_trait;

use crate::domain::command::{Answer, Command};
use crate::domain::decision::Audit;
use crate::domain::key::RecordKey;
use crate::domain::namespace::Namespace;
use crate::domain::record::Record;
use crate::domain::time::Timestamp;
use crate::domain::token::TokenSecrets;

/// What keeps the records.
///
/// # Cancel safety
///
/// Dropping any of these futures loses nothing: the work runs in a task of the store's own and is
/// finished there.
#[async_trait]
pub trait Store: std::fmt::Debug + Send + Sync + 'static {
    /// Carries out one command on one record: judges it with [`crate::domain::decision::decide`] at
    /// the database's moment and writes the result, durably, only if the record is still the one
    /// that was judged; else judges again. The audit line is written in the same transaction.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]. Repeating the same command is always safe.
    async fn carry_out(&self, command: Command) -> Result<Applied, StoreError>;

    /// The same, for who wants the answer alone.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]. Repeating the same command is always safe.
    async fn apply(&self, command: Command) -> Result<Answer, StoreError> {
        Ok(self.carry_out(command).await?.answer)
    }

    /// Reads records as they are stored, all at one moment. Confers nothing.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]; repeating is safe. One record that cannot be read is an error of its
    /// own place, not of the call.
    async fn read(&self, keys: Vec<RecordKey>) -> Result<Reading, StoreError>;

    /// Buries or deletes at most `batch` records whose retention or tombstone has ended. Several
    /// replicas may sweep at once; no two touch the same record.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]; repeating is safe.
    async fn sweep(&self, batch: u32) -> Result<Swept, StoreError>;

    /// Reads a namespace.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]; repeating is safe.
    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, StoreError>;

    /// Reads namespaces in the order of their names, those after `after`, at most `limit`.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]; repeating is safe.
    async fn namespaces(&self, after: &str, limit: u32) -> Result<Vec<Namespace>, StoreError>;

    /// Stores a namespace if the stored one's version is `namespace.version` (zero: there is none).
    /// Answers it as stored, with its new version and, if it is new, the time of its creation;
    /// `None` if the stored one is another.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]; repeating is safe.
    async fn put_namespace(&self, namespace: Namespace) -> Result<Option<Namespace>, StoreError>;

    /// Reads a record's audit trail in its order, entries with an id above `after`, at most `limit`.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]; repeating is safe.
    async fn audit(
        &self,
        key: RecordKey,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// The secrets that this store's tokens are made with; the first caller ever makes them.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]; repeating is safe.
    async fn token_secrets(&self) -> Result<TokenSecrets, StoreError>;

    /// Looks whether the store can be written to now and keeps what it is told.
    ///
    /// # Errors
    ///
    /// Why it is not ready, in words for an operator.
    async fn check(&self) -> Result<Health, StoreError>;
}

/// What [`Store::carry_out`] came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The answer to the command.
    pub answer: Answer,
    /// What then stood there; `None`: nothing.
    pub stands: Option<Stands>,
}

/// A record as it was read or written.
#[derive(Debug, Clone, PartialEq)]
pub struct Stands {
    /// The record.
    pub record: Arc<Record>,
    /// The database's clock, not later than when the record was read, or its write committed.
    pub seen_at: Timestamp,
}

/// What [`Store::read`] found.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The database's clock when it was read.
    pub now: Timestamp,
    /// One for each key, in their order.
    pub records: Vec<Result<Option<Record>, StoreError>>,
}

/// What [`Store::sweep`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Records that lost their payload and became tombstones.
    pub buried: u32,
    /// Records that are gone.
    pub deleted: u32,
}

/// A line of the audit trail as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Rises within a store.
    pub id: i64,
    /// What was written down.
    pub audit: Audit,
}

/// What a ready store tells of itself.
#[derive(Debug, Clone)]
pub struct Health {
    /// `postgres`, `sqlite` or `memory`.
    pub engine: &'static str,
    /// The engine's own version.
    pub engine_version: String,
    /// The schema's version.
    pub schema_version: i64,
    /// Isolation and durability as read back from the engine, by name.
    pub settings: Vec<(String, String)>,
    /// The database's clock.
    pub now: Timestamp,
}

/// Why a store did not answer; each variant asks something else of its caller.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// It could not be reached or was busy, and nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// More waits already than it can take, and nothing was written. Only what asks for a right or
    /// for a look is refused, never what a holder reports.
    #[error("too much waits for the store")]
    Overloaded,
    /// It broke off while a write was under way: whether it happened is not known. The same command
    /// repeated tells.
    #[error("whether the write happened is unknown: {0}")]
    OutcomeUnknown(String),
    /// What is stored cannot be right. Never guessed at.
    #[error("a stored record cannot be right: {0}")]
    Corrupt(String),
    /// The store's schema, isolation or durability is not what this version needs; an operator must
    /// act. The text says how.
    #[error("the store is not usable: {0}")]
    Unusable(String),
}

impl StoreError {
    /// Whether repeating the same command can help without an operator.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Overloaded | Self::OutcomeUnknown(_) => true,
            Self::Corrupt(_) | Self::Unusable(_) => false,
        }
    }
}
