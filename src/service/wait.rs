//! Calls that wait for a running holder. They hold no connection: one query answers for all waiting
//! keys, often enough that a lost wake-up costs less than a second, and at once when this replica
//! changed a key.
//!
//! What is read is judged by each waiter with the same decision as everywhere. Only a waiter whose
//! judgement would write asks the store, one at a time for each key, and after it only what was read
//! since is judged again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::reserve::is_in_progress;
use crate::domain::command::{Reserve, Reserved};
use crate::domain::decision::{Moment, decide_reserve};
use crate::domain::key::{KeyDigest, RecordKey};
use crate::domain::record::{Fence, Record};
use crate::domain::time::Timestamp;
use crate::port::store::Store;

/// How often all waiting keys are read.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// Keys read by one query.
const KEYS_PER_QUERY: usize = 500;

/// All calls of this replica that wait.
#[derive(Debug)]
pub struct Waiters {
    store: Arc<dyn Store>,
    keys: Mutex<HashMap<KeyDigest, Arc<Waited>>>,
    waiting: AtomicUsize,
    waiting_max: usize,
    changed: Notify,
    stopped: watch::Sender<bool>,
}

/// The places for waiting calls on one connection: what waits there must leave room for the call
/// that ends the wait. Copies share the places.
#[derive(Debug, Clone)]
pub struct WaitingRoom(Arc<Semaphore>);

impl WaitingRoom {
    /// A room with so many places.
    pub fn new(places: u32) -> Self {
        let places = usize::try_from(places).unwrap_or(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))))
    }
}

/// A key that somebody waits for.
#[derive(Debug)]
struct Waited {
    key: RecordKey,
    /// How many calls wait for it; changed only while the map is locked.
    calls: AtomicUsize,
    seen: watch::Sender<Option<Seen>>,
    look_now: AtomicBool,
    asking: AtomicBool,
    /// Readings of it that were begun.
    begun: AtomicU64,
    /// The last of them that was begun before a waiter had its answer from the store.
    outdated: AtomicU64,
}

/// A record as it was read.
#[derive(Debug, Clone)]
struct Seen {
    /// Which of the readings it was.
    reading: u64,
    now: Timestamp,
    record: Option<Arc<Record>>,
}

/// One waiting call.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    waiters: &'a Waiters,
    waited: Arc<Waited>,
    seen: watch::Receiver<Option<Seen>>,
    request: &'a Reserve,
    last_seen: Option<Reserved>,
    _place: Option<OwnedSemaphorePermit>,
}

/// What a waiting call does next.
pub(super) enum Turn {
    /// It has its answer.
    Answered(Box<Reserved>),
    /// The record can be had: ask the store, and keep the guard while asking.
    Ask(Asking),
}

/// Keeps other waiters of the same key from asking at the same time.
#[derive(Debug)]
pub(super) struct Asking(Arc<Waited>);

impl Drop for Asking {
    fn drop(&mut self) {
        let begun = self.0.begun.load(Ordering::Acquire);
        self.0.outdated.store(begun, Ordering::Release);
        self.0.asking.store(false, Ordering::Release);
    }
}

impl Waited {
    /// Lets one of those ask who have judged a reading; `None`: somebody asks, or has asked since.
    fn ask(self: &Arc<Self>, reading: u64) -> Option<Asking> {
        if self.asking.swap(true, Ordering::AcqRel) {
            return None;
        }
        if reading <= self.outdated.load(Ordering::Acquire) {
            self.asking.store(false, Ordering::Release);
            return None;
        }
        Some(Asking(Arc::clone(self)))
    }
}

impl Waiters {
    pub(super) fn new(store: Arc<dyn Store>, waiting_max: usize) -> Self {
        Self {
            store,
            keys: Mutex::default(),
            waiting: AtomicUsize::new(0),
            waiting_max,
            changed: Notify::new(),
            stopped: watch::Sender::new(false),
        }
    }

