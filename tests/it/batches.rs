//! Batches in crowds: callers whose batches overlap in any order, beside the sweeper, a row that is
//! stuck and one that is bad. `ONCEGATE_TEST_LONG` makes it a million operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oncegate::domain::record::Fence;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::Store;
use oncegate::proto::v1 as pb;
use oncegate::testkit::load::{Dice, Ledger};
use oncegate::testkit::process::eventually;
use oncegate::testkit::server::{TestServer, options};
use oncegate::testkit::values::start;
use pb::batch_complete_result::Result as Done;
use pb::batch_reserve_result::Result as Item;
use pb::complete_response::Verdict as Completed;
use pb::reserve_response::Verdict;
use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{self, Gate};
use crate::rig::{Rig, SERVERS, alone, number};

/// Callers at once.
const CALLERS: usize = 6;
/// Items of one batch.
const ITEMS: usize = 200;
/// Keys that are of interest at once: fewer than a batch has items.
const KEYS: u64 = 150;
/// Operations until others are.
const TURN: usize = 4_000;

/// How many are to be answered.
fn operations() -> usize {
    std::env::var_os("ONCEGATE_TEST_LONG").map_or(20_000, |_long| 1_000_000)
}

/// What all callers share.
#[derive(Debug, Default)]
struct Crowd {
    ledger: Ledger,
    answered: AtomicUsize,
    may_end: AtomicBool,
}

impl Crowd {
    fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    fn is_done(&self) -> bool {
        self.may_end.load(Ordering::SeqCst) && self.answered() >= operations()
    }

    /// Asks for whatever is of interest, and completes what it may.
    async fn call(&self, gate: &Gate, mut dice: Dice) {
        while !self.is_done() {
            let turn = self.answered() / TURN;
            let keys = (0..ITEMS).map(|_| format!("{turn}-{}", dice.below(KEYS)));
            let keys: Vec<_> = keys.collect();
            let mut held = Vec::new();
            for (key, item) in keys.iter().zip(reserve(gate, &keys).await) {
                let Item::Response(told) = item else {
                    panic!("{key}: {item:?}")
                };
                held.extend(self.reserved(key, told).map(|token| (key, token)));
            }
            self.complete(gate, &held).await;
        }
    }

    /// What was told of a key; the token of whoever may complete it.
    fn reserved(&self, key: &str, told: pb::ReserveResponse) -> Option<String> {
        self.answered.fetch_add(1, Ordering::SeqCst);
        match told.verdict.expect("a verdict") {
            Verdict::Granted(granted) => {
                self.ledger.granted(key, Fence::new(granted.fence));
                Some(granted.token)
            }
            Verdict::Recover(recover) => Some(recover.reservation.expect("its token").token),
            Verdict::Replay(replay) => {
                let outcome = replay.outcome.expect("an outcome");
                self.ledger.outcome(key, &outcome.payload, false);
                None
            }
            Verdict::InProgress(_) | Verdict::Expired(_) => None,
            told @ (Verdict::Mismatch(_) | Verdict::Parked(_)) => panic!("{key}: {told:?}"),
        }
    }

    /// Completes each of them twice in one batch.
    async fn complete(&self, gate: &Gate, held: &[(&String, String)]) {
        let requests: Vec<_> = held
            .iter()
            .chain(held)
            .map(|(key, token)| pb::CompleteRequest {
                retention: Some(client::seconds(1)),
                ..client::completion(key, token, key)
            })
            .collect();
        if requests.is_empty() {
            return;
        }
        let keys = held.iter().chain(held).map(|(key, _)| key);
        let request = pb::BatchCompleteRequest { requests };
        let answer = gate.clone().batch_complete(request).await;
        let results = answer.expect("an answer").into_inner().results;
        assert_eq!(results.len(), held.len() * 2);
        for (key, told) in keys.zip(results) {
            self.answered.fetch_add(1, Ordering::SeqCst);
            let Some(Done::Response(told)) = told.result else {
                panic!("{key}: {told:?}")
            };
            match told.verdict() {
                Completed::Recorded | Completed::AlreadyRecorded => {
                    self.ledger.outcome(key, key.as_bytes(), true);
                }
                // Its lease was over and somebody else has completed it, long ago.
                Completed::Superseded => {}
                Completed::Divergent | Completed::Unspecified => panic!("{key}: {told:?}"),
            }
        }
    }
}

/// Asks for all of them in one batch.
async fn reserve(gate: &Gate, keys: &[String]) -> Vec<Item> {
    let requests = keys.iter().map(|key| client::ask(key)).collect();
    let request = pb::BatchReserveRequest { requests };
    let answer = gate.clone().batch_reserve(request).await;
    let results = answer.expect("an answer").into_inner().results;
    assert_eq!(results.len(), keys.len());
    let results = results.into_iter().map(|item| item.result.expect("set"));
    results.collect()
}

/// Keys with one of another name in their middle.
fn beside(name: &str) -> Vec<String> {
    let mut keys: Vec<_> = (0..ITEMS).map(|at| format!("beside {name} {at}")).collect();
    name.clone_into(&mut keys[ITEMS / 2]);
    keys
}

