//! What the tests of Redis share: replicas that have no memory of their own, linked by one.

use ::redis::{AsyncCommands, Value};
use oncegate::store::cached::Target;
use oncegate::testkit::redis::TempRedis;
use tokio::time::{Instant, timeout};

use super::*;

/// How long the store takes: longer than Redis.
pub(super) const STORE_TIME: Duration = Duration::from_millis(60);
/// How long anything may take that happens in the background.
pub(super) const WITHIN: Duration = Duration::from_secs(30);

impl Replicas {
    /// Without a memory of their own, on that Redis.
    pub(super) async fn sharing(url: &str) -> Self {
        Self::on_target(url.parse().expect("a Redis URL")).await
    }

    /// The same, on whatever Redis that is.
    pub(super) async fn on_target(target: Target) -> Self {
        let put = |store, clock| Cached::new(store, clock, 0).sharing(Clone::clone(&target));
        let replicas = Self::on(STORE_TIME, Duration::ZERO, put);
        for replica in [&replicas.here, &replicas.there] {
            replica.token_secrets().await.expect("it has secrets");
        }
        replicas
    }

    /// The same, when they have found it.
    pub(super) async fn linked(url: &str) -> Self {
        let replicas = Self::sharing(url).await;
        replicas.are_linked("probe").await;
        replicas
    }

    /// Waits until each has found it, for what one writes there and what the other hears.
    pub(super) async fn are_linked(&self, new_key: &str) {
        self.complete(new_key).await;
        self.come_from_redis(new_key).await;
        self.written_there().await;
    }

    /// Waits until all that the other replica had to write to Redis is written: it keeps its order, so
    /// this one must only hear of one change more.
    pub(super) async fn written_there(&self) {
        written(&self.there, &self.here).await;
    }

    /// Asks the other replica until the answer comes from Redis.
    pub(super) async fn told_by_redis<F>(&self, ask: impl Fn() -> F) -> ReserveVerdict
    where
        F: Future<Output = ReserveVerdict>,
    {
        let limit = Instant::now() + WITHIN;
        let before = count(&self.there, "shared_hit");
        loop {
            let verdict = ask().await;
            if count(&self.there, "shared_hit") > before {
                return verdict;
            }
            assert!(Instant::now() < limit, "it does not come from Redis");
        }
    }

    /// Waits until the other replica hears of an outcome from Redis.
    pub(super) async fn come_from_redis(&self, key: &str) {
        let verdict = self.told_by_redis(|| told(&self.there, key)).await;
        assert!(is_replay(&verdict, key), "{verdict:?}");
    }
}

/// Waits until all that one replica had to write is written, as another one can tell.
pub(super) async fn written(by: &Cached, other: &Cached) {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    let mut heard = other.changes();
    let hear = async {
        loop {
            let last = format!("last-{}", KEYS.fetch_add(1, Ordering::Relaxed));
            complete(by, &last, granted(by, &last).await, outcome(&last)).await;
            let digest = key_of(&last).digest();
            let heard = async { while heard.recv().await != Ok(digest) {} };
            if timeout(Duration::from_secs(1), heard).await.is_ok() {
                break;
            }
        }
    };
    timeout(WITHIN, hear).await.expect("it is heard");
}

/// The command of docs/operations.md that makes the server's user, with this password.
pub(super) fn documented_user(password: &str) -> Vec<String> {
    let page = include_str!("../../../docs/operations.md");
    let mut lines = page.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with("ACL SETUSER oncegate "));
    let line = line
        .expect("it is documented")
        .replace("PASSWORD", password);
    line.split(' ').map(str::to_owned).collect()
}

/// Has a Redis carry out a command.
pub(super) async fn carry_out(redis: &TempRedis, command: &[String]) {
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    redis.ask::<Value>(&command).await.expect("it is done");
}

/// All keys in it, whatever they are called.
pub(super) async fn keys(redis: &TempRedis) -> Vec<Vec<u8>> {
    let mut connection = redis.connect().await.expect("it answers");
    connection.keys("*").await.expect("it has keys")
}

/// What a record's key is called there.
pub(super) fn name_of(key: &str, names: &[Vec<u8>]) -> Vec<u8> {
    let digest = key_of(key).digest().to_string();
    let mut names = names.iter();
    let name = names.find(|name| name.ends_with(digest.as_bytes()));
    name.expect("it is in Redis").clone()
}

/// How long new keys take with that Redis and without any: of each hundred, the second longest.
pub(super) async fn percentiles_99(replicas: &Replicas, keys: &str) -> [Duration; 2] {
    let store = Arc::clone(&replicas.store) as Arc<dyn Store>;
    let without = Cached::new(store, Clock::Manual(replicas.clock.clone()), 0);
    let mut took = [Vec::new(), Vec::new()];
    // Side by side, so that whatever the machine does meets both.
    for round in 0..10 {
        let ways = [replicas.there.as_ref(), &without];
        let calls = (0..20).map(|at| async move {
            let started = Instant::now();
            granted(ways[at % 2], &format!("{keys}-{round}-{at}")).await;
            (at % 2, started.elapsed())
        });
        for (way, time) in futures::future::join_all(calls).await {
            took[way].push(time);
        }
    }
    took.map(|mut took| {
        took.sort();
        took[took.len() - 2]
    })
}
