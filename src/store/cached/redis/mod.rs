//! The memory that replicas share. It is asked beside the store and never waited for: what is slow,
//! broken or gone is skipped, and looked for again in the background.

mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::StreamExt;
use redis::Pipeline;
use redis::aio::PubSub;
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub use self::target::{BadTarget, Target};

use self::target::Connection;
use super::Counts;
use crate::domain::key::KeyDigest;

/// How long one call waits at the most.
const ANSWER_MAX: Duration = Duration::from_millis(20);
/// How long a batch of writes may take, which nobody waits for.
const WRITE_MAX: Duration = Duration::from_millis(500);
/// After so many failures in a row the connection is given up.
const FAILURES_MAX: u32 = 5;
/// The pause before another connection is tried; it doubles up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A connection on which nothing is heard for so long is opened anew.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Writes that may wait; more are dropped, for each costs no more than a later question.
const WRITES_MAX: usize = 10_000;
/// Writes that go together.
const WRITES_TOGETHER: usize = 256;
/// Sets a value only over an older one, and lets it go by itself. The first bytes of a value are its
/// stamp, which orders as text.
const SET: &str = "local old = redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) \
     if old >= ARGV[1] then return 0 end \
     redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3]) return 1";

/// A value for a key of the shared memory.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) digest: KeyDigest,
    /// Later states of a record have greater ones.
    pub(super) stamp: String,
    pub(super) bytes: Vec<u8>,
    pub(super) keep_for: Duration,
}

/// What goes out without being waited for.
#[derive(Debug)]
enum Write {
    Set(Value),
    Changed(KeyDigest),
}

/// The shared memory as this replica sees it.
#[derive(Debug)]
pub(super) struct Shared {
    link: Arc<Link>,
    writes: mpsc::Sender<Write>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Link {
    target: Target,
    /// `None`: it is away.
    open: ArcSwapOption<Open>,
    failed: Notify,
    counts: Arc<Counts>,
    /// In front of every key: two deployments on one Redis do not meet.
    prefix: String,
}

struct Open {
    connection: Connection,
    failures: AtomicU32,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Open")
    }
}

impl Shared {
    /// Begins to look for Redis, on the current Tokio runtime. It need not be there.
    pub(super) fn start(
        target: Target,
        prefix: String,
        counts: Arc<Counts>,
        changes: broadcast::Sender<KeyDigest>,
    ) -> Self {
        let link = Arc::new(Link {
            target,
            open: ArcSwapOption::empty(),
            failed: Notify::new(),
            counts,
            prefix,
        });
        let (writes, queue) = mpsc::channel(WRITES_MAX);
        let mut tasks = JoinSet::new();
        tasks.spawn(connect(Arc::clone(&link)));
        tasks.spawn(write(Arc::clone(&link), queue));
        tasks.spawn(listen(Arc::clone(&link), changes));
        Self {
            link,
            writes,
            _tasks: tasks,
        }
    }

