//! The connection to Redis: opened in the background, given up when it is of no use, and then looked
//! for again. Nobody waits for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};
use tokio::sync::Notify;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

use super::target::{Connection, Target};
use crate::store::cached::Counts;

/// After so many failures in a row the connection is given up.
const FAILURES_MAX: u32 = 5;
/// How long it may take to open a connection, whoever must be asked for the way.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// The pause before another connection is tried; it doubles up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A connection that comes and goes.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) target: Target,
    pub(super) counts: Arc<Counts>,
    /// `None`: it is away.
    open: ArcSwapOption<Open>,
    given_up: Notify,
    /// What was logged last of each kind of work.
    said: Mutex<BTreeMap<Work, String>>,
}

/// What is done with Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Connect,
    Ask,
    Write,
    Listen,
}

/// An open connection, and how often in a row it was of no use.
pub(super) struct Open {
    pub(super) connection: Connection,
    failures: AtomicU32,
}

impl fmt::Debug for Open {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Open")
    }
}

impl Link {
    pub(super) fn new(target: Target, counts: Arc<Counts>) -> Self {
        Self {
            target,
            counts,
            open: ArcSwapOption::empty(),
            given_up: Notify::new(),
            said: Mutex::default(),
        }
    }

    /// The open connection; `None`: it is away, and so many questions or writes are spared.
    pub(super) fn open(&self, spared: usize) -> Option<Arc<Open>> {
        let open = self.open.load_full();
        if open.is_none() {
            let spared = u64::try_from(spared).unwrap_or(u64::MAX);
            self.counts.skipped.fetch_add(spared, Ordering::Relaxed);
        }
        open
    }

    /// The answer to a question or a write, if it came in time. What did not is counted, and a
    /// connection that is of no use is given up.
    pub(super) fn heed<T>(
        &self,
        open: &Arc<Open>,
        work: Work,
        told: Result<RedisResult<T>, Elapsed>,
    ) -> Option<T> {
        let weight = match told {
            Ok(Ok(answer)) => {
                open.failures.store(0, Ordering::Relaxed);
                return Some(answer);
            }
            Ok(Err(error)) => {
                self.refused(work, &error);
                open.weight(&error)
            }
            Err(_late) => {
                self.counts.errors.fetch_add(1, Ordering::Relaxed);
                1
            }
        };
        if open.failures.fetch_add(weight, Ordering::Relaxed) + weight >= FAILURES_MAX {
            self.give_up(open);
        }
        None
    }

    /// Counts what Redis refuses, and logs it: once, until it refuses something else.
    pub(super) fn refused(&self, work: Work, error: &RedisError) {
        self.counts.errors.fetch_add(1, Ordering::Relaxed);
        let text = error.to_string();
        // Nothing between the lock and its end can panic.
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(&work) != Some(&text) {
            tracing::warn!(?work, error = text, "Redis refuses, or cannot be reached");
            said.insert(work, text);
        }
    }

    fn give_up(&self, open: &Arc<Open>) {
        let was = self.open.compare_and_swap(open, None);
        if was.as_ref().is_some_and(|was| Arc::ptr_eq(was, open)) {
            self.counts.connected.store(false, Ordering::Relaxed);
            self.given_up.notify_one();
        }
    }

    /// Keeps a connection open.
    pub(super) async fn keep_open(&self) {
        let mut pause = Pause::default();
        loop {
            let mut opened = None;
            if let Some(connection) = self.opened(Work::Connect, self.target.connect()).await {
                tracing::info!("Redis is there");
                opened = Some(Instant::now());
                self.counts.connected.store(true, Ordering::Relaxed);
                self.open.store(Some(Arc::new(Open {
                    connection,
                    failures: AtomicU32::new(0),
                })));
                self.given_up.notified().await;
                tracing::warn!("Redis is of no use and is left alone for a while");
            }
            pause.after(opened).await;
        }
    }

    /// What was opened, if it was in time.
    pub(super) async fn opened<T>(
        &self,
        work: Work,
        opening: impl Future<Output = RedisResult<T>>,
    ) -> Option<T> {
        let late = |_late| RedisError::from((ErrorKind::Io, "it takes too long"));
        match timeout(OPEN_MAX, opening).await.map_err(late).flatten() {
            Ok(opened) => Some(opened),
            Err(error) => {
                self.refused(work, &error);
                None
            }
        }
    }
}

impl Open {
    /// How many failures an error is worth.
    fn weight(&self, error: &RedisError) -> u32 {
        match (error.kind(), &self.connection) {
            // It may not write, or not yet: another one has its place, or it needs some time.
            (
                ErrorKind::Server(
                    ServerErrorKind::ReadOnly
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::BusyLoading,
                ),
                _,
            ) => FAILURES_MAX,
            // It is there and says no to this alone: it is full, or its user may not do it.
            (ErrorKind::Server(_) | ErrorKind::Extension, _) => 0,
            (_, Connection::Server(_)) if error.is_unrecoverable_error() => FAILURES_MAX,
            // One node of a Cluster is looked for by the others.
            (_, Connection::Server(_) | Connection::Cluster(_)) => 1,
        }
    }
}

/// How long to stay away after a connection was lost or could not be had.
#[derive(Debug)]
pub(super) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(PAUSE_MIN)
    }
}

impl Pause {
    /// Waits, longer each time unless the last connection held for longer than that.
    pub(super) async fn after(&mut self, opened: Option<Instant>) {
        if opened.is_some_and(|opened| opened.elapsed() > self.0) {
            self.0 = PAUSE_MIN;
        }
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE_MAX);
    }
}
