//! How connections are kept: their age, clients that died or never speak, and how many there may be.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper_util::rt::TokioIo;
use oncegate::testkit::server::options;
use oncegate::transport::connections::ConnectionOptions;
use pb::gate_service_client::GateServiceClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint, Uri};

use super::drain::{EMPTY_SETTINGS, PREFACE};
use super::*;
use crate::client::{self, ask_and_wait, insist};

/// The beginning of a request.
const HEAD: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: x\r\nx: ";
/// Long enough for whatever these servers are told to do after some tenths of a second.
const SOON: Duration = Duration::from_secs(3);
/// A span that is over within the tests.
const SHORT: Duration = Duration::from_millis(300);

async fn server(tune: impl FnOnce(&mut ConnectionOptions)) -> TestServer {
    let mut options = options();
    tune(&mut options.connections);
    TestServer::with(Arc::new(MemoryStore::new(Clock::Database)), options).await
}

/// A client of the server that counts the connections that it opens.
fn counted(server: &TestServer) -> (GateServiceClient<Channel>, Arc<AtomicUsize>) {
    let (opened, address) = (Arc::new(AtomicUsize::new(0)), server.grpc_address());
    let counter = Arc::clone(&opened);
    let connector = tower::service_fn(move |_: Uri| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { TcpStream::connect(address).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let channel = endpoint.connect_with_connector_lazy(connector);
    (GateServiceClient::new(channel), opened)
}

/// A connection that has said so much; nobody reads or writes on it any more.
async fn said(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("up");
    stream.write_all(bytes).await.expect("sent");
    stream
}

/// Waits until the server has closed a connection.
async fn closed(mut stream: TcpStream) -> bool {
    let mut heard = Vec::new();
    timeout(SOON, stream.read_to_end(&mut heard)).await.is_ok()
}

// Field cases H9, I3.
#[tokio::test]
async fn a_connection_past_its_age_answers_what_it_took_and_is_followed_by_another() {
    let server = server(|own| own.age_max = SHORT).await;
    let (mut gate, opened) = counted(&server);
    answer(gate.reserve(reserve("held")).await);
    // Under way on the first connection while that one ages.
    let waiting = pb::ReserveRequest {
        wait: Some(seconds(2)),
        ..reserve("held")
    };
    let mut first = gate.clone();
    let waiter = tokio::spawn(async move { verdict(first.reserve(waiting).await) });
    let begun = Instant::now();
    let mut calls = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        calls += 1;
        // What this client had not sent yet when the connection ended, it must send again.
        let request = reserve(&format!("k-{calls}"));
        let told = insist(|| client::reserve(&gate, &request)).await;
        granted(told.verdict.expect("a verdict"));
        sleep(Duration::from_millis(2)).await;
    }
    let told = waiter.await.expect("no panic");
    assert!(matches!(told, Verdict::InProgress(_)), "{told:?}");
    let opened = opened.load(Ordering::SeqCst);
    assert!((4..=12).contains(&opened), "{opened} connections");
}

#[tokio::test]
async fn a_call_that_outlasts_the_age_and_its_grace_is_cut_off() {
    let server = server(|own| (own.age_max, own.age_grace) = (SHORT, SHORT)).await;
    server.gate().reserve(reserve("k")).await.expect("a grant");
    let begun = Instant::now();
    let cut = server.gate().reserve(ask_and_wait("k")).await;
    assert!(cut.is_err() && begun.elapsed() < SOON, "{cut:?}");
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_closed_and_a_silent_one_that_does_is_kept() {
    let server = server(|own| (own.keepalive_every, own.keepalive_timeout) = (SHORT, SHORT)).await;
    let (mut gate, opened) = counted(&server);
    answer(gate.reserve(reserve("before")).await);
    let dead = said(server.grpc_address(), &[PREFACE, EMPTY_SETTINGS].concat()).await;
    assert!(closed(dead).await, "still open");
    sleep(SHORT * 4).await;
    answer(gate.reserve(reserve("after")).await);
    assert_eq!(opened.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn whoever_takes_too_long_to_say_what_it_wants_is_closed() {
    let server = server(|own| {
        (
            own.header_timeout,
            own.keepalive_every,
            own.keepalive_timeout,
        ) = (SHORT, SHORT, SHORT);
    })
    .await;
    for address in [server.grpc_address(), server.http_address()] {
        for begun in [&b""[..], b"P", &PREFACE[..10], PREFACE, HEAD] {
            let slow = said(address, begun).await;
            let begun = String::from_utf8_lossy(begun);
            assert!(closed(slow).await, "{address}, {begun:?}");
        }
    }
    // A byte from time to time is no header.
    let mut slow = said(server.http_address(), b"GET / HTTP/1.1\r\n").await;
    let dripping = async {
        while slow.write_all(b"x").await.is_ok() {
            sleep(SHORT / 3).await;
        }
    };
    timeout(SOON, dripping).await.expect("it is closed");
}

#[tokio::test]
async fn connections_above_the_limit_wait_until_there_is_a_place() {
    let server = server(|own| own.connections_max = 2).await;
    let get = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    for (address, says) in [
        (server.http_address(), get.to_vec()),
        (server.grpc_address(), [PREFACE, EMPTY_SETTINGS].concat()),
    ] {
        let mut heard = [0; 9];
        let mut served = Vec::new();
        for _ in 0..2 {
            let mut one = said(address, &says).await;
            one.read_exact(&mut heard).await.expect("an answer");
            served.push(one);
        }
        let mut third = said(address, &says).await;
        let answer = timeout(SHORT, third.read_exact(&mut heard)).await;
        assert!(answer.is_err(), "{address}: {answer:?}");
        served.pop();
        let answer = timeout(SOON, third.read_exact(&mut heard)).await;
        answer.expect("a place is free").expect("an answer");
    }
}
