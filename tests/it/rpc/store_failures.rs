//! What a failing store looks like from outside: its own words never leave the server.

use std::sync::Arc;

use oncegate::port::store::StoreError;
use oncegate::telemetry::metrics::Metrics;
use oncegate::testkit::server::TestServer;
use oncegate::transport::readiness::{Readiness, State};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::faulty::{Fault, Faulty};
use super::*;

const SECRET: &str = "Key (k)=(customer-4711) already exists";

#[tokio::test]
async fn each_failure_has_its_code_reason_and_retry_and_no_text_of_the_store() {
    let store = Faulty::new();
    let server = TestServer::start(Arc::clone(&store) as Arc<dyn Store>).await;
    server
        .gate()
        .reserve(reserve("warm"))
        .await
        .expect("a grant");
    let secret = || SECRET.to_owned();
    for (error, code, reason, retry) in [
        (
            StoreError::Unavailable(secret()),
            Code::Unavailable,
            "STORE_UNAVAILABLE",
            true,
        ),
        (
            StoreError::Unusable(secret()),
            Code::Unavailable,
            "STORE_UNAVAILABLE",
            true,
        ),
        (
            StoreError::OutcomeUnknown(secret()),
            Code::Unavailable,
            "OUTCOME_UNKNOWN",
            true,
        ),
        (
            StoreError::Corrupt(secret()),
            Code::DataLoss,
            "CORRUPT",
            false,
        ),
    ] {
        store.set(Fault::Fail(error));
        let told = refusal(server.gate().reserve(reserve("k")).await);
        assert_eq!((told.code, told.reason.as_str()), (code, reason));
        assert_eq!(told.retry_after.is_some(), retry, "{reason}");
        assert!(!format!("{told:?}").contains("4711"), "{told:?}");
    }
}

#[tokio::test]
async fn a_panic_is_internal_without_a_text_and_the_server_goes_on() {
    let store = Faulty::new();
    let server = TestServer::start(Arc::clone(&store) as Arc<dyn Store>).await;
    let token = granted(verdict(server.gate().reserve(reserve("k")).await)).token;
    store.set(Fault::Panic);
    let in_call = server
        .gate()
        .reserve(reserve("k"))
        .await
        .expect_err("it panics");
    let in_task = server.gate().complete(complete("k", &token, b"x")).await;
    for status in [in_call, in_task.expect_err("it panics")] {
        assert_eq!((status.code(), status.message()), (Code::Internal, ""));
    }
    store.set(Fault::None);
    let done = answer(server.gate().complete(complete("k", &token, b"x")).await);
    assert!(done.outcome_used);
}

#[tokio::test]
async fn a_caller_that_hangs_up_after_complete_loses_nothing() {
    let store = Faulty::new();
    let server = TestServer::start(Arc::clone(&store) as Arc<dyn Store>).await;
    let token = granted(verdict(server.gate().reserve(reserve("k")).await)).token;
    store.set(Fault::Hold);
    let connection = server.new_channel();
    let mut hasty = pb::gate_service_client::GateServiceClient::new(connection.clone());
    let call = tokio::spawn(async move { hasty.complete(complete("k", &token, b"x")).await });
    store
        .came
        .acquire()
        .await
        .expect("it is under way")
        .forget();
    call.abort();
    assert!(call.await.expect_err("aborted").is_cancelled());
    // What comes later on the same connection is answered after the server has seen the end of the
    // call.
    let mut later = HealthClient::new(connection);
    for _ in 0..20 {
        later
            .check(HealthCheckRequest::default())
            .await
            .expect("an answer");
    }
    store.set(Fault::None);
    store.go_on.add_permits(1);
    tokio::time::timeout(Duration::from_secs(5), async {
        loop {
            let found = server.gate().reserve(reserve("k")).await;
            if matches!(verdict(found), pb::reserve_response::Verdict::Replay(_)) {
                return;
            }
        }
    })
    .await
    .expect("the outcome is there");
}

#[tokio::test]
async fn health_and_readiness_follow_the_store_and_liveness_does_not() {
    let store = Faulty::new();
    let server = TestServer::start(Arc::clone(&store) as Arc<dyn Store>).await;
    server.ready().await;
    let mut health = HealthClient::new(server.channel());
    let named = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    let watched = health.watch(named("oncegate.v1.GateService")).await;
    let mut watched = watched.expect("a watch").into_inner();
    let mut next = async || {
        let next = tokio::time::timeout(Duration::from_secs(5), watched.message()).await;
        next.expect("within seconds")
            .expect("no error")
            .expect("goes on")
            .status
    };
    let (serving, not_serving) = (
        ServingStatus::Serving as i32,
        ServingStatus::NotServing as i32,
    );
    assert_eq!(next().await, serving);
    let (code, body) = server.get("/readyz").await;
    assert_eq!((code, body.contains("\"ready\"")), (200, true));
    store.set(Fault::Fail(StoreError::Unavailable(
        "connection refused".to_owned(),
    )));
    assert_eq!(next().await, not_serving);
    let (code, body) = server.get("/readyz").await;
    assert_eq!(code, 503);
    assert!(body.contains("connection refused"), "{body}");
    assert_eq!(server.get("/healthz").await.0, 200);
    let alive = health
        .check(named(""))
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(alive.status, serving);
    let (_, metrics) = server.get("/metrics").await;
    assert!(metrics.contains("oncegate_ready 0"), "{metrics}");
    store.set(Fault::None);
    assert_eq!(next().await, serving);
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_is_not_ready_after_three_seconds_and_then_says_why() {
    let store = Faulty::new();
    let readiness = Readiness::new().await;
    let metrics = Arc::new(Metrics::new().expect("usable names"));
    let (follower, followed) = (readiness.clone(), Arc::clone(&store) as Arc<dyn Store>);
    let following = tokio::spawn(async move { follower.follow(followed, metrics).await });
    readiness.ready().await;
    store.set(Fault::Late(StoreError::Unavailable(
        "connection refused".to_owned(),
    )));
    let told = || match readiness.state() {
        State::NotReady(reason) => reason,
        other @ (State::Ready | State::Draining) => panic!("{other:?}"),
    };
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(told().contains("not answered within 3s"));
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(told().contains("connection refused"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(
        told().contains("connection refused"),
        "a reason is not forgotten"
    );
    following.abort();
}
