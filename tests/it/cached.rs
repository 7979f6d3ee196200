//! Replicas that remember final outcomes, in their own memory and in a Redis between them.

mod access;
mod cluster;
mod encrypted;
mod failover;
mod forged;
mod late;
mod linked;
mod local;
mod redis;
mod storms;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oncegate::domain::command::{Command, Expire, ReserveVerdict};
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::{Applied, Store, StoreError};
use oncegate::store::cached::Cached;
use oncegate::store::front::Front;
use oncegate::store::memory::MemoryStore;
use oncegate::testkit::load::{ask, complete, granted, reserve};
use oncegate::testkit::values::{fingerprint, key_of, outcome, start};
use tokio::time::sleep;

/// A store that takes its time and counts what it carries out.
#[derive(Debug)]
struct Slow {
    store: MemoryStore,
    /// Before a command is carried out.
    before: Duration,
    /// And before its answer arrives.
    after: Duration,
    begun: AtomicU64,
    asked: AtomicU64,
}

#[async_trait]
impl Front for Slow {
    fn behind(&self) -> &dyn Store {
        &self.store
    }

    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        sleep(self.before).await;
        self.asked.fetch_add(1, Ordering::Relaxed);
        let applied = self.store.carry_out(command).await;
        sleep(self.after).await;
        applied
    }
}

/// Two replicas on one store.
struct Replicas {
    clock: ManualClock,
    store: Arc<Slow>,
    here: Arc<Cached>,
    there: Arc<Cached>,
}

impl Replicas {
    /// `put` is what each replica puts in front of the store.
    fn on(
        before: Duration,
        after: Duration,
        put: impl Fn(Arc<dyn Store>, Clock) -> Cached,
    ) -> Self {
        let clock = ManualClock::new(start());
        let store = Arc::new(Slow {
            store: MemoryStore::new(Clock::Manual(clock.clone())),
            before,
            after,
            begun: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        });
        let replica = || {
            let store = Arc::clone(&store) as Arc<dyn Store>;
            Arc::new(put(store, Clock::Manual(clock.clone())))
        };
        Self {
            here: replica(),
            there: replica(),
            clock,
            store,
        }
    }

    /// Has a record completed here, with its key as the outcome.
    async fn complete(&self, key: &str) {
        let here = self.here.as_ref();
        let token = granted(here, key).await;
        complete(here, key, token, outcome(key)).await;
    }

    /// Lets a key open again: a person says so here.
    async fn expire(&self, key: &str) {
        let read = self.store.read(vec![key_of(key)]).await;
        let record = read.expect("it is read").records.remove(0);
        let etag = record.expect("readable").expect("there").etag();
        for _ in 0..2 {
            let command = Command::Expire(Expire {
                key: key_of(key),
                reason: "wrong customer".to_owned(),
                allow_rerun: true,
                etag,
                actor: "support".to_owned(),
            });
            self.here.apply(command).await.expect("it is expired");
        }
    }

    fn asked(&self) -> u64 {
        self.store.asked.load(Ordering::Relaxed)
    }
}

/// What a new call for the key is told.
async fn told(replica: &Cached, key: &str) -> ReserveVerdict {
    reserve(replica, &ask(key)).await
}

/// What one with another request than the key's is told.
async fn told_another(replica: &Cached, key: &str) -> ReserveVerdict {
    let mut another = ask(key);
    another.fingerprint = Some(fingerprint(2));
    "another.operation".clone_into(&mut another.operation);
    reserve(replica, &another).await
}

fn is_replay(told: &ReserveVerdict, key: &str) -> bool {
    matches!(told, ReserveVerdict::Replay(replay) if replay.outcome == outcome(key))
}

fn count(replica: &Cached, name: &str) -> u64 {
    let all = replica.counts().all();
    let found = all.into_iter().find(|(known, _)| *known == name);
    found.expect("it is counted").1
}
