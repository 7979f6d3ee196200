//! One running server: its listeners and its background tasks, from start to drain. Every task is
//! owned here, and its failure is seen.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::domain::key::KeyDigest;
use crate::port::store::Store;
use crate::service::gate::{Gate, GateOptions};
use crate::service::sweep::{self, SweepOptions};
use crate::telemetry::metrics::Metrics;
use crate::transport::connections::{self, ConnectionOptions, routed};
use crate::transport::grpc::handle::Handler;
use crate::transport::grpc::routes::{RouteOptions, routes};
use crate::transport::http;
use crate::transport::owner::Owner;
use crate::transport::readiness::Readiness;
use crate::transport::tls::Tls;

/// How often the number of waiting calls is shown.
const GAUGE_EVERY: Duration = Duration::from_secs(1);

/// Everything that a server is told.
#[derive(Debug)]
pub struct ServerOptions {
    /// The gate's.
    pub gate: GateOptions,
    /// The sweeper's.
    pub sweep: SweepOptions,
    /// The gRPC services'.
    pub routes: RouteOptions,
    /// The connections', on both ports.
    pub connections: ConnectionOptions,
    /// The certificate of both ports; `None`: they speak plain text.
    pub tls: Option<Tls>,
    /// How long a server that is told to go still takes calls, so that load balancers notice.
    pub drain_delay: Duration,
    /// How long it may take to end after that.
    pub drain_timeout: Duration,
}

/// The two addresses of a server, bound.
#[derive(Debug)]
pub struct Listeners {
    /// For gRPC.
    pub grpc: TcpListener,
    /// For health, metrics and people.
    pub http: TcpListener,
}

impl Listeners {
    /// Binds both addresses.
    ///
    /// # Errors
    ///
    /// One cannot be bound; the text names it and the likely reason.
    pub async fn bind(grpc: SocketAddr, http: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self {
            grpc: bind("gRPC", "ONCEGATE_LISTEN", grpc).await?,
            http: bind("HTTP", "ONCEGATE_HTTP_LISTEN", http).await?,
        })
    }
}

async fn bind(what: &str, setting: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = if error.kind() == std::io::ErrorKind::AddrInUse {
            "another process listens there"
        } else {
            "it cannot be bound"
        };
        anyhow::anyhow!("{what} address {address}: {hint} ({error}); {setting} chooses another one")
    })
}

/// A server that is running.
#[derive(Debug)]
pub struct Server {
    gate: Gate,
    owner: Owner,
    readiness: Readiness,
    tasks: JoinSet<&'static str>,
    listening: JoinSet<()>,
    draining: CancellationToken,
    drain_delay: Duration,
    drain_timeout: Duration,
    addresses: (SocketAddr, SocketAddr),
}

impl Server {
    /// Starts serving a store.
    ///
    /// # Errors
    ///
    /// The server cannot be put together; a defect, or a listener that is gone.
    pub async fn start(
        store: Arc<dyn Store>,
        listeners: Listeners,
        options: ServerOptions,
    ) -> anyhow::Result<Self> {
        let addresses = (
            listeners.grpc.local_addr().context("the gRPC address")?,
            listeners.http.local_addr().context("the HTTP address")?,
        );
        let metrics = Arc::new(Metrics::new()?);
        let gate = Gate::new(Arc::clone(&store), Arc::clone(&metrics), options.gate);
        let (owner, readiness) = (Owner::default(), Readiness::new().await);
        let draining = CancellationToken::new();

        let handler = Handler::new(gate.clone(), owner.clone());
        let grpc = routes(
            &handler,
            readiness.health(),
            Arc::clone(&metrics),
            options.routes,
        )?;
        let http = routed(http::routes(readiness.clone(), Arc::clone(&metrics)));
        let tls = options.tls.map(Arc::new);
        let mut listening = JoinSet::new();
        for (listener, service) in [(listeners.grpc, grpc), (listeners.http, http)] {
            let draining = draining.clone();
            listening.spawn(connections::serve(
                listener,
                service,
                options.connections,
                tls.clone(),
                draining,
            ));
        }
        let mut tasks = background(&gate, &readiness, store, &metrics, options.sweep);
        if let Some(tls) = tls {
            tasks.spawn(async move {
                tls.follow(&metrics).await;
                "the task that looks at the certificate"
            });
        }
        Ok(Self {
            gate,
            owner,
            readiness,
            tasks,
            listening,
            draining,
            drain_delay: options.drain_delay,
            drain_timeout: options.drain_timeout,
            addresses,
        })
    }

    /// Lets whoever waits for a key look when another replica tells that it has changed.
    pub fn heed(&mut self, mut changes: broadcast::Receiver<KeyDigest>) {
        let gate = self.gate.clone();
        self.tasks.spawn(async move {
            loop {
                match changes.recv().await {
                    Ok(digest) => gate.changed(&digest),
                    // They are hints: what was missed is found by polling.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        });
    }

    /// The metrics that it shows.
    pub fn metrics(&self) -> &Metrics {
        self.gate.metrics()
    }

    /// Where gRPC is served.
    pub const fn grpc_address(&self) -> SocketAddr {
        self.addresses.0
    }

    /// Where HTTP is served.
    pub const fn http_address(&self) -> SocketAddr {
        self.addresses.1
    }

    /// Returns once the store can be used.
    pub async fn ready(&self) {
        self.readiness.ready().await;
    }

    /// Returns if a background task or a listener has ended, which none does by itself.
    pub async fn failed(&mut self) -> anyhow::Error {
        let ended = tokio::select! {
            Some(ended) = self.tasks.join_next() => ended,
            Some(ended) = self.listening.join_next() => ended.map(|()| "a listener"),
        };
        match ended {
            Ok(task) => anyhow::anyhow!("{task} has ended"),
            Err(error) => anyhow::anyhow!("a background task has failed: {error}"),
        }
    }

    /// Goes away: says so first, then lets everybody who waits answer, then waits for what is under
    /// way, but no longer than the bound.
    pub async fn drain(mut self) {
        self.readiness.drain().await;
        sleep(self.drain_delay).await;
        self.gate.stop_waiting();
        self.readiness.end_watches().await;
        self.draining.cancel();
        let end = async {
            while let Some(ended) = self.listening.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "a listener has failed");
                }
            }
            self.owner.finish().await;
        };
        if timeout(self.drain_timeout, end).await.is_err() {
            tracing::warn!(
                calls = self.owner.under_way(),
                "not everything has ended within the drain timeout; what is left is cut off"
            );
        }
        self.listening.shutdown().await;
        self.tasks.shutdown().await;
    }
}

fn background(
    gate: &Gate,
    readiness: &Readiness,
    store: Arc<dyn Store>,
    metrics: &Arc<Metrics>,
    sweep: SweepOptions,
) -> JoinSet<&'static str> {
    let mut tasks = JoinSet::new();
    let waiting = gate.clone();
    tasks.spawn(async move {
        waiting.run_waiters().await;
        "the task that answers waiting calls"
    });
    let (looking, looked_at, shown) = (readiness.clone(), Arc::clone(&store), Arc::clone(metrics));
    tasks.spawn(async move {
        looking.follow(looked_at, shown).await;
        "the task that looks at the store"
    });
    let shown = Arc::clone(metrics);
    tasks.spawn(async move {
        sweep::run(store, shown, sweep).await;
        "the sweeper"
    });
    let (counted, shown) = (gate.clone(), Arc::clone(metrics));
    tasks.spawn(async move {
        loop {
            shown.waiting(counted.waiting());
            sleep(GAUGE_EVERY).await;
        }
    });
    tasks
}
