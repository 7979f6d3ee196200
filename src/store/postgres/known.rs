//! What this process knows without asking: the records whose holders it has served, and what the
//! database's clock was at last. Good for a guess that saves a statement: a guess may be written
//! over exactly the record that was guessed, and is never told to anybody before that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moka::sync::Cache;
use tokio::time::Instant;

use crate::domain::key::KeyDigest;
use crate::domain::record::Record;
use crate::domain::time::Timestamp;

/// Held records that are remembered; a Complete for any other costs a look.
const RECORDS_MAX: u64 = 20_000;

/// What is remembered.
#[derive(Debug)]
pub(super) struct Known {
    held: Cache<KeyDigest, Arc<Record>>,
    clock: Mutex<Option<(Instant, Timestamp)>>,
}

impl Known {
    pub(super) fn new() -> Self {
        Self {
            held: Cache::new(RECORDS_MAX),
            clock: Mutex::new(None),
        }
    }

    /// A record as it was just written.
    pub(super) fn wrote(&self, digest: KeyDigest, record: Arc<Record>) {
        if record.hold().is_some() {
            self.held.insert(digest, record);
        } else {
            self.held.invalidate(&digest);
        }
    }

    /// It was not what was thought.
    pub(super) fn forget(&self, digest: &KeyDigest) {
        self.held.invalidate(digest);
    }

    /// A held record as it probably still is.
    pub(super) fn held(&self, digest: &KeyDigest) -> Option<Arc<Record>> {
        self.held.get(digest)
    }

    /// The database has told its time.
    pub(super) fn told(&self, now: Timestamp) {
        *self.clock() = Some((Instant::now(), now));
    }

    /// What its time probably is; `None`: it has never told any.
    pub(super) fn now(&self) -> Option<Timestamp> {
        let told = *self.clock();
        told.map(|(at, then)| then.plus(at.elapsed()))
    }

    fn clock(&self) -> MutexGuard<'_, Option<(Instant, Timestamp)>> {
        // Nothing between the lock and its end can panic.
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
