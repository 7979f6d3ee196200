//! More calls than a server takes: who is refused, who waits, and whoever is never held up.

use oncegate::transport::server::ServerOptions;
use pb::gate_service_client::GateServiceClient;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::faulty::{Fault, Faulty};
use super::waiting::until_waiting;
use super::*;
use crate::client::ask_and_wait;
use oncegate::testkit::server::options;

/// Far below the half minute that the calls of these tests would wait.
const AT_ONCE: Duration = Duration::from_secs(15);

async fn server(store: &Arc<Faulty>, tune: impl FnOnce(&mut ServerOptions)) -> TestServer {
    let mut options = options();
    tune(&mut options);
    TestServer::with(Arc::clone(store) as Arc<dyn Store>, options).await
}

/// Waits until that many calls have reached the store and are held there.
async fn came(store: &Faulty, calls: u32) {
    let came = timeout(AT_ONCE, store.came.acquire_many(calls)).await;
    came.expect("they come through").expect("open").forget();
}

fn one_reserve(name: &str) -> pb::BatchReserveRequest {
    pb::BatchReserveRequest {
        requests: vec![reserve(name)],
    }
}

/// Whatever a holder can report, each of a key of its own.
fn reports(server: &TestServer, tokens: &[String]) -> JoinSet<Result<(), Status>> {
    let mut calls = JoinSet::new();
    let held = |at: usize| (Some(key(&format!("held-{at}"))), tokens[at].clone());
    let gate = server.gate();
    macro_rules! call {
        ($method:ident, $request:expr) => {
            let (mut gate, request) = (gate.clone(), $request);
            calls.spawn(async move { gate.$method(request).await.map(drop) });
        };
    }
    call!(complete, complete("held-0", &tokens[0], "done"));
    call!(
        batch_complete,
        pb::BatchCompleteRequest {
            requests: vec![complete("held-1", &tokens[1], "done")],
        }
    );
    let (key, token) = held(2);
    call!(
        renew,
        pb::RenewRequest {
            key,
            token,
            ..Default::default()
        }
    );
    let (key, token) = held(3);
    call!(
        release,
        pb::ReleaseRequest {
            key,
            token,
            ..Default::default()
        }
    );
    let (key, token) = held(4);
    call!(
        park,
        pb::ParkRequest {
            key,
            token,
            ..Default::default()
        }
    );
    let (key, token) = held(5);
    call!(
        reexecute,
        pb::ReexecuteRequest {
            key,
            token,
            request_id: reserve("x").request_id,
            ..Default::default()
        }
    );
    calls
}

