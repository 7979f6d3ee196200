//! Opens the store that a URL names, and closes it in good order.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::config::Problems;
use crate::config::database::DatabaseUrl;
use crate::config::sections::Database;
use crate::port::clock::Clock;
use crate::port::store::{Store, StoreError};
use crate::store::memory::MemoryStore;
use crate::store::postgres::{PostgresOptions, PostgresStore};
use crate::store::sqlite::SqliteStore;

/// Names the setting where it is that which must change.
fn bad_setting(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Unusable(problem) => Problems(vec![format!("database.url: {problem}")]).into(),
        StoreError::Unavailable(_)
        | StoreError::Overloaded
        | StoreError::OutcomeUnknown(_)
        | StoreError::Corrupt(_) => anyhow::Error::new(error).context("the store cannot be opened"),
    }
}

/// A store of whichever engine.
#[derive(Debug)]
pub(super) enum Opened {
    Memory(Arc<MemoryStore>),
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Opened {
    /// Opens it. A database server that is merely away is no error: the gate is not ready until it
    /// is there.
    pub(super) async fn open(database: &Database) -> anyhow::Result<Self> {
        match &database.url {
            DatabaseUrl::Memory => {
                tracing::warn!("memory://: every record is gone when this process ends");
                Ok(Self::Memory(Arc::new(MemoryStore::new(Clock::Database))))
            }
            DatabaseUrl::Sqlite(path) => {
                let own = path.clone();
                let opened = spawn_blocking(move || SqliteStore::open(&own, Clock::Database));
                let store = opened.await?.map_err(bad_setting)?;
                Ok(Self::Sqlite(Arc::new(store)))
            }
            DatabaseUrl::Postgres(url) => {
                let options = PostgresOptions {
                    connections: database.connections,
                    ..PostgresOptions::new(url.clone())
                };
                let store = PostgresStore::connect(&options).map_err(bad_setting)?;
                Ok(Self::Postgres(Arc::new(store)))
            }
        }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Postgres(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// Finishes what is queued and closes the store.
    pub(super) async fn close(self) {
        match self {
            Self::Memory(_) => {}
            Self::Sqlite(store) => {
                if let Err(error) = store.close().await {
                    tracing::warn!(%error, "the store was not closed in good order");
                }
            }
            Self::Postgres(store) => match Arc::try_unwrap(store) {
                Ok(store) => store.close().await,
                // Work that was cut off still holds it; what it has written stands.
                Err(_in_use) => tracing::warn!("the store is still in use and was not closed"),
            },
        }
    }
}