/// The token of what was granted.
fn token(item: Item) -> Option<String> {
    match item {
        Item::Response(told) => match told.verdict {
            Some(Verdict::Granted(granted)) => Some(granted.token),
            _ => None,
        },
        Item::Error(_) => None,
    }
}

/// A batch with one stuck row is answered once that row is free; all others of it are done before, and
/// other batches go on.
async fn only_a_stuck_row_waits(rig: &mut Rig, gate: &Gate, crowd: &Crowd) {
    let keys = beside("stuck");
    let requests = keys
        .iter()
        .zip(reserve(gate, &keys).await)
        .map(|(key, item)| {
            let token = token(item).unwrap_or_else(|| panic!("{key} is not granted"));
            client::completion(key, &token, key)
        });
    let requests = requests.collect();
    let other = PgConnection::connect(&rig.database.url()).await;
    let mut other = other.expect("a session");
    let lock = "BEGIN; SELECT FROM oncegate_record WHERE key = 'stuck' FOR UPDATE";
    other.execute(lock).await.expect("locked");
    let batch = tokio::spawn({
        let (mut gate, request) = (gate.clone(), pb::BatchCompleteRequest { requests });
        async move { gate.batch_complete(request).await }
    });
    let done = "SELECT count(*) FROM oncegate_record WHERE key LIKE 'beside stuck %' AND state = 4";
    let all_others = i64::try_from(ITEMS - 1).expect("few");
    while rig.number(done).await < all_others {
        assert!(!batch.is_finished(), "the row is not stuck");
        sleep(Duration::from_millis(20)).await;
    }
    let before = crowd.answered();
    eventually("others go on", || crowd.answered() > before + 4 * ITEMS).await;
    assert!(!batch.is_finished(), "the row is not stuck");
    other.execute("COMMIT").await.expect("free");
    let answer = batch.await.expect("the task ends").expect("an answer");
    for told in answer.into_inner().results {
        let recorded = matches!(&told.result, Some(Done::Response(told))
            if told.verdict() == Completed::Recorded);
        assert!(recorded, "{told:?}");
    }
}

const BAD: &str = "
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'as_if'; END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON oncegate_record FOR EACH ROW
    WHEN (NEW.key = 'bad') EXECUTE FUNCTION refuse()";

async fn only_a_bad_row_fails(gate: &Gate) {
    for (at, item) in reserve(gate, &beside("bad")).await.into_iter().enumerate() {
        match &item {
            Item::Error(error) => assert_eq!((at, &*error.reason), (ITEMS / 2, "CORRUPT")),
            Item::Response(_) => assert!(at != ITEMS / 2 && token(item).is_some(), "{at}"),
        }
    }
}

/// A server whose sweeper has work all the time, for its clock runs ahead.
async fn served(rig: &Rig, clock: ManualClock) -> (TestServer, JoinSet<()>) {
    let mut options = options();
    options.sweep.every = Duration::from_millis(10);
    let server = TestServer::with(Arc::clone(&rig.store) as Arc<dyn Store>, options).await;
    let mut running = JoinSet::new();
    running.spawn(async move {
        loop {
            sleep(Duration::from_millis(20)).await;
            clock.advance(Duration::from_millis(500));
        }
    });
    (server, running)
}

// Field case A8. Field case H5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_overlap_are_all_answered_beside_the_sweeper_and_never_deadlock() {
    let _alone = alone().await;
    let mut dice = Dice::cast();
    for variable in SERVERS {
        let clock = ManualClock::new(start());
        let mut rig = Rig::start(variable, |options| {
            options.clock = Clock::Manual(clock.clone());
        })
        .await;
        rig.run(BAD).await;
        let (server, running) = served(&rig, clock).await;
        let crowd = Arc::new(Crowd::default());
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (gate, crowd, dice) = (server.gate(), Arc::clone(&crowd), dice.split());
            callers.spawn(async move { crowd.call(&gate, dice).await });
        }
        let gate = server.gate();
        only_a_stuck_row_waits(&mut rig, &gate, &crowd).await;
        only_a_bad_row_fails(&gate).await;
        crowd.may_end.store(true, Ordering::SeqCst);
        while let Some(ended) = callers.join_next().await {
            ended.expect("every item is answered as it must be");
        }
        assert!(crowd.ledger.acknowledged() > operations() / 100);
        let swept = rig
            .number("SELECT count(*) FROM oncegate_record WHERE state = 6")
            .await;
        assert!(swept > 100, "{variable}: only {swept} were swept");

        drop(running);
        server.drain().await;
        // Sessions report what they counted when they end.
        eventually("nobody else holds it", || {
            Arc::strong_count(&rig.store) == 1
        })
        .await;
        let store = Arc::into_inner(rig.store).expect("nobody else holds it");
        store.close().await;
        let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        assert_eq!(number(&mut rig.sql, deadlocks).await, 0, "{variable}");
    }
}
