//! Redis between replicas: it makes repeated calls faster, and whatever happens to it makes nothing
//! wrong.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test fails at an answer that it does not expect"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oncegate::domain::command::{
    Answer, Command, Complete, Expire, Grant, Reserve, ReserveVerdict,
};
use oncegate::domain::fingerprint::Fingerprint;
use oncegate::domain::key::RecordKey;
use oncegate::domain::limits;
use oncegate::domain::outcome::{Outcome, OutcomeStatus};
use oncegate::domain::policy::Terms;
use oncegate::domain::record::RequestId;
use oncegate::domain::time::Timestamp;
use oncegate::domain::token::Token;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::{Applied, Store, StoreError};
use oncegate::store::cached::{Cached, Counts};
use oncegate::store::memory::MemoryStore;
use oncegate::testkit::front::Front;
use oncegate::testkit::redis::TempRedis;
use redis::AsyncCommands;
use tokio::time::{Instant, sleep};

/// How long the store takes: longer than Redis.
const STORE_TIME: Duration = Duration::from_millis(60);
/// How long anything may take that happens in the background.
const WITHIN: Duration = Duration::from_secs(10);

/// A store that takes its time and counts what it is asked.
#[derive(Debug)]
struct Slow {
    store: MemoryStore,
    asked: AtomicU64,
}

#[async_trait]
impl Front for Slow {
    fn behind(&self) -> &dyn Store {
        &self.store
    }

    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        sleep(STORE_TIME).await;
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.store.carry_out(command).await
    }
}

/// Two replicas that remember nothing of their own and share a Redis.
struct Replicas {
    clock: ManualClock,
    store: Arc<Slow>,
    here: Cached,
    there: Cached,
}

impl Replicas {
    async fn on(url: &str) -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000));
        let store = Arc::new(Slow {
            store: MemoryStore::new(Clock::Manual(clock.clone())),
            asked: AtomicU64::new(0),
        });
        let (here, there) = (
            replica(&store, &clock, url).await,
            replica(&store, &clock, url).await,
        );
        Self {
            clock,
            store,
            here,
            there,
        }
    }

    /// On a Redis that they have found.
    async fn linked(redis: &TempRedis) -> Self {
        let replicas = Self::on(&redis.url()).await;
        replicas.complete("probe").await;
        replicas.come_from_redis("probe").await;
        replicas
    }

    async fn complete(&self, name: &str) {
        let grant = granted(ask(&self.here, name, 1).await);
        let command = Command::Complete(Box::new(Complete {
            key: key(name),
            token: Token {
                generation: grant.generation,
                fence: grant.fence,
            },
            outcome: outcome(name),
            retention: None,
        }));
        self.here.apply(command).await.expect("it is completed");
    }

    async fn expire(&self, name: &str) {
        let read = self.store.read(vec![key(name)]).await.expect("it is read");
        let record = read.records[0].clone().expect("readable").expect("there");
        for _ in 0..2 {
            let command = Command::Expire(Expire {
                key: key(name),
                reason: "wrong customer".to_owned(),
                allow_rerun: true,
                etag: record.etag(),
                actor: "support".to_owned(),
            });
            self.here.apply(command).await.expect("it is expired");
        }
    }

    /// Waits until the other replica hears of an outcome from Redis.
    async fn come_from_redis(&self, name: &str) {
        let limit = Instant::now() + WITHIN;
        let before = count(&self.there, "shared_hit");
        while count(&self.there, "shared_hit") == before {
            assert!(Instant::now() < limit, "{name} does not come from Redis");
            assert!(is_replay(&ask(&self.there, name, 1).await, name));
        }
    }

    fn asked(&self) -> u64 {
        self.store.asked.load(Ordering::Relaxed)
    }
}

async fn replica(store: &Arc<Slow>, clock: &ManualClock, url: &str) -> Cached {
    let store = Arc::clone(store) as Arc<dyn Store>;
    let target = url.parse().expect("a Redis URL");
    let cached = Cached::new(store, Clock::Manual(clock.clone()), 0).sharing(target);
    cached.token_secrets().await.expect("it has secrets");
    cached
}

