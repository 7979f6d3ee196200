//! Crowds in front of Postgres: callers, sweepers, and keys that vanish while they are asked for.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test fails at an answer that it does not expect"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oncegate::domain::command::{Command, Reserve, ReserveVerdict};
use oncegate::domain::limits::CACHE_BOUND;
use oncegate::domain::policy::Terms;
use oncegate::domain::token::Token;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::{Store, Swept};
use oncegate::testkit::load::{Dice, ask, complete, reserve};
use oncegate::testkit::values::{key_of, outcome, secs, start};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, SERVERS, alone};

// Field case H3. Field case H9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn look_ups_checks_and_sweeps_come_to_their_turn_under_any_load() {
    let _alone = alone().await;
    let rig = Rig::start(SERVERS[0], |_| {}).await;
    let mut callers = JoinSet::new();
    for caller in 0..64 {
        let store = Arc::clone(&rig.store);
        callers.spawn(async move {
            for n in 0_u64.. {
                reserve(store.as_ref(), &ask(&format!("load-{caller}-{n}"))).await;
            }
        });
    }
    for _ in 0..20 {
        let asked = Instant::now();
        rig.store
            .read(vec![key_of("load-1-1")])
            .await
            .expect("the store reads");
        rig.store.check().await.expect("the store is ready");
        rig.store.sweep(10).await.expect("the store sweeps");
        assert!(
            asked.elapsed() < secs(2),
            "only after {:?}",
            asked.elapsed()
        );
    }
    callers.shutdown().await;
}

/// Retention of a second, and nothing kept afterwards.
fn short_lived() -> Terms {
    Terms {
        retention: secs(1),
        tombstone_retention: Duration::ZERO,
        ..Terms::default()
    }
}

fn ask_short_lived(key: &str) -> Reserve {
    Reserve {
        terms: short_lived(),
        ..ask(key)
    }
}

/// Reserves and completes if it is granted or may recover; every other verdict is an answer too.
async fn pass_by(store: &dyn Store, key: &str) {
    let grant = match reserve(store, &ask_short_lived(key)).await {
        ReserveVerdict::Granted(grant) => grant,
        ReserveVerdict::Recover(recover) => recover.grant,
        _ => return,
    };
    let token = Token {
        generation: grant.generation,
        fence: grant.fence,
    };
    complete(store, key, token, outcome(key)).await;
}

// Field case H5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_calls_and_sweeps_never_deadlock() {
    let _alone = alone().await;
    let mut dice = Dice::cast();
    for server in SERVERS {
        let clock = ManualClock::new(start());
        let mut rig = Rig::start(server, |options| {
            // One for each task: they meet in the database and not in the queue before it.
            options.connections = 23;
            options.clock = Clock::Manual(clock.clone());
        })
        .await;
        // Here records go, as they should.
        rig.run("DROP TRIGGER guard ON oncegate_record").await;
        let mut tasks = JoinSet::new();
        for _ in 0..20 {
            let (store, mut dice) = (Arc::clone(&rig.store), dice.split());
            tasks.spawn(async move {
                for _ in 0..200 {
                    pass_by(store.as_ref(), &format!("shared-{}", dice.below(60))).await;
                }
            });
        }
        let done = Arc::new(AtomicBool::new(false));
        let mut sweepers = JoinSet::new();
        for _ in 0..3 {
            let (store, clock, done) = (Arc::clone(&rig.store), clock.clone(), Arc::clone(&done));
            sweepers.spawn(async move {
                let mut swept = 0;
                while !done.load(Ordering::SeqCst) {
                    clock.advance(CACHE_BOUND / 2);
                    let Swept { buried, deleted } = store.sweep(25).await.expect("a sweep");
                    swept += buried + deleted;
                    sleep(Duration::from_millis(5)).await;
                }
                swept
            });
        }
        while let Some(passed) = tasks.join_next().await {
            passed.expect("every call was answered");
        }
        done.store(true, Ordering::SeqCst);
        let swept: u32 = sweepers.join_all().await.into_iter().sum();
        assert!(swept > 100, "{server}: only {swept} records were swept");
        // Sessions report what they counted when they end.
        let store = Arc::into_inner(rig.store).expect("nobody else holds it");
        store.close().await;
        let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        assert_eq!(
            crate::rig::number(&mut rig.sql, deadlocks).await,
            0,
            "{server}"
        );
    }
}

