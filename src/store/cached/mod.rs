//! A memory of final outcomes in front of a store. It answers a repeated Reserve from a record that
//! was COMPLETED a moment ago; it never grants anything, and everything that it does not know for
//! sure is asked of the store. What it says is judged by the same decision as everywhere.

mod clock;
mod head_start;
mod local;
mod redis;
mod sealed;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio::sync::broadcast;
use tokio::time::timeout;

use self::clock::SeenClock;
use self::head_start::{HEAD_START, HeadStart};
use self::local::Local;
use self::redis::{Names, Shared, Value};
use self::sealed::Opened;
use crate::domain::command::{Answer, Command, Reserve, ReserveVerdict};
use crate::domain::decision::{Moment, decide_reserve};
use crate::domain::key::KeyDigest;
use crate::domain::limits;
use crate::domain::record::{Fence, Record, RecordState};
use crate::domain::time::Timestamp;
use crate::domain::token::TokenSecrets;
use crate::port::clock::Clock;
use crate::port::store::{Applied, Health, Stands, Store, StoreError};
use crate::store::front::Front;

pub use self::redis::{BadTarget, Target};

/// Keys that are told to have changed and not yet heard of.
const CHANGES_MAX: usize = 10_000;

/// A store with a memory in front of it.
#[derive(Debug)]
pub struct Cached {
    store: Arc<dyn Store>,
    clock: SeenClock,
    local: Local,
    redis: Option<Target>,
    /// Begun when the store's secrets are known, with which its entries are sealed.
    shared: OnceLock<(TokenSecrets, Shared)>,
    head_start: HeadStart,
    changes: broadcast::Sender<KeyDigest>,
    counts: Arc<Counts>,
}