fn key(name: &str) -> RecordKey {
    RecordKey::parse("terminal", "live", "", name).expect("valid")
}

fn outcome(payload: &str) -> Outcome {
    let none = String::new;
    let payload = payload.as_bytes().to_vec();
    Outcome::reported(
        OutcomeStatus::Succeeded,
        payload,
        none(),
        none(),
        vec![],
        None,
    )
}

async fn ask(cached: &Cached, name: &str, digest: u8) -> ReserveVerdict {
    let reserve = Reserve {
        key: key(name),
        operation: "slot.claim".to_owned(),
        fingerprint: Some(Fingerprint::parse("raw-sha256-v1", &[digest; 32]).expect("valid")),
        request_id: RequestId::from_bytes([digest; 16]),
        lease: Duration::from_secs(30),
        holder: String::new(),
        trace_id: String::new(),
        attributes: std::collections::BTreeMap::new(),
        can_recover: true,
        terms: Terms::default(),
    };
    let told = cached.apply(Command::Reserve(Box::new(reserve))).await;
    match told.expect("it answers") {
        Answer::Reserve(reserved) => reserved.verdict,
        other => panic!("not a Reserve's answer but {other:?}"),
    }
}

fn granted(verdict: ReserveVerdict) -> Grant {
    match verdict {
        ReserveVerdict::Granted(grant) => grant,
        other => panic!("must be GRANTED, is {other:?}"),
    }
}

fn is_replay(verdict: &ReserveVerdict, payload: &str) -> bool {
    matches!(verdict, ReserveVerdict::Replay(replay) if replay.outcome == outcome(payload))
}

fn count(cached: &Cached, name: &str) -> u64 {
    let counts: Arc<Counts> = cached.counts();
    let found = counts.all().into_iter().find(|(known, _)| *known == name);
    found.expect("it is counted").1
}

/// The only keys in it, whatever they are called.
async fn keys(redis: &TempRedis) -> Vec<Vec<u8>> {
    let mut connection = redis.connect().await.expect("it answers");
    connection.keys("*").await.expect("it has keys")
}

// Field case G3. Field case G6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_completed_another_tells_from_redis_before_the_store_answers() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis).await;
    let started = Instant::now();
    assert!(is_replay(&ask(&replicas.there, "probe", 1).await, "probe"));
    assert!(started.elapsed() < STORE_TIME, "{:?}", started.elapsed());
    // Field case D2, and C3: another request is refused from Redis too.
    let before = count(&replicas.there, "shared_hit");
    let verdict = ask(&replicas.there, "probe", 2).await;
    assert!(
        matches!(verdict, ReserveVerdict::Mismatch(_)),
        "{verdict:?}"
    );
    assert_eq!(count(&replicas.there, "shared_hit"), before + 1);
    // Emptied, it is as if it had never been told.
    let mut connection = redis.connect().await.expect("it answers");
    redis::cmd("FLUSHALL")
        .query_async::<()>(&mut connection)
        .await
        .expect("emptied");
    assert!(is_replay(&ask(&replicas.there, "probe", 1).await, "probe"));
    assert_eq!(count(&replicas.there, "shared_hit"), before + 1);
    replicas.come_from_redis("probe").await;
}

