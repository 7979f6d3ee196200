//! The store that keeps everything in this process: for tests and try-outs, and the yardstick for
//! what the others must do. It forgets everything when it is dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::domain::command::Command;
use crate::domain::decision::{Moment, Sweep, decide, decide_sweep};
use crate::domain::key::{KeyDigest, RecordKey};
use crate::domain::namespace::Namespace;
use crate::domain::record::{Fence, Record};
use crate::domain::time::{Timestamp, micros};
use crate::domain::token::TokenSecrets;
use crate::port::clock::Clock;
use crate::port::store::{Applied, AuditEntry, Health, Reading, Stands, Store, StoreError, Swept};

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    clock: Clock,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    records: BTreeMap<KeyDigest, Arc<Record>>,
    namespaces: BTreeMap<String, Namespace>,
    audit: Vec<(KeyDigest, AuditEntry)>,
    secrets: Option<TokenSecrets>,
    last_fence: i64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            tables: Mutex::default(),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every change below is complete before anything in it can panic.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this process is the database here"
    )]
    fn now(&self) -> Timestamp {
        let own = || {
            let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since_epoch.map_or(0, micros)
        };
        Timestamp::from_micros(self.clock.injected().unwrap_or_else(own))
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        let digest = command.key().digest();
        let mut tables = self.tables();
        let next_fence = Fence::new(tables.last_fence + 1);
        let moment = Moment {
            now: self.now(),
            next_fence,
        };
        let stored = tables.records.get(&digest).cloned();
        let decision = decide(&command, stored.as_deref(), moment);
        let written: Option<Arc<Record>> = decision.write.map(Arc::from);
        if let Some(record) = &written {
            tables.last_fence = tables.last_fence.max(record.fence.get());
            tables.records.insert(digest, Arc::clone(record));
        }
        if let Some(audit) = decision.audit {
            let id = i64::try_from(tables.audit.len())
                .unwrap_or(i64::MAX)
                .saturating_add(1);
            tables.audit.push((digest, AuditEntry { id, audit }));
        }
        let stands = written.or(stored).map(|record| Stands {
            record,
            seen_at: moment.now,
        });
        Ok(Applied {
            answer: decision.answer,
            stands,
        })
    }

    async fn read(&self, keys: Vec<RecordKey>) -> Result<Reading, StoreError> {
        let tables = self.tables();
        let read = |key: &RecordKey| {
            Ok(tables
                .records
                .get(&key.digest())
                .map(|record| record.as_ref().clone()))
        };
        Ok(Reading {
            now: self.now(),
            records: keys.iter().map(read).collect(),
        })
    }

    async fn sweep(&self, batch: u32) -> Result<Swept, StoreError> {
        let now = self.now();
        let mut tables = self.tables();
        let due = |(digest, record): (&KeyDigest, &Arc<Record>)| {
            decide_sweep(record, now).map(|sweep| (*digest, sweep))
        };
        let limit = usize::try_from(batch).unwrap_or(usize::MAX);
        let due: Vec<_> = tables.records.iter().filter_map(due).take(limit).collect();
        let mut swept = Swept::default();
        for (digest, sweep) in due {
            match sweep {
                Sweep::Bury(record) => {
                    tables.records.insert(digest, Arc::from(record));
                    swept.buried += 1;
                }
                Sweep::Delete => {
                    tables.records.remove(&digest);
                    swept.deleted += 1;
                }
            }
        }
        Ok(swept)
    }

    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, StoreError> {
        Ok(self.tables().namespaces.get(name).cloned())
    }

    async fn namespaces(&self, after: &str, limit: u32) -> Result<Vec<Namespace>, StoreError> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let tables = self.tables();
        let later = tables
            .namespaces
            .values()
            .filter(|namespace| namespace.name.as_str() > after);
        Ok(later.take(limit).cloned().collect())
    }

    async fn put_namespace(&self, namespace: Namespace) -> Result<Option<Namespace>, StoreError> {
        let mut tables = self.tables();
        let stored = tables.namespaces.get(&namespace.name);
        if stored.map_or(0, |stored| stored.version) != namespace.version {
            return Ok(None);
        }
        let created_at = stored.map_or_else(|| self.now(), |stored| stored.created_at);
        let stored = Namespace {
            version: namespace.version + 1,
            created_at,
            ..namespace
        };
        tables
            .namespaces
            .insert(stored.name.clone(), stored.clone());
        Ok(Some(stored))
    }

    async fn audit(
        &self,
        key: RecordKey,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let digest = key.digest();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let tables = self.tables();
        let own = tables
            .audit
            .iter()
            .filter(|(of, entry)| *of == digest && entry.id > after);
        Ok(own.take(limit).map(|(_, entry)| entry.clone()).collect())
    }

    async fn token_secrets(&self) -> Result<TokenSecrets, StoreError> {
        let mut tables = self.tables();
        if let Some(secrets) = &tables.secrets {
            return Ok(secrets.clone());
        }
        let secrets = super::new_secrets()?;
        tables.secrets = Some(secrets.clone());
        Ok(secrets)
    }

    async fn check(&self) -> Result<Health, StoreError> {
        Ok(Health {
            engine: "memory",
            engine_version: env!("CARGO_PKG_VERSION").to_owned(),
            schema_version: 0,
            settings: vec![(
                "durability".to_owned(),
                "none: gone with the process".to_owned(),
            )],
            now: self.now(),
        })
    }
}