#[tokio::test]
async fn new_work_is_refused_while_too_many_calls_are_at_work_and_reports_never_are() {
    let store = Faulty::new();
    let server = server(&store, |options| options.routes.calls_max = 3).await;
    let mut tokens = Vec::new();
    for at in 0..6 {
        let granted = granted(verdict(
            server.gate().reserve(reserve(&format!("held-{at}"))).await,
        ));
        tokens.push(granted.token);
    }
    store.set(Fault::Hold);
    let mut held = JoinSet::new();
    for at in 0..3 {
        let mut gate = server.gate();
        held.spawn(async move { gate.reserve(reserve(&format!("new-{at}"))).await.map(drop) });
    }
    came(&store, 3).await;
    let mut gate = server.gate();
    let look_up = pb::LookupRequest {
        key: Some(key("held-0")),
        ..Default::default()
    };
    let policy = pb::GetPolicyRequest {
        namespace: "terminal".to_owned(),
        environment: "live".to_owned(),
    };
    for told in [
        refusal(gate.reserve(reserve("k")).await),
        refusal(gate.batch_reserve(one_reserve("k")).await),
        refusal(gate.lookup(look_up).await),
        refusal(gate.get_policy(policy).await),
    ] {
        let (code, reason) = (told.code, told.reason.as_str());
        assert_eq!((code, reason), (Code::ResourceExhausted, "OVERLOADED"));
        assert_eq!(told.retry_after, Some(Duration::from_secs(1)));
    }
    let mut health = HealthClient::new(server.channel());
    let alive = health.check(HealthCheckRequest::default()).await;
    alive.expect("health is free");
    let reported = reports(&server, &tokens);
    came(&store, 6).await;
    let metrics = server.get("/metrics").await.1;
    for method in ["Reserve", "BatchReserve", "Lookup", "GetPolicy"] {
        let line =
            format!("oncegate_shed_calls_total{{method=\"oncegate.v1.GateService/{method}\"}} 1\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }

    store.set(Fault::None);
    store.go_on.add_permits(9);
    for told in [held.join_all().await, reported.join_all().await].concat() {
        told.expect("an answer");
    }
    granted(verdict(gate.reserve(reserve("k")).await));
}

#[tokio::test]
async fn calls_that_wait_are_not_at_work() {
    let store = Faulty::new();
    let server = server(&store, |options| options.routes.calls_max = 1).await;
    let token = granted(verdict(server.gate().reserve(reserve("k")).await)).token;
    let mut waiters = JoinSet::new();
    for before in 0..3 {
        until_waiting(&server, before).await;
        let mut gate = server.gate();
        waiters.spawn(async move { verdict(gate.reserve(ask_and_wait("k")).await) });
    }
    until_waiting(&server, 3).await;
    granted(verdict(server.gate().reserve(reserve("another")).await));
    answer(server.gate().complete(complete("k", &token, "done")).await);
    for told in waiters.join_all().await {
        assert!(matches!(told, Verdict::Replay(_)), "{told:?}");
    }
}

// Field case H3.
#[tokio::test]
async fn half_of_a_connections_calls_may_wait_and_a_complete_on_it_comes_through() {
    let store = Faulty::new();
    let server = server(&store, |options| options.connections.streams_max = 10).await;
    let here = GateServiceClient::new(server.new_channel());
    let token = granted(verdict(here.clone().reserve(reserve("k")).await)).token;
    let mut waiters = JoinSet::new();
    let mut wait_on = |gate: &GateServiceClient<_>| {
        let mut gate = gate.clone();
        waiters.spawn(async move { verdict(gate.reserve(ask_and_wait("k")).await) });
    };
    (0..5).for_each(|_| wait_on(&here));
    until_waiting(&server, 5).await;
    for _ in 0..3 {
        let sixth = timeout(AT_ONCE, here.clone().reserve(ask_and_wait("k"))).await;
        let told = verdict(sixth.expect("it does not wait"));
        assert!(matches!(told, Verdict::InProgress(_)), "{told:?}");
    }
    // Another connection has places of its own.
    wait_on(&server.gate());
    until_waiting(&server, 6).await;
    let mut holder = here.clone();
    let done = holder.complete(complete("k", &token, "done"));
    let done = timeout(AT_ONCE, done).await.expect("it finds its place");
    assert!(answer(done).outcome_used);
    for told in waiters.join_all().await {
        assert!(matches!(told, Verdict::Replay(_)), "{told:?}");
    }
}

#[tokio::test]
async fn calls_above_the_limit_of_a_connection_come_once_another_has_ended() {
    let store = Faulty::new();
    let server = server(&store, |options| options.connections.streams_max = 2).await;
    let crowded = GateServiceClient::new(server.new_channel());
    // The client has heard of the limit.
    answer(crowded.clone().reserve(reserve("k")).await);
    store.set(Fault::Hold);
    let mut calls = JoinSet::new();
    for at in 0..3 {
        let mut gate = crowded.clone();
        calls.spawn(async move { gate.reserve(reserve(&format!("k-{at}"))).await.map(drop) });
    }
    came(&store, 2).await;
    let third = timeout(Duration::from_millis(300), store.came.acquire()).await;
    assert!(third.is_err(), "three at once");
    store.go_on.add_permits(1);
    came(&store, 1).await;
    store.go_on.add_permits(2);
    for told in calls.join_all().await {
        told.expect("an answer");
    }
}
