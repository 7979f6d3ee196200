//! A memory of final outcomes in front of a store. It answers a repeated Reserve from a record that
//! was COMPLETED a moment ago; it never grants anything, and everything that it does not know for
//! sure is asked of the store. What it says is judged by the same decision as everywhere.

mod clock;
mod local;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use self::clock::SeenClock;
use self::local::Local;
use crate::domain::command::{Answer, Command, Reserve, ReserveVerdict};
use crate::domain::decision::{Moment, decide_reserve};
use crate::domain::key::{KeyDigest, RecordKey};
use crate::domain::limits;
use crate::domain::namespace::Namespace;
use crate::domain::record::{Fence, Record, RecordState};
use crate::domain::time::Timestamp;
use crate::domain::token::TokenSecrets;
use crate::port::clock::Clock;
use crate::port::store::{Applied, AuditEntry, Health, Reading, Stands, Store, StoreError, Swept};

/// A store with a memory in front of it.
#[derive(Debug)]
pub struct Cached {
    store: Arc<dyn Store>,
    clock: SeenClock,
    local: Local,
    counts: Arc<Counts>,
}

/// How often the memory was of use.
#[derive(Debug, Default)]
pub struct Counts {
    /// Answers that came from it.
    pub hits: AtomicU64,
    /// Reserves that it knew nothing for.
    pub misses: AtomicU64,
}

/// A completed record, and until when it may be told without asking the store.
#[derive(Debug, Clone)]
struct Entry {
    record: Arc<Record>,
    /// On the database's clock, from when the record was read or written.
    valid_until: Timestamp,
}

impl Entry {
    /// `None`: only what is final is remembered.
    fn of(stands: &Stands) -> Option<Self> {
        let is_final = matches!(stands.record.state, RecordState::Completed(_));
        is_final.then(|| Self {
            record: Arc::clone(&stands.record),
            valid_until: stands.seen_at.plus(limits::CACHE_BOUND),
        })
    }

    /// What the record says to a Reserve; `None`: it is too old, or does not decide about this one.
    fn answer(&self, reserve: &Reserve, now: Timestamp) -> Option<Applied> {
        if self.valid_until <= now || self.record.key != reserve.key {
            return None;
        }
        let moment = Moment {
            now,
            next_fence: Fence::new(0),
        };
        let decision = decide_reserve(Some(&self.record), reserve, moment);
        let is_settled = matches!(
            decision.answer.verdict,
            ReserveVerdict::Replay(_) | ReserveVerdict::Mismatch(_)
        );
        (is_settled && decision.write.is_none()).then(|| Applied {
            answer: Answer::Reserve(decision.answer),
            stands: Some(Stands {
                record: Arc::clone(&self.record),
                seen_at: now,
            }),
        })
    }
}

impl Counts {
    /// All of them, each by its name.
    pub fn all(&self) -> [(&'static str, u64); 2] {
        [("hit", &self.hits), ("miss", &self.misses)]
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

impl Cached {
    /// Puts a memory of at most so many bytes in front of a store that goes by that clock.
    pub fn new(store: Arc<dyn Store>, clock: Clock, bytes_max: u64) -> Self {
        Self {
            store,
            clock: SeenClock::new(clock),
            local: Local::new(bytes_max),
            counts: Arc::default(),
        }
    }

    /// How often the memory was of use.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    fn remembered(&self, reserve: &Reserve) -> Option<Applied> {
        let now = self.clock.latest()?;
        let entry = self.local.get(&reserve.key.digest())?;
        entry.answer(reserve, now)
    }

    async fn ask(&self, command: Command) -> Result<Applied, StoreError> {
        let digest = command.key().digest();
        let asked = SeenClock::mark();
        let applied = self.store.carry_out(command).await?;
        if let Some(stands) = &applied.stands {
            self.clock.saw(asked, stands.seen_at);
            self.keep(digest, stands);
        }
        Ok(applied)
    }

    fn keep(&self, digest: KeyDigest, stands: &Stands) {
        self.local.put(digest, stands);
    }
}

#[async_trait]
impl Store for Cached {
    async fn carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        let Command::Reserve(reserve) = &command else {
            return self.ask(command).await;
        };
        if let Some(applied) = self.remembered(reserve) {
            self.counts.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(applied);
        }
        self.counts.misses.fetch_add(1, Ordering::Relaxed);
        self.ask(command).await
    }

    async fn read(&self, keys: Vec<RecordKey>) -> Result<Reading, StoreError> {
        self.store.read(keys).await
    }

    async fn sweep(&self, batch: u32) -> Result<Swept, StoreError> {
        self.store.sweep(batch).await
    }

    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, StoreError> {
        self.store.namespace(name).await
    }

    async fn namespaces(&self, after: &str, limit: u32) -> Result<Vec<Namespace>, StoreError> {
        self.store.namespaces(after, limit).await
    }

    async fn put_namespace(&self, namespace: Namespace) -> Result<Option<Namespace>, StoreError> {
        self.store.put_namespace(namespace).await
    }

    async fn audit(
        &self,
        key: RecordKey,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.store.audit(key, after, limit).await
    }

    async fn token_secrets(&self) -> Result<TokenSecrets, StoreError> {
        self.store.token_secrets().await
    }

    async fn check(&self) -> Result<Health, StoreError> {
        self.store.check().await
    }
}
