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
    let limit = Instant::now() + WITHIN * 3;
    let mut cut = 0;
    while cut < CUTS {
        assert!(
            Instant::now() < limit,
            "only {cut} connections were opened and cut"
        );
        sleep(dice.span(Duration::from_millis(20))).await;
        cut += u64::from(proxy.cut_one(dice.roll()));
    }
    if let Some(ended) = callers.try_join_next() {
        ended.expect("no caller is told what is wrong");
    }
    callers.shutdown().await;
    replicas.are_linked("after").await;
    let mut stays = 0;
    let all = keys(&redis).await;
    for name in &all {
        let name = String::from_utf8_lossy(name);
        let left: i64 = redis.ask(&["PTTL", &name]).await.expect("it answers");
        stays += u64::from(left == -1);
    }
    assert!(all.len() > 10, "only {} were written", all.len());
    assert_eq!(stays, 0);
}