// Field case G1. Field case G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_hangs_or_dies_costs_no_more_than_the_store() {
    let mut redis = TempRedis::prepare();
    let replicas = Replicas::on(&redis.url()).await;
    // Away from the start.
    replicas.complete("early").await;
    assert!(is_replay(&ask(&replicas.there, "early", 1).await, "early"));
    redis.launch(&[]).await;
    replicas.come_from_redis("early").await;
    for hangs in [true, false] {
        if hangs {
            redis.hang();
        } else {
            redis.kill();
        }
        for at in 0..20 {
            let name = format!("{hangs}-{at}");
            let started = Instant::now();
            granted(ask(&replicas.there, &name, 1).await);
            let took = started.elapsed();
            assert!(took < STORE_TIME * 2, "{name}: {took:?}");
        }
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
    let replicas = Replicas::linked(&redis).await;
    let mut connection = redis.connect().await.expect("it answers");
    let name = keys(&redis).await.remove(0);
    let old: Vec<u8> = connection.get(&name).await.expect("it is there");
    replicas.clock.advance(Duration::from_secs(30));
    replicas.expire("probe").await;
    // As a snapshot from before the Expire would have it.
    let limit = Instant::now() + WITHIN;
    while connection
        .get::<_, Vec<u8>>(&name)
        .await
        .expect("it answers")
        == old
    {
        assert!(Instant::now() < limit, "the Expire does not come to Redis");
        sleep(Duration::from_millis(5)).await;
    }
    connection
        .set::<_, _, ()>(&name, &old)
        .await
        .expect("it is put back");
    assert!(is_replay(&ask(&replicas.there, "probe", 1).await, "probe"));
    replicas.clock.advance(Duration::from_secs(30));
    let told = ask(&replicas.there, "probe", 1).await;
    assert!(matches!(told, ReserveVerdict::InProgress(_)), "{told:?}");
    replicas.clock.advance(limits::CACHE_BOUND);
    let told = ask(&replicas.there, "probe", 1).await;
    assert!(matches!(told, ReserveVerdict::Granted(_)), "{told:?}");
    assert!(!is_replay(&ask(&replicas.here, "probe", 2).await, "probe"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_this_deployment_did_not_write_is_a_miss_and_an_alarm() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis).await;
    replicas.complete("other").await;
    replicas.come_from_redis("other").await;
    let mut connection = redis.connect().await.expect("it answers");
    let names = keys(&redis).await;
    assert_eq!(names.len(), 2);
    let values: Vec<Vec<u8>> = connection.mget(&names).await.expect("they are there");
    for name in &names {
        let text = String::from_utf8(name.clone()).expect("it is text");
        assert!(
            !text.contains("probe") && !text.contains("terminal"),
            "{text}"
        );
    }
    let flipped = |at: usize| {
        let mut value = values[0].clone();
        value[at] ^= 1;
        value
    };
    let mut forged = vec![b"garbage".repeat(20), values[1].clone()];
    forged.extend([39, 40, 50, 80, values[0].len() - 1].map(flipped));
    forged.push(values[0][..values[0].len() - 1].to_vec());
    let name = ["probe", "other"].into_iter().find(|name| {
        let digest = key(name).digest();
        let digits = digest.as_bytes().iter();
        let hex = digits.fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        names[0].ends_with(hex.as_bytes())
    });
    let name = name.expect("it is one of them");
    for (at, value) in forged.into_iter().enumerate() {
        let (forged, shared) = ("forged", "shared_hit");
        let before = [
            count(&replicas.there, forged),
            count(&replicas.there, shared),
        ];
        connection
            .set::<_, _, ()>(&names[0], value)
            .await
            .expect("it is put there");
        // Past the memory of the writer: nobody has told anything since.
        let told = ask(&replicas.there, name, 1).await;
        assert!(is_replay(&told, name), "{at}: {told:?}");
        let after = [
            count(&replicas.there, forged),
            count(&replicas.there, shared),
        ];
        assert_eq!(after, [before[0] + 1, before[1]], "{at}");
    }
    // A value of another type is an error like any other.
    connection.del::<_, ()>(&names[0]).await.expect("gone");
    connection
        .lpush::<_, _, ()>(&names[0], "x")
        .await
        .expect("a list");
    assert!(is_replay(&ask(&replicas.there, name, 1).await, name));
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
        assert!(is_replay(&ask(&replicas.there, "late", 1).await, "late"));
    }
    assert!(is_replay(&ask(&replicas.there, "probe", 1).await, "probe"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_from_redis_takes_the_question_back_from_the_store() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis).await;
    let before = replicas.asked();
    for _ in 0..20 {
        assert!(is_replay(&ask(&replicas.there, "probe", 1).await, "probe"));
    }
    assert_eq!(replicas.asked(), before);
}
