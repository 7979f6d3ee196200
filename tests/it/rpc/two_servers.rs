//! Two servers on one database: a call that waits on one of them is answered soon after its key was
//! changed through the other one, which cannot wake it.

use std::collections::BTreeMap;

use oncegate::domain::limits::CACHE_BOUND;
use oncegate::store::postgres::{PostgresOptions, PostgresStore, migrate};
use oncegate::testkit::databases::TempSchema;
use oncegate::testkit::values::start;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::waiting::until_waiting;
use super::*;
use crate::client::ask_and_wait;
use crate::rig::{SERVERS, alone};

/// The most that a wake-up that was lost may cost, and the answer's way.
const SOON: Duration = Duration::from_millis(1500);
const KEYS: [&str; 4] = ["completed", "released", "parked", "reopened"];

async fn server(schema: &TempSchema, clock: &ManualClock) -> TestServer {
    let options = PostgresOptions {
        clock: Clock::Manual(clock.clone()),
        connections: 2,
        ..PostgresOptions::new(schema.url())
    };
    let store = PostgresStore::connect(&options).expect("the URL is readable");
    TestServer::start(Arc::new(store)).await
}

/// Completes a key and expires it, so that it opens again once the cache bound has passed.
async fn expire_for_a_rerun(server: &TestServer, name: &str, token: &str) {
    let done = complete(name, token, "first");
    answer(server.gate().complete(done).await);
    let request = pb::LookupRequest {
        key: Some(key(name)),
        without_payload: true,
    };
    let record = answer(server.gate().lookup(request).await).record;
    let request = pb::ExpireRequest {
        key: Some(key(name)),
        reason: "it must run again".to_owned(),
        allow_rerun: true,
        etag: record.expect("a record").etag,
    };
    answer(server.gate().expire(request).await);
}

/// What a waiting call is told, and when.
type Waiter = JoinHandle<(Verdict, Instant)>;

fn wait_for(server: &TestServer, name: &str) -> Waiter {
    let (mut gate, request) = (server.gate(), ask_and_wait(name));
    tokio::spawn(async move { (verdict(gate.reserve(request).await), Instant::now()) })
}

/// What it is told if it is told soon enough after now.
async fn told_soon(waiter: Waiter) -> Verdict {
    let changed = Instant::now();
    let (told, at) = waiter.await.expect("no panic");
    let late = at.saturating_duration_since(changed);
    assert!(late <= SOON, "only after {late:?}: {told:?}");
    told
}

// Field case H3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_on_another_server_is_answered_soon() {
    let _alone = alone().await;
    for variable in SERVERS {
        let schema = TempSchema::create(variable).await;
        migrate(&schema.url()).await.expect("the schema is made");
        let clock = ManualClock::new(start());
        let here = server(&schema, &clock).await;
        let there = server(&schema, &clock).await;
        let (mut tokens, mut waiters) = (BTreeMap::new(), BTreeMap::new());
        for name in KEYS {
            let grant = granted(verdict(there.gate().reserve(reserve(name)).await));
            tokens.insert(name, grant.token);
        }
        expire_for_a_rerun(&there, "reopened", &tokens["reopened"]).await;
        for name in KEYS {
            waiters.insert(name, wait_for(&here, name));
        }
        until_waiting(&here, KEYS.len()).await;
        let mut waiter = |name| waiters.remove(name).expect("it waits");
        let held = |name| (Some(key(name)), tokens[name].clone());

        let done = complete("completed", &tokens["completed"], "done");
        answer(there.gate().complete(done).await);
        let told = told_soon(waiter("completed")).await;
        let Verdict::Replay(replay) = told else {
            panic!("{told:?}")
        };
        assert_eq!(replay.outcome.expect("whole").payload, b"done");

        let ((key, token), reason) = (held("released"), String::new());
        let release = pb::ReleaseRequest { key, token, reason };
        assert!(answer(there.gate().release(release).await).released);
        granted(told_soon(waiter("released")).await);

        let ((key, token), note) = (held("parked"), String::new());
        let park = pb::ParkRequest { key, token, note };
        assert!(answer(there.gate().park(park).await).parked);
        let told = told_soon(waiter("parked")).await;
        assert!(matches!(told, Verdict::Parked(_)), "{told:?}");

        clock.advance(CACHE_BOUND);
        let again = granted(told_soon(waiter("reopened")).await);
        assert!(again.fence > 0 && again.token != tokens["reopened"]);
    }
}
