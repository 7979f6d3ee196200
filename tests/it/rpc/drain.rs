//! Going away: in order, and never later than the bound, whoever holds on.

use std::sync::Arc;

use oncegate::port::clock::Clock;
use oncegate::proto::v1 as pb;
use oncegate::store::memory::MemoryStore;
use oncegate::testkit::server::{TestServer, options};
use pb::reserve_response::Verdict;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::faulty::{Fault, Faulty};
use super::waiting::until_waiting;
use super::*;
use crate::client::ask_and_wait as waiting;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

async fn server(drain_timeout: Duration) -> TestServer {
    let mut options = options();
    options.drain_timeout = drain_timeout;
    TestServer::with(Arc::new(MemoryStore::new(Clock::Database)), options).await
}

#[tokio::test]
async fn a_client_that_never_speaks_does_not_hold_up_the_end() {
    let server = server(Duration::from_secs(30)).await;
    let silent = TcpStream::connect(server.grpc_address()).await.expect("up");
    server
        .gate()
        .reserve(reserve("k"))
        .await
        .expect("it was accepted by now");
    let started = Instant::now();
    server.drain().await;
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    drop(silent);
}

#[tokio::test]
async fn a_client_that_falls_silent_after_its_preface_is_cut_off_at_the_bound() {
    let server = server(Duration::from_secs(1)).await;
    for said in [PREFACE, &PREFACE[..10], &[PREFACE, EMPTY_SETTINGS].concat()] {
        let mut silent = TcpStream::connect(server.grpc_address()).await.expect("up");
        silent.write_all(said).await.expect("sent");
        if said.len() > 20 {
            // The server's own settings: it has seen the preface.
            let mut heard = [0; 9];
            silent.read_exact(&mut heard).await.expect("settings");
        }
        std::mem::forget(silent);
    }
    let started = Instant::now();
    server.drain().await;
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn whoever_waits_is_answered_when_the_server_goes_away() {
    let server = server(Duration::from_secs(10)).await;
    server.gate().reserve(reserve("k")).await.expect("a grant");
    let mut gate = server.gate();
    let waiter = tokio::spawn(async move { verdict(gate.reserve(waiting("k")).await) });
    until_waiting(&server, 1).await;
    let started = Instant::now();
    server.drain().await;
    let told = waiter.await.expect("answered");
    assert!(matches!(told, Verdict::InProgress(_)), "{told:?}");
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn calls_under_way_come_to_their_end_and_new_ones_find_no_server() {
    let store = Faulty::new();
    let server = TestServer::start(Arc::clone(&store) as Arc<dyn Store>).await;
    let address = server.grpc_address();
    let token = granted(verdict(server.gate().reserve(reserve("k")).await)).token;
    store.set(Fault::Hold);
    let mut gate = server.gate();
    let call = tokio::spawn(async move { gate.complete(complete("k", &token, b"x")).await });
    store
        .came
        .acquire()
        .await
        .expect("it is under way")
        .forget();
    let draining = tokio::spawn(server.drain());
    let refused = async { while TcpStream::connect(address).await.is_ok() {} };
    timeout(Duration::from_secs(5), refused)
        .await
        .expect("no new connections");
    assert!(!draining.is_finished(), "a call is under way");
    store.go_on.add_permits(1);
    assert!(answer(call.await.expect("no panic")).outcome_used);
    draining.await.expect("drained");
}

#[tokio::test]
async fn it_says_that_it_goes_before_it_takes_no_more_calls() {
    let mut options = options();
    options.drain_delay = Duration::from_secs(1);
    let server = TestServer::with(Arc::new(MemoryStore::new(Clock::Database)), options).await;
    let server = Arc::new(server);
    server.ready().await;
    let channel = server.channel();
    let http = server.http_address();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
    let check = tonic_health::pb::HealthCheckRequest {
        service: "oncegate.v1.GateService".to_owned(),
    };
    let watched = health.watch(check).await.expect("a watch");
    let mut watched = watched.into_inner();
    let serving = watched
        .message()
        .await
        .expect("no error")
        .expect("a status");
    assert_eq!(serving.status, tonic_health::ServingStatus::Serving as i32);
    let mut gate = server.gate();
    let server = Arc::into_inner(server).expect("ours alone");
    let draining = tokio::spawn(server.drain());
    let not = watched
        .message()
        .await
        .expect("no error")
        .expect("a status");
    assert_eq!(not.status, tonic_health::ServingStatus::NotServing as i32);
    assert!(
        TcpStream::connect(http).await.is_ok(),
        "still there to say so"
    );
    gate.reserve(reserve("k")).await.expect("still takes calls");
    timeout(Duration::from_secs(5), draining)
        .await
        .expect("ends")
        .expect("no panic");
    assert_eq!(
        watched.message().await.ok().flatten(),
        None,
        "the watch has ended"
    );
}

#[tokio::test]
async fn the_http_port_says_what_this_is() {
    let server = server(Duration::from_secs(1)).await;
    let (code, page) = server.get("/").await;
    assert!(code == 200 && page.contains("Oncegate") && page.contains("/readyz"));
    assert_eq!(server.get("/nothing").await.0, 404);
}
