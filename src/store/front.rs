//! A store in front of another one: it does some of the work itself and leaves the rest to the one
//! behind. What is put in front of a store is one of these.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::domain::command::Command;
use crate::domain::key::RecordKey;
use crate::domain::namespace::Namespace;
use crate::domain::token::TokenSecrets;
use crate::port::store::{Applied, AuditEntry, Health, Reading, Store, StoreError, Swept};

/// What such a store does itself; by default, nothing.
#[async_trait]
pub trait Front: Debug + Send + Sync + 'static {
    /// The store behind.
    fn behind(&self) -> &dyn Store;

    /// In place of [`Store::carry_out`].
    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        self.behind().carry_out(command).await
    }

    /// In place of [`Store::read`].
    async fn on_read(&self, keys: Vec<RecordKey>) -> Result<Reading, StoreError> {
        self.behind().read(keys).await
    }

    /// In place of [`Store::namespace`].
    async fn on_namespace(&self, name: &str) -> Result<Option<Namespace>, StoreError> {
        self.behind().namespace(name).await
    }

    /// In place of [`Store::token_secrets`].
    async fn on_token_secrets(&self) -> Result<TokenSecrets, StoreError> {
        self.behind().token_secrets().await
    }

    /// In place of [`Store::check`].
    async fn on_check(&self) -> Result<Health, StoreError> {
        self.behind().check().await
    }
}

#[async_trait]
impl<F: Front> Store for F {
    async fn carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        self.on_carry_out(command).await
    }

    async fn read(&self, keys: Vec<RecordKey>) -> Result<Reading, StoreError> {
        self.on_read(keys).await
    }

    async fn sweep(&self, batch: u32) -> Result<Swept, StoreError> {
        self.behind().sweep(batch).await
    }

    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, StoreError> {
        self.on_namespace(name).await
    }

    async fn namespaces(&self, after: &str, limit: u32) -> Result<Vec<Namespace>, StoreError> {
        self.behind().namespaces(after, limit).await
    }

    async fn put_namespace(&self, namespace: Namespace) -> Result<Option<Namespace>, StoreError> {
        self.behind().put_namespace(namespace).await
    }

    async fn audit(
        &self,
        key: RecordKey,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.behind().audit(key, after, limit).await
    }

    async fn token_secrets(&self) -> Result<TokenSecrets, StoreError> {
        self.on_token_secrets().await
    }

    async fn check(&self) -> Result<Health, StoreError> {
        self.on_check().await
    }
}
