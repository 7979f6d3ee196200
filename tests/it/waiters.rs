//! A crowd that waits for one key on Postgres: it holds no connection, keeps nobody from their work,
//! and is answered at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oncegate::domain::caller::Caller;
use oncegate::domain::command::{Command, CompleteVerdict, ReserveVerdict};
use oncegate::domain::key::RecordKey;
use oncegate::port::store::{Applied, Reading, Store, StoreError};
use oncegate::service::gate::{Call, Gate, GateOptions};
use oncegate::service::holder::Held;
use oncegate::service::reserve::ReserveCall;
use oncegate::store::front::Front;
use oncegate::store::postgres::PostgresStore;
use oncegate::telemetry::metrics::Metrics;
use oncegate::testkit::load::{Ledger, ask, work};
use oncegate::testkit::process::eventually;
use oncegate::testkit::values::{key_of, outcome, secs};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rig::{Rig, SERVERS, alone};

/// Callers that wait on one key.
const WAITERS: usize = 1_000;
/// Connections that they and the few others may use at once: a query for all of them, a Complete.
const USED_MAX: usize = 4;

fn gate(store: &Arc<Counted>) -> Gate {
    let metrics = Arc::new(Metrics::new().expect("the metrics' names are usable"));
    let options = GateOptions {
        namespaces_auto_create: true,
        waiters_max: 10_000,
    };
    Gate::new(Arc::clone(store) as Arc<dyn Store>, metrics, options)
}

pub(crate) fn call() -> Call {
    let deadline = Instant::now() + secs(60);
    Call {
        caller: Arc::new(Caller::anyone()),
        deadline,
        trace_id: String::new(),
    }
}

pub(crate) fn waiting_call(key: &str, wait: Duration) -> ReserveCall {
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

/// Counts the calls that are under way in a store: each of them has a connection or waits for one.
#[derive(Debug)]
struct Counted {
    store: Arc<PostgresStore>,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl Counted {
    fn new(store: Arc<PostgresStore>) -> Arc<Self> {
        Arc::new(Self {
            store,
            under_way: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    async fn count<T>(&self, call: impl Future<Output = T>) -> T {
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(under_way, Ordering::SeqCst);
        let answer = call.await;
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    /// The most at once since this was asked before.
    fn most(&self) -> usize {
        self.most.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl Front for Counted {
    fn behind(&self) -> &dyn Store {
        self.store.as_ref()
    }

    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        self.count(self.behind().carry_out(command)).await
    }

    async fn on_read(&self, keys: Vec<RecordKey>) -> Result<Reading, StoreError> {
        self.count(self.behind().read(keys)).await
    }
}

// Field case H3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_hold_no_connection_and_are_answered_within_a_second() {
    let _alone = alone().await;
    for server in SERVERS {
        // With a pool larger than what they may take of it.
        let rig = Rig::start(server, |own| own.connections = 8).await;
        let store = Counted::new(Arc::clone(&rig.store));
        let gate = gate(&store);
        let polling = tokio::spawn({
            let gate = gate.clone();
            async move { gate.run_waiters().await }
        });
        let first = gate
            .reserve(&call(), waiting_call("awaited", Duration::ZERO), None)
            .await;
        let token = first.expect("the first call is answered").token;
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let gate = gate.clone();
            waiters.spawn(async move {
                let answer = gate
                    .reserve(&call(), waiting_call("awaited", secs(25)), None)
                    .await;
                let verdict = answer.expect("a waiter is answered").reserved.verdict;
                (verdict, Instant::now())
            });
        }
        eventually("all of them wait", || gate.waiting() == WAITERS).await;
        // Coming, they asked all at once; waiting, they do not.
        assert!(store.most() > USED_MAX, "{server}: nothing is counted");
        // Other keys go on while all of them wait.
        let begun = Instant::now();
        let ledger = Ledger::default();
        let mut others = 0;
        while begun.elapsed() < secs(3) {
            assert!(work(store.as_ref(), &ledger, &format!("other-{others}")).await);
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
        let answers = waiters.join_all().await;
        let most = store.most();
        assert!((1..=USED_MAX).contains(&most), "{server}: {most} at once");
        for (verdict, at) in answers {
            let ReserveVerdict::Replay(replay) = verdict else {
                panic!("{server}: {verdict:?}")
            };
            assert_eq!(replay.outcome, outcome("done"), "{server}");
            let late = at.saturating_duration_since(completed);
            assert!(late < secs(1), "{server}: answered after {late:?}");
        }
        polling.abort();
    }
}
