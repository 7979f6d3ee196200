//! The memory that replicas share. It is asked beside the store and never waited for: what is slow,
//! broken or gone is skipped, and looked for again in the background.

mod link;
mod target;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use redis::aio::PubSub;
use redis::{Pipeline, RedisError, RedisResult};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

pub use self::target::{BadTarget, Target};

use self::link::{Link, Pause, Work};
use super::Counts;
use crate::domain::key::KeyDigest;

/// How long one call waits at the most.
const ANSWER_MAX: Duration = Duration::from_millis(20);
/// How long a batch of writes may take, which nobody waits for.
const WRITE_MAX: Duration = Duration::from_millis(500);
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
    /// Later states of a record have greater ones, of the same length.
    pub(super) stamp: String,
    pub(super) bytes: Vec<u8>,
    pub(super) keep_for: Duration,
}

/// What goes out without being waited for.
#[derive(Debug)]
enum Write {
    Set(Value),
    Delete(KeyDigest),
    Changed(KeyDigest),
}

/// What this replica's keys and messages are called. No input of a user can steer it: names are made
/// of digests alone.
#[derive(Debug)]
pub(super) struct Names {
    /// In front of all of them: two deployments on one Redis do not meet.
    pub(super) deployment: String,
    /// Of the values: what is written in another form lies elsewhere.
    pub(super) format: &'static str,
}

impl Names {
    fn key(&self, digest: &KeyDigest) -> String {
        format!("{}:{}:{digest}", self.deployment, self.format)
    }

    fn channel(&self) -> String {
        format!("{}:changed", self.deployment)
    }
}

/// The shared memory as this replica sees it.
#[derive(Debug)]
pub(super) struct Shared {
    link: Arc<Link>,
    names: Arc<Names>,
    writes: mpsc::Sender<Write>,
    _tasks: JoinSet<()>,
}

impl Shared {
    /// Begins to look for Redis, on the current Tokio runtime. It need not be there.
    pub(super) fn start(
        target: Target,
        names: Names,
        counts: Arc<Counts>,
        changes: broadcast::Sender<KeyDigest>,
    ) -> Self {
        let link = Arc::new(Link::new(target, counts));
        let names = Arc::new(names);
        let (writes, queue) = mpsc::channel(WRITES_MAX);
        let mut tasks = JoinSet::new();
        let kept = Arc::clone(&link);
        tasks.spawn(async move { kept.keep_open().await });
        tasks.spawn(write(Arc::clone(&link), Arc::clone(&names), queue));
        tasks.spawn(listen(Arc::clone(&link), names.channel(), changes));
        Self {
            link,
            names,
            writes,
            _tasks: tasks,
        }
    }

    /// What is kept under a key; `None`: nothing, or it cannot be had in time.
    pub(super) async fn get(&self, digest: &KeyDigest) -> Option<Vec<u8>> {
        let open = self.link.open(1)?;
        let mut connection = open.connection.clone();
        let mut get = redis::cmd("GET");
        get.arg(self.names.key(digest));
        let asked = get.query_async::<Option<Vec<u8>>>(&mut connection);
        let told = timeout(ANSWER_MAX, asked).await;
        let told = told.map(|told| told.or_else(no_bytes));
        self.link.heed(&open, Work::Ask, told)?
    }

    /// Keeps a value, unless a later one is kept already.
    pub(super) fn put(&self, value: Value) {
        self.send(Write::Set(value));
    }

    /// Keeps nothing any more.
    pub(super) fn delete(&self, digest: KeyDigest) {
        self.send(Write::Delete(digest));
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

/// A list or the like is there: for whoever reads it, a value that cannot be opened.
fn no_bytes(error: RedisError) -> RedisResult<Option<Vec<u8>>> {
    if error.code() == Some("WRONGTYPE") {
        return Ok(Some(Vec::new()));
    }
    Err(error)
}

impl Write {
    /// Adds its command.
    fn command(self, names: &Names, pipeline: &mut Pipeline) {
        match self {
            Self::Set(value) => {
                let millis = u64::try_from(value.keep_for.as_millis()).unwrap_or(u64::MAX);
                let set = pipeline.cmd("EVAL").arg(SET).arg(1);
                set.arg(names.key(&value.digest));
                set.arg(value.stamp).arg(value.bytes).arg(millis);
            }
            Self::Delete(digest) => {
                pipeline.cmd("DEL").arg(names.key(&digest));
            }
            Self::Changed(digest) => {
                let tell = pipeline.cmd("PUBLISH").arg(names.channel());
                tell.arg(&digest.as_bytes()[..]);
            }
        }
    }
}

/// Writes what is queued, many at once.
async fn write(link: Arc<Link>, names: Arc<Names>, mut queue: mpsc::Receiver<Write>) {
    let mut together = Vec::with_capacity(WRITES_TOGETHER);
    while queue.recv_many(&mut together, WRITES_TOGETHER).await > 0 {
        let Some(open) = link.open(together.len()) else {
            together.clear();
            continue;
        };
        let mut pipeline = Pipeline::with_capacity(together.len());
        for write in together.drain(..) {
            write.command(&names, &mut pipeline);
        }
        let written = open.connection.carry_out(&pipeline);
        link.heed(&open, Work::Write, timeout(WRITE_MAX, written).await);
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
async fn listen(link: Arc<Link>, channel: String, changes: broadcast::Sender<KeyDigest>) {
    let mut pause = Pause::default();
    for attempt in 0.. {
        let heard = async {
            let mut heard = link.target.listen(attempt).await?;
            heard.subscribe(&channel).await?;
            Ok(heard)
        };
        let mut since = None;
        if let Some(heard) = link.opened(Work::Listen, heard).await {
            since = Some(Instant::now());
            link.counts.listening.store(true, Ordering::Relaxed);
            hear(heard, &changes).await;
            link.counts.listening.store(false, Ordering::Relaxed);
        }
        pause.after(since).await;
    }
}
