//! Accepts connections on one address and serves them until it is told to drain, and then no longer
//! than a bound.
//!
//! Not tonic's own loop: that one waits for ever for a client that says its preface and falls
//! silent (hyperium/hyper#4170), closes aged connections without letting their calls finish, and
//! answers a call's timeout with the wrong code before any layer sees it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tower::Service as _;

use super::coalesce::Coalesced;
use super::opening;
use super::tls::Tls;
use crate::service::wait::WaitingRoom;

/// How long accepting pauses after it failed, e.g. for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What answers the calls of a port.
pub(super) type Service =
    Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// The answers of a router.
pub(super) fn routed(router: Router) -> Service {
    Arc::new(move |request| {
        let mut router = router.clone();
        let answer = router.call(request);
        answer.map(|Ok(answer)| answer.map(Body::new)).boxed()
    })
}

/// What holds for each connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionOptions {
    /// Connections at once; further ones wait to be accepted.
    pub connections_max: usize,
    /// Calls at once on one connection, of which half may wait for a running holder.
    pub streams_max: u32,
    /// From when on a connection takes no new calls, give or take a tenth.
    pub age_max: Duration,
    /// How long its calls may take after that.
    pub age_grace: Duration,
    /// How long a connection may take to its first bytes, a TLS handshake included, and a header of
    /// HTTP/1.
    pub header_timeout: Duration,
    /// How often a silent HTTP/2 client is pinged.
    pub keepalive_every: Duration,
    /// How long it has to answer.
    pub keepalive_timeout: Duration,
}

/// Serves `router` on `listener`, with TLS if there is a certificate, until `drain` is cancelled;
/// then lets the calls under way finish.
/// Dropping it ends all connections at once.
pub(super) async fn serve(
    listener: TcpListener,
    service: Service,
    options: ConnectionOptions,
    tls: Option<Arc<Tls>>,
    drain: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(options.connections_max));
    let connections = TaskTracker::new();
    let ended = CancellationToken::new();
    let _end_all = ended.clone().drop_guard();
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = drain.cancelled() => break,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _peer)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let served = connection(stream, service.clone(), options, tls.clone(), drain.clone());
        let ended = ended.clone();
        connections.spawn(async move {
            ended.run_until_cancelled(served).await;
            drop(place);
        });
    }
    // From here on new clients are refused by the system and do not hang.
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn connection(
    stream: TcpStream,
    service: Service,
    options: ConnectionOptions,
    tls: Option<Arc<Tls>>,
    drain: CancellationToken,
) {
    let opened = timeout(
        options.header_timeout,
        opening::open(stream, tls.as_deref()),
    );
    let opened = tokio::select! {
        () = drain.cancelled() => return,
        opened = opened => opened,
    };
    let stream = match opened {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection ended before it was served");
            return;
        }
        Err(_elapsed) => {
            tracing::debug!("a connection took too long to begin");
            return;
        }
    };
    // Half of the calls may wait: a Complete that ends their wait must find a place beside them.
    let room = WaitingRoom::new(options.streams_max / 2);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(room.clone());
        service(request).map(Ok::<_, Infallible>)
    });
    let builder = protocols(options);
    let mut served = pin!(builder.serve_connection(TokioIo::new(Coalesced::new(stream)), service));
    let aged = sleep(jittered(options.age_max));
    tokio::select! {
        result = served.as_mut() => return log(result),
        () = drain.cancelled() => {}
        () = aged => {}
    }
    served.as_mut().graceful_shutdown();
    let draining = drain.is_cancelled();
    let grace = async {
        if draining {
            // Whoever drains has a bound of its own.
            std::future::pending::<()>().await;
        }
        sleep(options.age_grace).await;
    };
    tokio::select! {
        result = served => log(result),
        () = grace => tracing::debug!("a connection past its age was closed with calls under way"),
    }
}

fn protocols(options: ConnectionOptions) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.streams_max)
        .keep_alive_interval(options.keepalive_every)
        .keep_alive_timeout(options.keepalive_timeout);
    builder
}

fn log(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(error, "a connection broke off");
    }
}

/// Within a tenth of `span`: connections made together do not all end together.
fn jittered(span: Duration) -> Duration {
    let mut byte = [0];
    // Without a random source all connections age alike; nothing depends on it.
    let _no_jitter = getrandom::fill(&mut byte);
    span.mul_f64(0.9 + 0.2 * f64::from(byte[0]) / 255.0)
}
