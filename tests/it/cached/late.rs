//! What comes late to Redis, or never: an outcome that was read before it was expired, the note that it
//! is gone, and the word to the other replicas.

use std::sync::atomic::AtomicBool;

use oncegate::domain::limits;
use oncegate::testkit::process::eventually;
use oncegate::testkit::redis::TempRedis;
use tokio::sync::watch;

use super::linked::written;
use super::*;

const BYTES_MAX: u64 = 1024 * 1024;

/// A store whose answers to one question stay under way until they are let go.
#[derive(Debug)]
struct Holding {
    store: Arc<Slow>,
    held: watch::Sender<bool>,
    has_one: AtomicBool,
}

#[async_trait]
impl Front for Holding {
    fn behind(&self) -> &dyn Store {
        self.store.as_ref()
    }

    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        let applied = self.store.carry_out(command).await;
        let mut held = self.held.subscribe();
        self.has_one.store(*held.borrow(), Ordering::SeqCst);
        held.wait_for(|held| !held).await.expect("its sender lives");
        applied
    }
}

/// A replica of the same store that its answers reach late, and what lets them go.
fn late(replicas: &Replicas, redis: &TempRedis) -> (Arc<Cached>, Arc<Holding>) {
    let holding = Arc::new(Holding {
        store: Arc::clone(&replicas.store),
        held: watch::Sender::new(false),
        has_one: AtomicBool::new(false),
    });
    let target = redis.url().parse().expect("a Redis URL");
    let store = Arc::clone(&holding) as Arc<dyn Store>;
    let clock = Clock::Manual(replicas.clock.clone());
    let cached = Cached::new(store, clock, BYTES_MAX).sharing(target);
    (Arc::new(cached), holding)
}

/// Each of them for each step of the time after an Expire: the old outcome within the bound alone, and
/// one grant, after it.
async fn nobody_replays_beyond_the_bound(replicas: &Replicas, asked: &[&Cached], key: &str) {
    let step = Duration::from_secs(5);
    let (mut since, mut grants) = (Duration::ZERO, 0);
    while since < limits::CACHE_BOUND * 2 + step {
        for replica in asked {
            let verdict = told(replica, key).await;
            if is_replay(&verdict, key) {
                assert!(since < limits::CACHE_BOUND, "after {since:?}");
            } else if matches!(verdict, ReserveVerdict::Granted(_)) {
                assert!(since >= limits::CACHE_BOUND, "after {since:?}");
                grants += 1;
            }
            let another = told_another(replica, key).await;
            assert!(
                !matches!(another, ReserveVerdict::Granted(_)),
                "{another:?}"
            );
        }
        replicas.clock.advance(step);
        since += step;
    }
    assert_eq!(grants, 1);
}

// Field case B2. Field case G11. Field case G12.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fill_that_comes_after_the_expire_is_told_to_nobody_beyond_the_bound() {
    let redis = TempRedis::start().await;
    // Whether Redis has lost the note that it is gone when the fill comes.
    for note_lost in [false, true] {
        let replicas = Replicas::linked(&redis.url()).await;
        let (late, holding) = late(&replicas, &redis);
        late.token_secrets().await.expect("it has secrets");
        written(&late, &replicas.here).await;
        replicas.complete("k").await;
        written(&replicas.here, &replicas.there).await;
        redis.ask::<()>(&["FLUSHALL"]).await.expect("emptied");
        holding.held.send_replace(true);
        let reading = tokio::spawn({
            let late = Arc::clone(&late);
            async move { told(&late, "k").await }
        });
        eventually("the outcome is read", || {
            holding.has_one.load(Ordering::SeqCst)
        })
        .await;
        replicas.expire("k").await;
        written(&replicas.here, &replicas.there).await;
        if note_lost {
            redis.ask::<()>(&["FLUSHALL"]).await.expect("emptied");
        }
        holding.held.send_replace(false);
        // It was read when it was so.
        assert!(is_replay(&reading.await.expect("the task ends"), "k"));
        written(&late, &replicas.here).await;
        let before = count(&replicas.there, "shared_hit");
        let asked = [replicas.there.as_ref(), &late, &replicas.here];
        nobody_replays_beyond_the_bound(&replicas, &asked, "k").await;
        let told_it = count(&replicas.there, "shared_hit") > before;
        assert!(note_lost || !told_it, "the fill is put over the note");
        assert_eq!(count(&replicas.there, "forged"), 0);
    }
}

// Field case G3. Field case G11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expire_that_redis_never_hears_of_is_believed_within_the_bound() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis.url()).await;
    let remembers = |bytes_max| {
        let store = Arc::clone(&replicas.store) as Arc<dyn Store>;
        Cached::new(store, Clock::Manual(replicas.clock.clone()), bytes_max)
    };
    replicas.complete("k").await;
    replicas.come_from_redis("k").await;
    let remembering = remembers(BYTES_MAX);
    assert!(is_replay(&told(&remembering, "k").await, "k"));
    // Whoever expires it has no Redis to tell of it.
    let alone = Replicas {
        here: Arc::new(remembers(0)),
        there: Arc::clone(&replicas.there),
        clock: replicas.clock.clone(),
        store: Arc::clone(&replicas.store),
    };
    alone.expire("k").await;
    let asked = [replicas.there.as_ref(), &remembering, &alone.here];
    nobody_replays_beyond_the_bound(&replicas, &asked, "k").await;
    assert!(count(&replicas.there, "shared_hit") > 0);
}
