//! Calls that wait on another replica than the one where their key changes: how soon they hear of it,
//! and how few of them go and ask when a lease ends under all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oncegate::domain::command::{Command, ReserveVerdict};
use oncegate::domain::token::Token;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::{Applied, Store, StoreError};
use oncegate::proto::v1 as pb;
use oncegate::service::gate::{Gate, GateOptions};
use oncegate::service::reserve::ReserveCall;
use oncegate::store::front::Front;
use oncegate::store::postgres::migrate;
use oncegate::telemetry::metrics::Metrics;
use oncegate::testkit::databases::TempSchema;
use oncegate::testkit::load::{Dice, complete, granted};
use oncegate::testkit::net::http_get;
use oncegate::testkit::process::{Server, eventually};
use oncegate::testkit::redis::TempRedis;
use oncegate::testkit::values::{LEASE, outcome, secs, start};
use pb::reserve_response::Verdict;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::client;
use crate::rig::{Rig, SERVERS, alone};
use crate::waiters::{call, waiting_call};

/// Keys that are waited for on one server and completed on the other one.
const KEYS: usize = 40;
/// Calls that wait on each replica for one key.
const WAITERS: usize = 100;
/// How long servers may take to be as they should.
const WITHIN: Duration = Duration::from_secs(30);

/// Waits until a server's metrics show this line.
async fn shows(server: &Server, line: &str) {
    let limit = Instant::now() + WITHIN;
    let line = format!("{line}\n");
    loop {
        let shown = http_get(server.http_address(), "/metrics").await;
        if shown.is_ok_and(|(_, text)| text.contains(&line)) {
            return;
        }
        assert!(Instant::now() < limit, "it does not show {line}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// How long after each completion on one server its waiter on the other one had its answer.
async fn delays([here, there]: &[Server; 2], dice: &mut Dice) -> Vec<Duration> {
    let (mut waiters, mut tokens) = (JoinSet::new(), Vec::new());
    let (waiting, completing) = (client::gate(here), client::gate(there));
    for at in 0..KEYS {
        let key = format!("k{at}");
        let told = client::reserve(&completing, &client::ask(&key)).await;
        let told = told.expect("an answer").into_inner().verdict;
        let Some(Verdict::Granted(granted)) = told else {
            panic!("{told:?}")
        };
        tokens.push((key.clone(), granted.token));
        let waiting = waiting.clone();
        waiters.spawn(async move {
            let told = client::reserve(&waiting, &client::ask_and_wait(&key)).await;
            let told = told.expect("an answer").into_inner().verdict;
            assert!(matches!(told, Some(Verdict::Replay(_))), "{key}: {told:?}");
            (key, Instant::now())
        });
    }
    shows(here, &format!("oncegate_waiting_calls {KEYS}")).await;
    let mut completed = Vec::new();
    for (key, token) in tokens {
        // At any moment between two looks of the other server.
        sleep(dice.span(Duration::from_millis(120))).await;
        let done = client::completion(&key, &token, "done");
        client::complete(&completing, &done)
            .await
            .expect("an answer");
        completed.push((key, Instant::now()));
    }
    let told = waiters.join_all().await;
    let when = |key: &String| {
        told.iter()
            .find(|(known, _)| known == key)
            .map(|told| told.1)
    };
    let delays = completed
        .iter()
        .filter_map(|(key, completed)| Some(when(key)?.saturating_duration_since(*completed)));
    let mut delays: Vec<_> = delays.collect();
    delays.sort();
    delays
}

async fn two_servers(schema: &TempSchema, redis: &str) -> [Server; 2] {
    let settings = [
        ("ONCEGATE_DATABASE_URL", &*schema.url()),
        ("ONCEGATE_NAMESPACES_AUTO_CREATE", "true"),
        ("ONCEGATE_REDIS_URL", redis),
    ];
    let servers = [
        Server::start_with(client::program(), &settings).await,
        Server::start_with(client::program(), &settings).await,
    ];
    for server in &servers {
        if !redis.is_empty() {
            shows(server, "oncegate_redis_up 1").await;
        }
    }
    servers
}

// Field case H3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_on_one_server_wakes_the_waiter_of_every_key_on_the_other() {
    let _alone = alone().await;
    let mut dice = Dice::cast();
    let redis = TempRedis::start().await;
    for variable in SERVERS {
        let mut medians = Vec::new();
        for (redis, soon) in [(&*redis.url(), 500), ("", 1_500)] {
            let schema = TempSchema::create(variable).await;
            migrate(&schema.url()).await.expect("the schema is made");
            let servers = two_servers(&schema, redis).await;
            let delays = delays(&servers, &mut dice).await;
            let last = delays.last().copied().unwrap_or(WITHIN);
            assert_eq!(delays.len(), KEYS);
            assert!(last < Duration::from_millis(soon), "{redis}: {delays:?}");
            medians.push(delays[KEYS / 2]);
        }
        assert!(medians[0] < medians[1], "Redis wakes nobody: {medians:?}");
    }
}

/// Counts the Reserves that come to a store once a lease is out. The first of each replica meets the
/// other replica's: both have seen that it is out.
#[derive(Debug)]
struct Counting {
    store: Arc<dyn Store>,
    reserves: AtomicUsize,
    is_out: AtomicBool,
    meeting: Arc<Barrier>,
}

#[async_trait]
impl Front for Counting {
    fn behind(&self) -> &dyn Store {
        self.store.as_ref()
    }

    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        let counts = matches!(command, Command::Reserve(_)) && self.is_out.load(Ordering::SeqCst);
        if counts && self.reserves.fetch_add(1, Ordering::SeqCst) == 0 {
            self.meeting.wait().await;
        }
        self.store.carry_out(command).await
    }
}

/// One of the replicas: its gate, and what it asks its store.
struct Replica {
    gate: Gate,
    store: Arc<Counting>,
    _polling: JoinSet<()>,
}

impl Replica {
    fn on(store: Arc<dyn Store>, meeting: &Arc<Barrier>) -> Self {
        let store = Arc::new(Counting {
            store,
            reserves: AtomicUsize::new(0),
            is_out: AtomicBool::new(false),
            meeting: Arc::clone(meeting),
        });
        let metrics = Arc::new(Metrics::new().expect("the metrics' names are usable"));
        let options = GateOptions {
            namespaces_auto_create: true,
            waiters_max: 10_000,
        };
        let gate = Gate::new(Arc::clone(&store) as Arc<dyn Store>, metrics, options);
        let mut polling = JoinSet::new();
        let polled = gate.clone();
        polling.spawn(async move { polled.run_waiters().await });
        Self {
            gate,
            store,
            _polling: polling,
        }
    }

    /// Has so many calls wait for the key.
    async fn has_waiting(&self, waiters: &mut JoinSet<ReserveVerdict>) {
        for _ in 0..WAITERS {
            let gate = self.gate.clone();
            let asked = ReserveCall {
                can_recover: true,
                ..waiting_call("k", secs(25))
            };
            waiters.spawn(async move {
                let answer = gate.reserve(&call(), asked, None).await;
                answer.expect("a waiter is answered").reserved.verdict
            });
        }
        eventually("all of them wait", || self.gate.waiting() == WAITERS).await;
        self.store.is_out.store(true, Ordering::SeqCst);
    }
}

// Field case H3. Field case A4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_end_of_a_lease_each_replica_asks_once_and_one_caller_recovers() {
    let _alone = alone().await;
    for server in SERVERS {
        let clock = ManualClock::new(start());
        let rig = Rig::start(server, |options| {
            options.clock = Clock::Manual(clock.clone());
        })
        .await;
        let meeting = Arc::new(Barrier::new(2));
        let stores = [Arc::clone(&rig.store), rig.another_store()];
        let replicas = stores.map(|store| Replica::on(store, &meeting));
        granted(rig.store.as_ref(), "k").await;
        let mut waiters = JoinSet::new();
        for replica in &replicas {
            replica.has_waiting(&mut waiters).await;
        }
        clock.advance(LEASE);
        let first = timeout(WITHIN, waiters.join_next())
            .await
            .expect("somebody takes over");
        let first = first.expect("a waiter").expect("the task ends");
        let ReserveVerdict::Recover(recover) = first else {
            panic!("{server}: {first:?}")
        };
        let token = Token {
            generation: recover.grant.generation,
            fence: recover.grant.fence,
        };
        complete(rig.store.as_ref(), "k", token, outcome("done")).await;
        for told in waiters.join_all().await {
            assert!(
                matches!(told, ReserveVerdict::Replay(_)),
                "{server}: {told:?}"
            );
        }
        let asked = replicas
            .each_ref()
            .map(|replica| replica.store.reserves.load(Ordering::SeqCst));
        assert_eq!(asked, [1, 1], "{server}");
    }
}