/// How often the memory was of use, and whether Redis is there.
#[derive(Debug, Default)]
pub struct Counts {
    /// Answers that came from this process.
    pub local: AtomicU64,
    /// Answers that came from Redis.
    pub shared: AtomicU64,
    /// Reserves that the store answered.
    pub misses: AtomicU64,
    /// Questions, writes and connections that Redis refused, or did not answer in time.
    pub errors: AtomicU64,
    /// Questions and writes that were spared while it was away, or for which there was no room.
    pub skipped: AtomicU64,
    /// Values in Redis that this deployment did not write there, or that are damaged.
    pub forged: AtomicU64,
    /// Redis answers.
    pub connected: AtomicBool,
    /// What other replicas tell through Redis is heard.
    pub listening: AtomicBool,
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
    pub fn all(&self) -> [(&'static str, u64); 6] {
        [
            ("local_hit", &self.local),
            ("shared_hit", &self.shared),
            ("miss", &self.misses),
            ("error", &self.errors),
            ("skipped", &self.skipped),
            ("forged", &self.forged),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }

    /// Whether Redis is there, for questions and for what others tell.
    pub fn redis_is_up(&self) -> bool {
        [&self.connected, &self.listening]
            .iter()
            .all(|is_so| is_so.load(Ordering::Relaxed))
    }
}

impl Cached {
    /// Puts a memory of at most so many bytes in front of a store that goes by that clock.
    pub fn new(store: Arc<dyn Store>, clock: Clock, bytes_max: u64) -> Self {
        Self {
            store,
            clock: SeenClock::new(clock),
            local: Local::new(bytes_max),
            redis: None,
            shared: OnceLock::new(),
            head_start: HeadStart::default(),
            changes: broadcast::Sender::new(CHANGES_MAX),
            counts: Arc::default(),
        }
    }

    /// Shares what is remembered with other replicas.
    #[must_use]
    pub fn sharing(mut self, redis: Target) -> Self {
        self.redis = Some(redis);
        self
    }

    /// The keys that some replica, perhaps this one, has told to be changed.
    pub fn changes(&self) -> broadcast::Receiver<KeyDigest> {
        self.changes.subscribe()
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
        let tells = !matches!(command, Command::Reserve(_) | Command::Renew(_));
        let is_reserve = matches!(command, Command::Reserve(_));
        let asked = SeenClock::mark();
        let applied = self.store.carry_out(command).await;
        if is_reserve {
            self.counts.misses.fetch_add(1, Ordering::Relaxed);
        }
        let applied = applied?;
        if let Some(stands) = &applied.stands {
            self.clock.saw(asked, stands.seen_at);
            self.keep(digest, stands);
            if tells && let Some((_, shared)) = self.shared.get() {
                shared.tell(digest);
            }
        }
        Ok(applied)
    }

    /// Remembers what is final, and that something no longer is.
    fn keep(&self, digest: KeyDigest, stands: &Stands) {
        self.local.put(digest, stands);
        let Some((secrets, shared)) = self.shared.get() else {
            return;
        };
        let record = &stands.record;
        match record.state {
            // That something no longer is: nothing that was read before may be put over it.
            RecordState::Completed(_) | RecordState::Expired(_) => {}
            RecordState::Running(_)
            | RecordState::Recovering(_)
            | RecordState::Released { .. }
            | RecordState::Parked { .. } => return,
        }
        let valid_until = stands.seen_at.plus(limits::CACHE_BOUND);
        shared.put(Value {
            digest,
            stamp: sealed::stamp(record),
            bytes: sealed::seal(secrets, &digest, record, valid_until),
            keep_for: limits::CACHE_BOUND,
        });
    }

    /// What the shared memory says to a Reserve. What it will never say anything with is deleted:
    /// it could stand in the way of what is true.
    async fn shared(&self, reserve: &Reserve) -> Option<Applied> {
        let (secrets, shared) = self.shared.get()?;
        let digest = reserve.key.digest();
        let value = shared.get(&digest).await?;
        let entry = match sealed::open(secrets, &digest, &value) {
            Opened::Entry(entry) => entry,
            Opened::Gone => return None,
            Opened::Forged => {
                self.counts.forged.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    record = digest.short(),
                    "a value in Redis is damaged, or was not written by this deployment"
                );
                shared.delete(digest);
                return None;
            }
        };
        let now = self.clock.latest()?;
        if entry.valid_until <= now {
            shared.delete(digest);
            return None;
        }
        let applied = entry.answer(reserve, now)?;
        self.local.keep(digest, entry);
        self.counts.shared.fetch_add(1, Ordering::Relaxed);
        Some(applied)
    }

    /// Asks the shared memory and the store: first the one, if it has earned that, or both side by
    /// side. Whatever is of use first is the answer: a Reserve that nobody waits for any more is not
    /// begun.
    async fn ask_both(&self, command: Command, reserve: &Reserve) -> Result<Applied, StoreError> {
        let found = async {
            let found = self.shared(reserve).await;
            self.head_start.learn(found.is_some());
            found
        };
        tokio::pin!(found);
        if self.head_start.is_earned() {
            match timeout(HEAD_START, &mut found).await {
                Ok(Some(applied)) => return Ok(applied),
                Ok(None) => return self.ask(command).await,
                Err(_late) => self.head_start.learn(false),
            }
        }
        let asked = self.ask(command);
        tokio::pin!(asked);
        tokio::select! {
            biased;
            applied = &mut asked => return applied,
            found = found => if let Some(applied) = found {
                return Ok(applied);
            },
        }
        asked.await
    }

    /// Begins to share, once there are secrets to seal with.
    fn share(&self, secrets: &TokenSecrets) {
        if let Some(target) = &self.redis {
            self.shared.get_or_init(|| {
                let names = Names {
                    deployment: format!("oncegate:{:016x}", secrets.name()),
                    format: sealed::FORMAT,
                };
                let (counts, changes) = (Arc::clone(&self.counts), self.changes.clone());
                let shared = Shared::start(target.clone(), names, counts, changes);
                (secrets.clone(), shared)
            });
        }
    }
}

#[async_trait]
impl Front for Cached {
    fn behind(&self) -> &dyn Store {
        self.store.as_ref()
    }

    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        let Command::Reserve(reserve) = &command else {
            return self.ask(command).await;
        };
        if let Some(applied) = self.remembered(reserve) {
            self.counts.local.fetch_add(1, Ordering::Relaxed);
            return Ok(applied);
        }
        if self.shared.get().is_none() {
            return self.ask(command).await;
        }
        let reserve = Arc::clone(reserve);
        self.ask_both(command, &reserve).await
    }

    /// A store that can be used has the secrets to seal with: Redis is looked for before the first call.
    async fn on_check(&self) -> Result<Health, StoreError> {
        let health = self.store.check().await?;
        if self.redis.is_some() && self.shared.get().is_none() {
            // The next look or the first call tries again.
            drop(self.on_token_secrets().await);
        }
        Ok(health)
    }

    async fn on_token_secrets(&self) -> Result<TokenSecrets, StoreError> {
        let secrets = self.store.token_secrets().await?;
        self.share(&secrets);
        Ok(secrets)
    }
}