    /// What is kept under a key, without its stamp; `None`: nothing, or it cannot be had in time.
    pub(super) async fn get(&self, digest: &KeyDigest) -> Option<(String, Vec<u8>)> {
        let link = &self.link;
        let Some(open) = link.open.load_full() else {
            link.counts.skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let mut connection = open.connection.clone();
        let mut get = redis::cmd("GET");
        get.arg(link.key(digest));
        let asked = get.query_async::<Option<Vec<u8>>>(&mut connection);
        let Ok(Ok(value)) = timeout(ANSWER_MAX, asked).await else {
            link.counts.errors.fetch_add(1, Ordering::Relaxed);
            link.failure(&open);
            return None;
        };
        open.failures.store(0, Ordering::Relaxed);
        let value = value?;
        let (stamp, bytes) = value.split_at_checked(STAMP_BYTES)?;
        let stamp = String::from_utf8(stamp.to_vec()).ok()?;
        (!bytes.is_empty()).then(|| (stamp, bytes.to_vec()))
    }

    /// Keeps a value, unless a later one is kept already.
    pub(super) fn put(&self, value: Value) {
        self.send(Write::Set(value));
    }

    /// Tells the other replicas that a key has changed.
    pub(super) fn tell(&self, digest: KeyDigest) {
        self.send(Write::Changed(digest));
    }

    fn send(&self, write: Write) {
        if self.writes.try_send(write).is_err() {
            self.link.counts.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Digits of a stamp: two numbers of 20.
pub(super) const STAMP_BYTES: usize = 40;

impl Link {
    /// No input of a user can steer it: it is made of digests alone.
    fn key(&self, digest: &KeyDigest) -> String {
        format!("{}{digest}", self.prefix)
    }

    fn channel(&self) -> String {
        format!("{}changed", self.prefix)
    }

    /// Gives the connection up if it keeps failing.
    fn failure(&self, open: &Arc<Open>) {
        if open.failures.fetch_add(1, Ordering::Relaxed) + 1 == FAILURES_MAX {
            self.open.store(None);
            self.failed.notify_one();
        }
    }
}

/// Keeps a connection open.
async fn connect(link: Arc<Link>) {
    let mut pause = PAUSE_MIN;
    loop {
        match link.target.connect().await {
            Ok(connection) => {
                tracing::info!("Redis is there");
                pause = PAUSE_MIN;
                let failures = AtomicU32::new(0);
                link.open.store(Some(Arc::new(Open {
                    connection,
                    failures,
                })));
                link.failed.notified().await;
                tracing::warn!("Redis does not answer and is left alone for a while");
            }
            Err(error) => tracing::debug!(kind = ?error.kind(), "Redis cannot be reached"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Writes what is queued, many at once.
async fn write(link: Arc<Link>, mut queue: mpsc::Receiver<Write>) {
    let mut together = Vec::with_capacity(WRITES_TOGETHER);
    while queue.recv_many(&mut together, WRITES_TOGETHER).await > 0 {
        let Some(open) = link.open.load_full() else {
            let dropped = u64::try_from(together.len()).unwrap_or(0);
            link.counts.skipped.fetch_add(dropped, Ordering::Relaxed);
            together.clear();
            continue;
        };
        let mut pipeline = Pipeline::with_capacity(together.len());
        for write in together.drain(..) {
            match write {
                Write::Set(value) => {
                    let millis = u64::try_from(value.keep_for.as_millis()).unwrap_or(u64::MAX);
                    let set = pipeline
                        .cmd("EVAL")
                        .arg(SET)
                        .arg(1)
                        .arg(link.key(&value.digest));
                    set.arg(value.stamp).arg(value.bytes).arg(millis).ignore();
                }
                Write::Changed(digest) => {
                    let tell = pipeline.cmd("PUBLISH").arg(link.channel());
                    tell.arg(&digest.as_bytes()[..]).ignore();
                }
            }
        }
        let mut connection = open.connection.clone();
        let written = pipeline.query_async::<()>(&mut connection);
        if !matches!(timeout(WRITE_MAX, written).await, Ok(Ok(()))) {
            link.counts.errors.fetch_add(1, Ordering::Relaxed);
            link.failure(&open);
        }
    }
}

/// Passes on what is heard until the connection is gone, or has not said anything for so long that
/// it may be.
async fn hear(mut heard: PubSub, changes: &broadcast::Sender<KeyDigest>) {
    let mut messages = heard.on_message();
    while let Ok(Some(message)) = timeout(SILENCE_MAX, messages.next()).await {
        if let Ok(bytes) = <[u8; 32]>::try_from(message.get_payload_bytes()) {
            // It is only a hint: if nobody listens, it is not needed.
            drop(changes.send(KeyDigest::from_bytes(bytes)));
        }
    }
}

/// Hears of what other replicas have changed.
async fn listen(link: Arc<Link>, changes: broadcast::Sender<KeyDigest>) {
    let mut pause = PAUSE_MIN;
    loop {
        let heard = async {
            let mut heard = link.target.listen().await?;
            heard.subscribe(link.channel()).await?;
            Ok::<_, redis::RedisError>(heard)
        };
        if let Ok(Ok(heard)) = timeout(WRITE_MAX, heard).await {
            pause = PAUSE_MIN;
            hear(heard, &changes).await;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
