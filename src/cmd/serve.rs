//! `oncegate serve`: puts a server together, says where it is, and ends it in good order.

mod store;

use std::fmt::Display;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use self::store::Opened;
use crate::config::sections::{self, Cache};
use crate::config::{Config, Flags, Problems};
use crate::domain::limits;
use crate::port::clock::Clock;
use crate::service::gate::GateOptions;
use crate::service::sweep::SweepOptions;
use crate::store::cached::{Cached, Target};
use crate::telemetry::logs;
use crate::transport::connections::ConnectionOptions;
use crate::transport::grpc::routes::RouteOptions;
use crate::transport::layer::auth::{Credential, Credentials};
use crate::transport::layer::deadline::DeadlineOptions;
use crate::transport::server::{Listeners, Server, ServerOptions};
use crate::transport::tls::{Tls, TlsFiles};

/// How long the store may take to close once nothing is under way.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);

/// Serves the gate.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// A TOML file with settings; `--print-config` shows all of them.
    #[arg(long, env = "ONCEGATE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Prints the configuration in force as TOML, without secrets, and ends.
    #[arg(long)]
    pub print_config: bool,
    /// Where the records are: `sqlite://PATH`, `postgres://…` or `memory://`.
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
    /// Where gRPC is served.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Where health and metrics are served.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http_listen: Option<SocketAddr>,
    /// What is logged, e.g. `info` or `debug`.
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Lets anybody do everything from anywhere, without credentials.
    #[arg(long)]
    pub insecure: bool,
}

impl ServeArgs {
    fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        let mut text = |key, value: Option<String>| {
            flags.extend(value.map(|value| (key, value.into())));
        };
        text("database.url", self.database_url.clone());
        text("listen.grpc", self.listen.map(|at| at.to_string()));
        text("listen.http", self.http_listen.map(|at| at.to_string()));
        text("log.filter", self.log.clone());
        if self.insecure {
            flags.push(("auth.insecure", true.into()));
        }
        flags
    }
}

/// Serves until it is told to end.
///
/// # Errors
///
/// The configuration, the store or an address cannot be used; the text says what to do.
pub async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let config = crate::config::read(args.config.as_deref(), std::env::vars(), args.flags())?;
    let redis = redis(&config.cache)?;
    if args.print_config {
        return print(&config.shown()?);
    }
    let tls = tls(&config.tls).await?;
    logs::start(config.log.format, &config.log.filter);
    // Told to end from here on, also while the store is being opened.
    let mut told = Told::new()?;
    let listeners = Listeners::bind(config.listen.grpc, config.listen.http).await?;
    let opened = tokio::select! {
        opened = Opened::open(&config.database) => opened?,
        () = told.until_the_end() => return Ok(()),
    };
    let mut cached = Cached::new(opened.store(), Clock::Database, config.cache.bytes_max);
    let has_redis = redis.is_some();
    if let Some(redis) = redis {
        cached = cached.sharing(redis);
    }
    let (counts, changes) = (cached.counts(), cached.changes());
    let mut server = Server::start(Arc::new(cached), listeners, options(&config, tls)?).await?;
    if has_redis {
        let counts = Arc::clone(&counts);
        server.metrics().watch_redis(move || counts.redis_is_up());
    }
    server.metrics().watch_cache(move || counts.all());
    server.heed(changes);
    announce(&config, &server);
    let failure = tokio::select! {
        () = told.until_the_end() => None,
        failure = server.failed() => Some(failure),
    };
    tracing::info!("ending: no new calls, and those under way come to their end");
    server.drain().await;
    if timeout(CLOSE_TIME_MAX, opened.close()).await.is_err() {
        tracing::warn!("the store was not closed within {CLOSE_TIME_MAX:?}");
    }
    tracing::info!("ended");
    failure.map_or(Ok(()), Err)
}

/// The Redis that the configuration names, if any.
fn redis(cache: &Cache) -> Result<Option<Target>, Problems> {
    let problem = |key, bad: &dyn Display| Problems(vec![format!("cache.{key}: {bad}")]);
    let Some(url) = cache.redis_url.secret() else {
        return Ok(None);
    };
    let named: Target = url.parse().map_err(|bad| problem("redis_url", &bad))?;
    let file = &cache.redis_ca_file;
    if file.as_os_str().is_empty() {
        return Ok(Some(named));
    }
    let of_file = |bad: &dyn Display| {
        let bad = format!("{}: {bad}", file.display());
        problem("redis_ca_file", &bad)
    };
    let authorities = std::fs::read(file).map_err(|bad| of_file(&bad))?;
    named
        .trusting(authorities)
        .map(Some)
        .map_err(|bad| of_file(&bad))
}