// Field case A7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_swept_while_it_is_asked_for_is_granted_with_a_record() {
    let _alone = alone().await;
    let clock = ManualClock::new(start());
    let mut rig = Rig::start(SERVERS[1], |options| {
        options.clock = Clock::Manual(clock.clone());
    })
    .await;
    rig.run("DROP TRIGGER guard ON oncegate_record").await;
    let mut last = 0;
    for round in 0..300 {
        pass_by(rig.store.as_ref(), "vanishing").await;
        clock.advance(CACHE_BOUND * 2);
        let (mine, theirs) = (ask_short_lived("vanishing"), ask_short_lived("vanishing"));
        let store = rig.store.as_ref();
        let sweep = async {
            // Once to bury, once to delete.
            store.sweep(10).await.expect("a sweep");
            store.sweep(10).await.expect("a sweep");
        };
        let (one, two, ()) = tokio::join!(reserve(store, &mine), reserve(store, &theirs), sweep);
        let granted = [one, two].into_iter().filter_map(|verdict| match verdict {
            ReserveVerdict::Granted(grant) => Some(grant.fence.get()),
            ReserveVerdict::InProgress(_) => None,
            other => panic!("round {round}: {other:?}"),
        });
        let granted: Vec<_> = granted.collect();
        assert_eq!(granted.len(), 1, "round {round}");
        let stored = rig.number("SELECT fence FROM oncegate_record").await;
        assert!(
            granted == [stored] && stored > last,
            "round {round}: {granted:?} {stored} {last}"
        );
        last = stored;
        clock.advance(secs(60));
        // Whoever was granted has gone: the next round's caller recovers and completes.
    }
}

/// Copies of the one completed record, under keys of their own and with the digests of those.
const COPIES: &str = "
INSERT INTO oncegate_record
SELECT sha256('oncegate/record/v1'::bytea || '\\x00'::bytea
        || int4send(octet_length(namespace)) || convert_to(namespace, 'UTF8')
        || int4send(octet_length(environment)) || convert_to(environment, 'UTF8')
        || int4send(octet_length(account)) || convert_to(account, 'UTF8')
        || int4send(octet_length('copy-' || n)) || convert_to('copy-' || n, 'UTF8')),
    namespace, environment, account, 'copy-' || n, operation, state, generation, fence, version,
    first_reserved_at, lease_expires_at, sweep_at, detail, payload
FROM oncegate_record, generate_series(1, 19999) AS n WHERE key = 'original'";

// Field case H9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_backlog_is_swept_in_bounded_steps_beside_the_load() {
    let _alone = alone().await;
    let clock = ManualClock::new(start());
    let mut rig = Rig::start(SERVERS[0], |options| {
        options.clock = Clock::Manual(clock.clone());
    })
    .await;
    rig.run("DROP TRIGGER guard ON oncegate_record").await;
    let store = Arc::clone(&rig.store);
    let original = Reserve {
        terms: Terms {
            retention: secs(60),
            ..Terms::default()
        },
        ..ask("original")
    };
    let ReserveVerdict::Granted(grant) = reserve(store.as_ref(), &original).await else {
        panic!("not granted");
    };
    let token = Token {
        generation: grant.generation,
        fence: grant.fence,
    };
    complete(store.as_ref(), "original", token, outcome("done")).await;
    rig.run(COPIES).await;
    for n in 0..20 {
        reserve(store.as_ref(), &ask(&format!("in-flight-{n}"))).await;
    }
    let kept = |rig: &Rig| (Arc::clone(&rig.store), ask("kept"));
    let (_, unexpired) = kept(&rig);
    reserve(store.as_ref(), &unexpired).await;
    clock.advance(secs(600));

    let begun = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn({
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        async move { latencies(store.as_ref(), &stop).await }
    });
    let mut sweepers = JoinSet::new();
    for _ in 0..2 {
        let store = Arc::clone(&store);
        sweepers.spawn(async move {
            let mut total = 0;
            loop {
                let step = Instant::now();
                let Swept { buried, deleted } = store.sweep(500).await.expect("a step");
                assert!(buried <= 500 && deleted == 0, "{buried} {deleted}");
                assert!(step.elapsed() < secs(4), "a step took {:?}", step.elapsed());
                if buried == 0 {
                    return total;
                }
                total += buried;
            }
        });
    }
    let buried: u32 = sweepers.join_all().await.into_iter().sum();
    stop.store(true, Ordering::SeqCst);
    let mut latencies = load.await.expect("every call was answered");
    latencies.sort();
    let p99 = latencies[latencies.len() * 99 / 100];
    assert_eq!(buried, 20_000, "after {:?}", begun.elapsed());
    assert!(
        p99 < Duration::from_millis(500),
        "p99 of Reserve is {p99:?}"
    );
    let running = "SELECT count(*) FROM oncegate_record WHERE key LIKE 'in-flight-%' AND state = 1";
    assert_eq!(rig.number(running).await, 20);
    let payloads = "SELECT count(payload) FROM oncegate_record WHERE key LIKE 'copy-%'";
    assert_eq!(rig.number(payloads).await, 0);
}

/// Reserves new keys until it is told to stop; how long each took.
async fn latencies(store: &dyn Store, stop: &AtomicBool) -> Vec<Duration> {
    let mut latencies = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let asked = Instant::now();
        let command = Command::Reserve(Arc::new(ask(&format!("load-{}", latencies.len()))));
        store.apply(command).await.expect("the store answers");
        latencies.push(asked.elapsed());
        sleep(Duration::from_millis(2)).await;
    }
    latencies
}
