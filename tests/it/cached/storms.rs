//! Connections to Redis that break at any moment, between any two commands.

use oncegate::testkit::chaos_proxy::ChaosProxy;
use oncegate::testkit::load::Dice;
use oncegate::testkit::redis::TempRedis;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::linked::{WITHIN, keys};
use super::*;

/// Connections that are cut.
const CUTS: u64 = 60;

/// How often a value was set there.
async fn values_set(redis: &TempRedis) -> u64 {
    let told: String = redis
        .ask(&["INFO", "commandstats"])
        .await
        .expect("it answers");
    let set = told
        .split_once("cmdstat_set:calls=")
        .map_or("0", |(_, set)| set);
    let calls = set.split(',').next().and_then(|calls| calls.parse().ok());
    calls.expect("a number")
}

// Field case G10. Field case G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_at_any_moment_leave_nothing_that_stays_for_ever() {
    let mut dice = Dice::cast();
    let redis = TempRedis::start().await;
    let proxy = ChaosProxy::in_front_of(redis.address()).expect("a free port");
    let replicas = Arc::new(Replicas::linked(&format!("redis://{}", proxy.address())).await);
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let replicas = Arc::clone(&replicas);
        callers.spawn(async move {
            for at in 0_u64.. {
                let key = format!("{caller}-{at}");
                replicas.complete(&key).await;
                assert!(is_replay(&told(&replicas.there, &key).await, &key));
                if at % 3 == 0 {
                    replicas.expire(&key).await;
                    let verdict = told(&replicas.here, &key).await;
                    assert!(
                        !matches!(verdict, ReserveVerdict::Granted(_)),
                        "{verdict:?}"
                    );
                }
            }
        });
    }
    let limit = Instant::now() + WITHIN * 4;
    for cut in 0..CUTS {
        // Between two cuts something is written, so that the storm reaches every step.
        let before = values_set(&redis).await;
        while values_set(&redis).await == before {
            assert!(Instant::now() < limit, "only {cut} cuts");
            sleep(Duration::from_millis(5)).await;
        }
        sleep(dice.span(Duration::from_millis(20))).await;
        proxy.cut_one(dice.roll());
    }
    if let Some(ended) = callers.try_join_next() {
        ended.expect("no caller is told what is wrong");
    }
    callers.shutdown().await;
    replicas.are_linked("after").await;
    for name in keys(&redis).await {
        let name = String::from_utf8_lossy(&name);
        let left: i64 = redis.ask(&["PTTL", &name]).await.expect("it answers");
        // -2: it has gone meanwhile.
        assert_ne!(left, -1, "{name} stays for ever");
    }
}
