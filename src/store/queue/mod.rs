//! What waits for a store's workers. Commands on one key are kept together and no two workers are
//! at work on one key at once. They leave as batches of many keys: as soon as a worker is free, and
//! never later for the sake of a bigger batch.

mod lanes;
#[cfg(test)]
mod tests;
mod work;

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub(super) use self::lanes::Lane;
pub(super) use self::work::{Judgement, Work};

use self::lanes::{Lanes, Next};
use self::work::Pending;
use crate::domain::command::Command;
use crate::port::store::{Applied, StoreError};

/// The commands by lane, and an engine's other jobs.
#[derive(Debug)]
pub(super) struct Queue<J> {
    waiting: Mutex<Waiting<J>>,
    changed: Notify,
}

#[derive(Debug)]
struct Waiting<J> {
    lanes: Lanes<J>,
    closed: bool,
}

/// What a worker is given.
#[derive(Debug)]
pub(super) enum Taken<J> {
    /// Commands on some keys.
    Commands(Batch<J>),
    /// One of the engine's other jobs.
    Other(J),
}

/// Commands on some keys, each key once, all from one lane. What is left of them when it is dropped
/// waits again.
#[derive(Debug)]
pub(super) struct Batch<J> {
    pub(super) lane: Lane,
    works: Vec<Work>,
    queue: Arc<Queue<J>>,
}

impl<J> Queue<J> {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                lanes: Lanes::new(),
                closed: false,
            }),
            changed: Notify::new(),
        }
    }

    /// Has a command carried out, and tried again for as long as `retry_for`.
    ///
    /// # Cancel safety
    ///
    /// What was asked is done even if nobody waits any more; only a Reserve that nobody has begun
    /// with is dropped.
    pub(super) async fn apply(
        &self,
        command: Command,
        retry_for: Duration,
    ) -> Result<Applied, StoreError> {
        let (pending, answer) = Pending::new(command, Instant::now() + retry_for);
        self.push(|lanes| lanes.add(pending))?;
        let broke_off = || StoreError::OutcomeUnknown("the operation broke off".to_owned());
        answer.await.unwrap_or_else(|_dropped| Err(broke_off()))
    }

    /// Adds one of the engine's other jobs.
    pub(super) fn add(&self, job: J) -> Result<(), StoreError> {
        self.push(|lanes| lanes.add_other(job))
    }

    fn push(
        &self,
        add: impl FnOnce(&mut Lanes<J>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut waiting = self.waiting();
        if waiting.closed {
            return Err(StoreError::Unavailable("the store is closed".to_owned()));
        }
        add(&mut waiting.lanes)?;
        drop(waiting);
        self.changed.notify_last();
        Ok(())
    }

    /// The next thing to do; `None`: the queue is closed and everything is done.
    pub(super) async fn next(self: &Arc<Self>) -> Option<Taken<J>> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that nothing is missed that comes after it.
            changed.as_mut().enable();
            match self.look() {
                Look::Found { next, more } => {
                    if more {
                        self.changed.notify_last();
                    }
                    return Some(self.taken(next));
                }
                Look::Nothing => changed.await,
                Look::Over => return None,
            }
        }
    }

    fn look(&self) -> Look<J> {
        let mut waiting = self.waiting();
        match waiting.lanes.next() {
            Some(next) => Look::Found {
                next,
                more: waiting.lanes.is_waited_for(),
            },
            None if waiting.closed && waiting.lanes.is_empty() => Look::Over,
            None => Look::Nothing,
        }
    }

    fn taken(self: &Arc<Self>, next: Next<J>) -> Taken<J> {
        match next {
            Next::Commands(lane, works) => Taken::Commands(Batch {
                lane,
                works,
                queue: Arc::clone(self),
            }),
            Next::Other(job) => Taken::Other(job),
        }
    }

    /// Takes nothing more; the workers end once everything is done.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_waiters();
    }

    fn give_back(&self, works: Vec<Work>) {
        let mut waiting = self.waiting();
        for work in works {
            waiting.lanes.give_back(work);
        }
        let closed = waiting.closed;
        drop(waiting);
        self.changed.notify_last();
        if closed {
            self.changed.notify_waiters();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<J>> {
        // Nothing between the lock and its end can panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Look<J> {
    Found { next: Next<J>, more: bool },
    Nothing,
    Over,
}

impl<J> Deref for Batch<J> {
    type Target = [Work];

    fn deref(&self) -> &[Work] {
        &self.works
    }
}

impl<J> DerefMut for Batch<J> {
    fn deref_mut(&mut self) -> &mut [Work] {
        &mut self.works
    }
}

impl<J> Drop for Batch<J> {
    fn drop(&mut self) {
        let mut works = std::mem::take(&mut self.works);
        if std::thread::panicking() {
            // Whatever it was, it would come again: their callers are told that it is not known.
            for work in &mut works {
                work.commands.clear();
            }
        }
        self.queue.give_back(works);
    }
}
