//! What this process knows without asking: the records whose holders it has served, and what the
//! database's clock was at last. Good for a guess that saves a statement: a guess may be written
//! over exactly the record that was guessed, and is never told to anybody before that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::domain::key::KeyDigest;
use crate::domain::record::Record;
use crate::domain::time::Timestamp;

/// Held records that are remembered for certain; a Complete for any other costs a look.
const RECORDS_MIN: usize = 10_000;

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    /// When it is full it takes the other's place, which is forgotten.
    young: HashMap<KeyDigest, Arc<Record>>,
    old: HashMap<KeyDigest, Arc<Record>>,
    clock: Option<(Instant, Timestamp)>,
}

impl Known {
    /// A record as it was just written.
    pub(super) fn wrote(&self, digest: KeyDigest, record: Arc<Record>) {
        let mut memory = self.memory();
        memory.old.remove(&digest);
        if record.hold().is_none() {
            memory.young.remove(&digest);
            return;
        }
        if memory.young.len() >= RECORDS_MIN {
            memory.old = std::mem::take(&mut memory.young);
        }
        memory.young.insert(digest, record);
    }

    /// It was not what was thought.
    pub(super) fn forget(&self, digest: &KeyDigest) {
        let mut memory = self.memory();
        memory.old.remove(digest);
        memory.young.remove(digest);
    }

    /// A held record as it probably still is.
    pub(super) fn held(&self, digest: &KeyDigest) -> Option<Arc<Record>> {
        let memory = self.memory();
        let found = memory.young.get(digest).or_else(|| memory.old.get(digest));
        found.cloned()
    }

    /// The database has told its time.
    pub(super) fn told(&self, now: Timestamp) {
        self.memory().clock = Some((Instant::now(), now));
    }

    /// What its time probably is; `None`: it has never told any.
    pub(super) fn now(&self) -> Option<Timestamp> {
        let told = self.memory().clock;
        told.map(|(at, then)| then.plus(at.elapsed()))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Nothing between the lock and its end can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