/// The certificate that the configuration names, if any.
async fn tls(named: &sections::Tls) -> Result<Option<Tls>, Problems> {
    if !named.is_on() {
        return Ok(None);
    }
    let files = TlsFiles {
        cert: named.cert_file.clone(),
        key: named.key_file.clone(),
    };
    let tls = Tls::read(files).await;
    tls.map(Some).map_err(|bad| Problems(vec![bad.to_string()]))
}

/// The signals that end a server.
struct Told {
    terminate: Signal,
    interrupt: Signal,
}

impl Told {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("SIGINT")?,
        })
    }

    async fn until_the_end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn options(config: &Config, tls: Option<Tls>) -> anyhow::Result<ServerOptions> {
    let credentials: Result<Vec<_>, _> = config
        .credentials
        .iter()
        .map(|listed| {
            let (sha256, caller) = listed.resolve()?;
            Ok(Credential {
                sha256,
                caller: Arc::new(caller),
            })
        })
        .collect();
    let credentials = credentials.map_err(|problems: Vec<String>| {
        anyhow::anyhow!("a credential cannot be used: {}", problems.join("; "))
    })?;
    Ok(ServerOptions {
        gate: GateOptions {
            namespaces_auto_create: config.auto_creates(),
            waiters_max: config.limits.waiters_max,
        },
        sweep: SweepOptions {
            every: config.sweep.every.0,
            batch: config.sweep.batch,
        },
        routes: RouteOptions {
            credentials: Credentials::new(credentials),
            deadlines: DeadlineOptions {
                default: config.deadline.default.0,
                max: config.deadline.max.0,
            },
            calls_max: config.limits.calls_max,
            reflection: config.listen.reflection,
            message_bytes_max: limits::MESSAGE_BYTES_MAX,
        },
        connections: ConnectionOptions {
            connections_max: config.limits.connections_max,
            streams_max: config.limits.streams_max,
            age_max: config.connections.age_max.0,
            age_grace: config.connections.age_grace.0,
            header_timeout: config.connections.header_timeout.0,
            keepalive_every: config.connections.keepalive_every.0,
            keepalive_timeout: config.connections.keepalive_timeout.0,
        },
        tls,
        drain_delay: config.drain.delay.0,
        drain_timeout: config.drain.timeout.0,
    })
}

fn announce(config: &Config, server: &Server) {
    let (grpc, http) = (server.grpc_address(), server.http_address());
    let store = config.database.url.to_string();
    let tls = config.tls.is_on();
    tracing::info!(%grpc, %http, tls, store, "serving");
    if std::io::stderr().is_terminal() {
        let text = welcome(grpc, http, tls, &store);
        // Whoever closed the terminal does not read it.
        drop(std::io::Write::write_all(
            &mut std::io::stderr(),
            text.as_bytes(),
        ));
    }
}

/// Where it is, and what to try. Which name the certificate is for, its reader knows.
fn welcome(grpc: SocketAddr, http: SocketAddr, tls: bool, store: &str) -> String {
    let (scheme, endpoint) = if tls {
        ("https", format!(" --endpoint https://HOST:{}", grpc.port()))
    } else {
        ("http", String::new())
    };
    format!(
        "\n  gRPC   {grpc}\n  HTTP   {scheme}://{http}\n  store  {store}\n\n\
         Try in another terminal:\n  \
         oncegate reserve order-1 --operation order.place{endpoint}\n\n"
    )
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_try_names_an_endpoint_only_where_the_default_would_not_do() {
        let at = SocketAddr::from(([127, 0, 0, 1], 7011));
        for (tls, http, tried) in [
            (false, "  http://127.0.0.1:7011\n", "order.place\n"),
            (
                true,
                "  https://127.0.0.1:7011\n",
                "order.place --endpoint https://HOST:7011\n",
            ),
        ] {
            let text = welcome(at, at, tls, "memory://");
            assert!(text.contains(http) && text.contains(tried), "{text}");
        }
    }
}
