//! A crowd that waits for one key on Postgres: it holds no connection, keeps nobody from their work,
//! and is answered at once.

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::caller::Caller;
use oncegate::domain::command::{CompleteVerdict, ReserveVerdict};
use oncegate::port::store::Store;
use oncegate::service::gate::{Call, Gate, GateOptions};
use oncegate::service::holder::Held;
use oncegate::service::reserve::ReserveCall;
use oncegate::telemetry::metrics::Metrics;
use oncegate::testkit::load::{Ledger, ask, work};
use oncegate::testkit::process::eventually;
use oncegate::testkit::values::{key_of, outcome, secs};
use sqlx::{Connection, PgConnection};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, SERVERS, alone, sessions};

/// Callers that wait on one key.
const WAITERS: usize = 1_000;
/// Sessions that may be at work at once, for all of them and the few others.
const BUSY_MAX: i64 = 4;

fn gate(rig: &Rig) -> Gate {
    let metrics = Arc::new(Metrics::new().expect("the metrics' names are usable"));
    let options = GateOptions {
        namespaces_auto_create: true,
        waiters_max: 10_000,
    };
    Gate::new(Arc::clone(&rig.store) as Arc<dyn Store>, metrics, options)
}

fn call() -> Call {
    let deadline = Instant::now() + secs(60);
    Call {
        caller: Caller::anyone(),
        deadline,
        trace_id: String::new(),
    }
}

fn waiting_call(key: &str, wait: Duration) -> ReserveCall {
    let asked = ask(key);
    ReserveCall {
        key: asked.key,
        operation: asked.operation,
        fingerprint: None,
        request_id: Some(asked.request_id),
        lease: None,
        wait,
        holder: String::new(),
        attributes: asked.attributes,
        can_recover: false,
        effect_class: None,
    }
}

/// The most sessions of the store that were at work at once, and how often it was looked.
struct Busy {
    stop: watch::Sender<bool>,
    watching: JoinHandle<(i64, u32)>,
}

impl Busy {
    /// Looks again and again, past the store and its proxy.
    async fn watch(rig: &Rig) -> Self {
        let sql = PgConnection::connect(&rig.database.url()).await;
        let mut sql = sql.expect("the server answers");
        let (stop, stopped) = watch::channel(false);
        let watching = tokio::spawn(async move {
            let (mut most, mut looks) = (0, 0);
            while !*stopped.borrow() {
                most = most.max(sessions(&mut sql, "state <> 'idle'").await);
                looks += 1;
                sleep(Duration::from_millis(2)).await;
            }
            (most, looks)
        });
        Self { stop, watching }
    }

    async fn most(self) -> (i64, u32) {
        self.stop.send_replace(true);
        self.watching.await.expect("it looked")
    }
}

// Field case H3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_hold_no_connection_and_are_answered_within_a_second() {
    let _alone = alone().await;
    for server in SERVERS {
        // With the default pool, which is larger than what they may take of it.
        let rig = Rig::start(server, |own| assert!(i64::from(own.connections) > BUSY_MAX)).await;
        let gate = gate(&rig);
        let polling = tokio::spawn({
            let gate = gate.clone();
            async move { gate.run_waiters().await }
        });
        let first = gate
            .reserve(&call(), waiting_call("awaited", Duration::ZERO))
            .await;
        let token = first.expect("the first call is answered").token;
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let gate = gate.clone();
            waiters.spawn(async move {
                let answer = gate
                    .reserve(&call(), waiting_call("awaited", secs(25)))
                    .await;
                let verdict = answer.expect("a waiter is answered").reserved.verdict;
                (verdict, Instant::now())
            });
        }
        eventually("all of them wait", || gate.waiting() == WAITERS).await;
        let busy = Busy::watch(&rig).await;
        // Other keys go on while all of them wait.
        let begun = Instant::now();
        let ledger = Ledger::default();
        let mut others = 0;
        while begun.elapsed() < secs(3) {
            assert!(work(rig.store.as_ref(), &ledger, &format!("other-{others}")).await);
            others += 1;
        }
        assert_eq!(gate.waiting(), WAITERS, "{server}: nobody gave up");
        assert!(others >= 10, "{server}: only {others} others in 3 s");

        let (key, caller) = (key_of("awaited"), call());
        let asked = Instant::now();
        let done = gate.complete(&caller, Held { key, token }, outcome("done"), None);
        let done = done.await.expect("completed");
        assert_eq!(done.verdict, CompleteVerdict::Recorded);
        let completed = Instant::now();
        let took = completed - asked;
        assert!(took < secs(1), "{server}: Complete took {took:?}");
        for (verdict, at) in waiters.join_all().await {
            let ReserveVerdict::Replay(replay) = verdict else {
                panic!("{server}: {verdict:?}")
            };
            assert_eq!(replay.outcome, outcome("done"), "{server}");
            let late = at.saturating_duration_since(completed);
            assert!(late < secs(1), "{server}: answered after {late:?}");
        }
        let (most, looks) = busy.most().await;
        assert!(looks > 100, "{server}: {looks} looks");
        assert!((1..=BUSY_MAX).contains(&most), "{server}: {most} at once");
        polling.abort();
    }
}
