//! Redis between replicas: it makes repeated calls faster, and whatever happens to it makes nothing
//! wrong.

use ::redis::{AsyncCommands, RedisResult, cmd};
use oncegate::domain::limits;
use oncegate::testkit::redis::TempRedis;
use tokio::time::{Instant, timeout};

use super::linked::{STORE_TIME, WITHIN, keys, name_of, percentiles_99, written};
use super::*;

// Field case G3. Field case G6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_completed_another_tells_from_redis_before_the_store_answers() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis.url()).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_knows_most_of_what_it_is_asked_spares_the_store_the_question() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis.url()).await;
    let begun = || replicas.store.begun.load(Ordering::Relaxed);
    let limit = Instant::now() + WITHIN;
    loop {
        let before = begun();
        for _ in 0..20 {
            assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
        }
        if begun() == before {
            break;
        }
        assert!(Instant::now() < limit, "the store is asked every time");
    }
    // Now it may answer first, and still nothing hangs on it: neither a new key nor what it knew.
    granted(replicas.there.as_ref(), "new").await;
    redis.hang();
    for _ in 0..20 {
        let answer = timeout(WITHIN, told(&replicas.there, "probe")).await;
        assert!(is_replay(&answer.expect("the store answers"), "probe"));
    }
}

// Field case G1. Field case G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_hangs_or_dies_costs_no_more_than_the_store() {
    let mut redis = TempRedis::prepare();
    let replicas = Replicas::sharing(&redis.url()).await;
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
        let [with, without] = percentiles_99(&replicas, &format!("hangs-{hangs}")).await;
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

// Field case G11. Field case G3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_value_that_comes_back_is_told_no_longer_than_its_bound() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis.url()).await;
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

// Field case G6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_full_only_keeps_nothing_more() {
    let mut redis = TempRedis::prepare();
    redis
        .launch(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"])
        .await;
    let replicas = Replicas::linked(&redis.url()).await;
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
    let replicas = Replicas::linked(&redis.url()).await;
    let counts = || (replicas.asked(), count(&replicas.there, "shared_hit"));
    let (asked, told_by_redis) = counts();
    for _ in 0..20 {
        assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
    }
    let now = counts();
    assert_eq!(now.0 - asked + now.1 - told_by_redis, 20);
    assert!(now.1 > told_by_redis);
}
