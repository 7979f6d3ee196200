//! Redis between replicas: it makes repeated calls faster, and whatever happens to it makes nothing
//! wrong.

use ::redis::{AsyncCommands, RedisResult, cmd};
use oncegate::domain::limits;
use oncegate::testkit::redis::TempRedis;
use tokio::time::{Instant, timeout};

use super::*;

/// How long the store takes: longer than Redis.
const STORE_TIME: Duration = Duration::from_millis(60);
/// How long anything may take that happens in the background.
const WITHIN: Duration = Duration::from_secs(10);

impl Replicas {
    /// Without a memory of their own, on that Redis.
    async fn sharing(redis: &TempRedis) -> Self {
        let target = redis.url().parse().expect("a Redis URL");
        let put = |store, clock| Cached::new(store, clock, 0).sharing(Clone::clone(&target));
        let replicas = Self::on(STORE_TIME, Duration::ZERO, put);
        for replica in [&replicas.here, &replicas.there] {
            replica.token_secrets().await.expect("it has secrets");
        }
        replicas
    }

    /// The same, when they have found it.
    async fn linked(redis: &TempRedis) -> Self {
        let replicas = Self::sharing(redis).await;
        replicas.complete("probe").await;
        replicas.come_from_redis("probe").await;
        replicas.written_there().await;
        replicas
    }

    /// Waits until all that the other replica had to write to Redis is written: it keeps its order, so
    /// this one must only hear of one change more.
    async fn written_there(&self) {
        written(&self.there, &self.here).await;
    }

    /// Asks the other replica until the answer comes from Redis.
    async fn told_by_redis<F>(&self, ask: impl Fn() -> F) -> ReserveVerdict
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
    async fn come_from_redis(&self, key: &str) {
        let verdict = self.told_by_redis(|| told(&self.there, key)).await;
        assert!(is_replay(&verdict, key), "{verdict:?}");
    }
}

/// Waits until all that one replica had to write is written, as another one can tell.
async fn written(by: &Cached, other: &Cached) {
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

/// All keys in it, whatever they are called.
async fn keys(redis: &TempRedis) -> Vec<Vec<u8>> {
    let mut connection = redis.connect().await.expect("it answers");
    connection.keys("*").await.expect("it has keys")
}

/// What a record's key is called there.
fn name_of(key: &str, names: &[Vec<u8>]) -> Vec<u8> {
    let digest = key_of(key).digest().to_string();
    let mut names = names.iter();
    let name = names.find(|name| name.ends_with(digest.as_bytes()));
    name.expect("it is in Redis").clone()
}

// Field case G3. Field case G6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_completed_another_tells_from_redis_before_the_store_answers() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis).await;
    let limit = Instant::now() + WITHIN;
    loop {
        let started = Instant::now();
        assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
        if started.elapsed() < STORE_TIME {
            break;
        }
        assert!(Instant::now() < limit, "Redis is no faster than the store");
    }
    // Field case D2, and C3: another request is refused from Redis too.
    let another = || told_another(&replicas.there, "probe");
    let verdict = replicas.told_by_redis(another).await;
    assert!(
        matches!(verdict, ReserveVerdict::Mismatch(_)),
        "{verdict:?}"
    );
    // Emptied, it is as if it had never been told.
    let mut connection = redis.connect().await.expect("it answers");
    cmd("FLUSHALL")
        .query_async::<()>(&mut connection)
        .await
        .expect("emptied");
    let before = count(&replicas.there, "shared_hit");
    assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
    assert_eq!(count(&replicas.there, "shared_hit"), before);
    replicas.come_from_redis("probe").await;
}

// Field case G1. Field case G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_hangs_or_dies_costs_no_more_than_the_store() {
    let mut redis = TempRedis::prepare();
    let replicas = Replicas::sharing(&redis).await;
    // Away from the start.
    replicas.complete("early").await;
    assert!(is_replay(&told(&replicas.there, "early").await, "early"));
    redis.launch(&[]).await;
    replicas.come_from_redis("early").await;
    for hangs in [true, false] {
        if hangs {
            redis.hang();
        } else {
            redis.kill();
        }
        let [with, without] = percentiles_99(&replicas, hangs).await;
        assert!(with < without * 2, "{with:?} and {without:?}");
        assert!(count(&replicas.there, "skipped") + count(&replicas.there, "error") > 0);
        if hangs {
            redis.go_on();
        } else {
            redis.launch(&[]).await;
        }
        replicas.come_from_redis("early").await;
    }
}

