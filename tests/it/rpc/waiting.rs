//! Calls that wait for a running holder.

use std::sync::Arc;

use oncegate::port::clock::Clock;
use oncegate::proto::v1 as pb;
use oncegate::store::memory::MemoryStore;
use oncegate::testkit::server::TestServer;
use pb::reserve_response::Verdict;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::*;
use crate::client::ask_and_wait as waiting;
use crate::rig::alone;

/// Waits until so many calls wait, as the metrics show.
pub(super) async fn until_waiting(server: &TestServer, calls: usize) {
    let line = format!("oncegate_waiting_calls {calls}\n");
    let seen = async {
        while !server.get("/metrics").await.1.contains(&line) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(20), seen)
        .await
        .expect("they wait");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_are_answered_within_a_second_of_complete() {
    let _alone = alone().await;
    let server = TestServer::start(Arc::new(MemoryStore::new(Clock::Database))).await;
    let token = granted(verdict(server.gate().reserve(reserve("k")).await)).token;
    let mut waiters = JoinSet::new();
    for _ in 0..1000 {
        let mut gate = server.gate();
        waiters.spawn(async move {
            let answered = verdict(gate.reserve(waiting("k")).await);
            (Instant::now(), answered)
        });
    }
    until_waiting(&server, 1000).await;
    let completed = Instant::now();
    answer(server.gate().complete(complete("k", &token, b"done")).await);
    let mut count = 0;
    while let Some(answered) = waiters.join_next().await {
        let (at, verdict) = answered.expect("no panic");
        let Verdict::Replay(replay) = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(replay.outcome.expect("whole").payload, b"done");
        assert!(
            at - completed < Duration::from_secs(1),
            "{:?}",
            at - completed
        );
        count += 1;
    }
    assert_eq!(count, 1000);
}

#[tokio::test]
async fn a_wait_ends_before_the_calls_own_deadline() {
    let stage = Stage::new().await;
    stage.grant("k").await;
    let mut request = tonic::Request::new(waiting("k"));
    request.set_timeout(Duration::from_secs(1));
    let told = verdict(stage.server.gate().reserve(request).await);
    assert!(matches!(told, Verdict::InProgress(_)), "{told:?}");
}

#[tokio::test]
async fn a_caller_that_hangs_up_waits_no_longer() {
    let stage = Stage::new().await;
    stage.grant("k").await;
    let mut gate = stage.server.gate();
    let call = tokio::spawn(async move { gate.reserve(waiting("k")).await });
    until_waiting(&stage.server, 1).await;
    call.abort();
    until_waiting(&stage.server, 0).await;
}