    /// Joins those who wait for a key; `None`: too many wait already, here or in the call's own room,
    /// or the server is going away.
    pub(super) fn join<'a>(
        &'a self,
        request: &'a Reserve,
        room: Option<&WaitingRoom>,
    ) -> Option<Waiter<'a>> {
        if *self.stopped.borrow() {
            return None;
        }
        let place = match room {
            Some(WaitingRoom(places)) => Some(Arc::clone(places).try_acquire_owned().ok()?),
            None => None,
        };
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= self.waiting_max {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let mut keys = self.keys();
        let waited = keys.entry(request.key.digest()).or_insert_with(|| {
            Arc::new(Waited {
                key: request.key.clone(),
                calls: AtomicUsize::new(0),
                seen: watch::Sender::new(None),
                look_now: AtomicBool::new(false),
                asking: AtomicBool::new(false),
                begun: AtomicU64::new(0),
                outdated: AtomicU64::new(0),
            })
        });
        let waited = Arc::clone(waited);
        waited.calls.fetch_add(1, Ordering::AcqRel);
        let seen = waited.seen.subscribe();
        drop(keys);
        Some(Waiter {
            waiters: self,
            waited,
            seen,
            request,
            last_seen: None,
            _place: place,
        })
    }

    /// A key has changed: whoever waits for it looks again at once.
    pub(super) fn look(&self, digest: &KeyDigest) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(waited) = self.keys().get(digest) {
            waited.look_now.store(true, Ordering::Release);
            self.changed.notify_one();
        }
    }

    /// Lets every waiting call answer.
    pub(super) fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// How many calls wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Reads the waiting keys, all of them from time to time and changed ones at once.
    pub(super) async fn run(&self) {
        let mut next_poll = Instant::now() + POLL_EVERY;
        loop {
            // A steady stream of changes to some keys must not keep the others from being read.
            let changed = Instant::now() < next_poll
                && timeout_at(next_poll, self.changed.notified()).await.is_ok();
            if !changed {
                next_poll = Instant::now() + POLL_EVERY;
            }
            let due: Vec<_> = self
                .keys()
                .values()
                .filter(|waited| waited.look_now.swap(false, Ordering::AcqRel) || !changed)
                .cloned()
                .collect();
            for some in due.chunks(KEYS_PER_QUERY) {
                self.read(some).await;
            }
        }
    }

    async fn read(&self, some: &[Arc<Waited>]) {
        let keys = some.iter().map(|waited| waited.key.clone()).collect();
        let begin = |waited: &Arc<Waited>| waited.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let begun: Vec<_> = some.iter().map(begin).collect();
        // A store that is away is asked again at the next turn; nobody waits longer than they said.
        let Ok(Ok(reading)) = timeout(POLL_EVERY * 4, self.store.read(keys)).await else {
            return;
        };
        for ((waited, begun), record) in some.iter().zip(begun).zip(reading.records) {
            if let Ok(record) = record {
                let record = record.map(Arc::new);
                waited.seen.send_replace(Some(Seen {
                    reading: begun,
                    now: reading.now,
                    record,
                }));
            }
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<KeyDigest, Arc<Waited>>> {
        // The map is whole at every point where a holder could panic.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Waits until there is something to do; `None`: the time is over or the server goes away.
    pub(super) async fn next(&mut self, until: Instant) -> Option<Turn> {
        let mut stopped = self.waiters.stopped.subscribe();
        loop {
            let changed = async {
                tokio::select! {
                    changed = self.seen.changed() => changed.is_ok(),
                    _ = stopped.wait_for(|stopped| *stopped) => false,
                }
            };
            if !timeout_at(until, changed).await.unwrap_or(false) {
                return None;
            }
            let seen = self.seen.borrow_and_update().clone();
            if let Some(turn) = seen.and_then(|seen| self.judge(&seen)) {
                return Some(turn);
            }
        }
    }

    /// The newest answer that still said that somebody is at work.
    pub(super) fn last_seen(&mut self) -> Option<Reserved> {
        self.last_seen.take()
    }

    fn judge(&mut self, seen: &Seen) -> Option<Turn> {
        let moment = Moment {
            now: seen.now,
            next_fence: Fence::new(0),
        };
        let decision = decide_reserve(seen.record.as_deref(), self.request, moment);
        if decision.write.is_some() {
            return self.waited.ask(seen.reading).map(Turn::Ask);
        }
        if is_in_progress(&decision.answer) {
            self.last_seen = Some(decision.answer);
            return None;
        }
        Some(Turn::Answered(Box::new(decision.answer)))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiters.waiting.fetch_sub(1, Ordering::AcqRel);
        let mut keys = self.waiters.keys();
        if self.waited.calls.fetch_sub(1, Ordering::AcqRel) == 1 {
            keys.remove(&self.waited.key.digest());
        }
    }
}