/// How long new keys take with that Redis and without any: of each hundred, the second longest.
async fn percentiles_99(replicas: &Replicas, hangs: bool) -> [Duration; 2] {
    let store = Arc::clone(&replicas.store) as Arc<dyn Store>;
    let without = Cached::new(store, Clock::Manual(replicas.clock.clone()), 0);
    let mut took = [Vec::new(), Vec::new()];
    // Side by side, so that whatever the machine does meets both.
    for round in 0..10 {
        let ways = [replicas.there.as_ref(), &without];
        let calls = (0..20).map(|at| async move {
            let started = Instant::now();
            granted(ways[at % 2], &format!("{hangs}-{round}-{at}")).await;
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

// Field case G11. Field case G3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_value_that_comes_back_is_told_no_longer_than_its_bound() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis).await;
    let mut connection = redis.connect().await.expect("it answers");
    let name = name_of("probe", &keys(&redis).await);
    let old: Vec<u8> = connection.get(&name).await.expect("it is there");
    replicas.clock.advance(Duration::from_secs(30));
    replicas.expire("probe").await;
    // As a snapshot from before the Expire would have it.
    written(&replicas.here, &replicas.there).await;
    let now: Vec<u8> = connection.get(&name).await.expect("it answers");
    assert!(now != old, "the Expire does not come to Redis");
    let before = count(&replicas.there, "shared_hit");
    let told_then = async {
        loop {
            let put: RedisResult<()> = connection.set(&name, &old).await;
            put.expect("it is put back");
            let verdict = told(&replicas.there, "probe").await;
            if count(&replicas.there, "shared_hit") > before {
                break verdict;
            }
        }
    };
    let verdict = timeout(WITHIN, told_then).await.expect("Redis is heard");
    assert!(is_replay(&verdict, "probe"), "{verdict:?}");
    replicas.clock.advance(Duration::from_secs(30));
    let verdict = told(&replicas.there, "probe").await;
    assert!(
        matches!(verdict, ReserveVerdict::InProgress(_)),
        "{verdict:?}"
    );
    replicas.clock.advance(limits::CACHE_BOUND);
    let verdict = told(&replicas.there, "probe").await;
    assert!(matches!(verdict, ReserveVerdict::Granted(_)), "{verdict:?}");
    assert!(!is_replay(
        &told_another(&replicas.here, "probe").await,
        "probe"
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_this_deployment_did_not_write_is_a_miss_and_an_alarm() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis).await;
    replicas.complete("other").await;
    replicas.come_from_redis("other").await;
    replicas.written_there().await;
    let mut connection = redis.connect().await.expect("it answers");
    let names = keys(&redis).await;
    for name in &names {
        let text = String::from_utf8(name.clone()).expect("it is text");
        assert!(!text.contains("probe") && !text.contains("shop"), "{text}");
    }
    let name = |key| name_of(key, &names);
    let [probe, other]: [Vec<u8>; 2] = [
        connection.get(name("probe")).await.expect("it is there"),
        connection.get(name("other")).await.expect("it is there"),
    ];
    let flipped = |at: usize| {
        let mut value = probe.clone();
        value[at] ^= 1;
        value
    };
    let mut forged = vec![b"garbage".repeat(20), other];
    forged.extend([39, 40, 50, 80, probe.len() - 1].map(flipped));
    forged.push(probe[..probe.len() - 1].to_vec());
    for (at, value) in forged.into_iter().enumerate() {
        let counts = || ["forged", "shared_hit"].map(|name| count(&replicas.there, name));
        let before = counts();
        connection
            .set::<_, _, ()>(name("probe"), value)
            .await
            .expect("it is put there");
        let verdict = told(&replicas.there, "probe").await;
        assert!(is_replay(&verdict, "probe"), "{at}: {verdict:?}");
        assert_eq!(counts(), [before[0] + 1, before[1]], "{at}");
        replicas.written_there().await;
    }
    // A value of another type is an error like any other.
    connection.del::<_, ()>(name("probe")).await.expect("gone");
    connection
        .lpush::<_, _, ()>(name("probe"), "x")
        .await
        .expect("a list");
    assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
    assert!(count(&replicas.there, "error") > 0);
}

// Field case G6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_full_only_keeps_nothing_more() {
    let mut redis = TempRedis::prepare();
    redis
        .launch(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"])
        .await;
    let replicas = Replicas::linked(&redis).await;
    let mut connection = redis.connect().await.expect("it answers");
    for at in 0..100 {
        let filling = connection
            .set::<_, _, ()>(format!("x{at}"), "x".repeat(100_000))
            .await;
        if filling.is_err() {
            break;
        }
    }
    replicas.complete("late").await;
    for _ in 0..3 {
        assert!(is_replay(&told(&replicas.there, "late").await, "late"));
    }
    assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_from_redis_takes_the_question_back_from_the_store() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis).await;
    let counts = || (replicas.asked(), count(&replicas.there, "shared_hit"));
    let (asked, told_by_redis) = counts();
    for _ in 0..20 {
        assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
    }
    let now = counts();
    assert_eq!(now.0 - asked + now.1 - told_by_redis, 20);
    assert!(now.1 > told_by_redis);
}
