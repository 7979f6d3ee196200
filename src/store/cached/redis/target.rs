//! Which Redis: one server, one that Sentinels name, or a Cluster.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo, RedisError, RedisFuture,
    RedisResult, TlsMode, Value,
};

/// How long one server may take to answer while a connection is opened.
const CONNECT_MAX: Duration = Duration::from_millis(500);

/// Where Redis is. Its URL can hold a password and is never shown.
#[derive(Clone)]
pub struct Target {
    kind: Kind,
    nodes: Vec<ConnectionInfo>,
    tls: bool,
}

#[derive(Debug, Clone)]
enum Kind {
    Single,
    Sentinel { master: String },
    Cluster,
}

/// What is wrong with a URL, in words for an operator. The URL itself is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTarget(&'static str);

const FORMS: BadTarget = BadTarget(
    "must be redis://, rediss:// (TLS), redis+sentinel://HOST:PORT,…/MASTER or \
     redis+cluster://HOST:PORT,…, each with USER:PASSWORD@ where it is needed",
);

impl fmt::Debug for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Target({:?} of {})", self.kind, self.nodes.len())
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(url: &str) -> Result<Self, BadTarget> {
        let (scheme, rest) = url.split_once("://").ok_or(FORMS)?;
        let (server, kind) = scheme.split_once('+').unwrap_or((scheme, "single"));
        let tls = match server {
            "redis" => false,
            "rediss" => true,
            _ => return Err(FORMS),
        };
        let (user, rest) = rest
            .rsplit_once('@')
            .map_or(("", rest), |(user, rest)| (user, rest));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (kind, database) = match kind {
            "single" => (Kind::Single, path),
            "sentinel" => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(BadTarget("redis+sentinel:// must end with /MASTER"));
                }
                let master = master.to_owned();
                (Kind::Sentinel { master }, database)
            }
            "cluster" if path.is_empty() => (Kind::Cluster, ""),
            "cluster" => return Err(BadTarget("a Cluster has one database: name none")),
            _ => return Err(FORMS),
        };
        let at = if user.is_empty() { "" } else { "@" };
        let nodes = hosts.split(',').map(|host| {
            let node = format!("{server}://{user}{at}{host}/{database}");
            let node = node.into_connection_info().map_err(|_unreadable| FORMS)?;
            Ok(node.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
        });
        let nodes: Vec<_> = nodes.collect::<Result<_, _>>()?;
        if matches!(kind, Kind::Single) && nodes.len() > 1 {
            return Err(BadTarget("redis:// takes one server; see redis+cluster://"));
        }
        Ok(Self { kind, nodes, tls })
    }
}

/// An open connection. Copies share it.
#[derive(Clone)]
pub(super) enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl redis::aio::ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a redis::Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a redis::Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Server(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}

impl Target {
    /// Opens a connection and sees that somebody answers on it.
    pub(super) async fn connect(&self) -> RedisResult<Connection> {
        let mut connection = match self.kind {
            Kind::Single | Kind::Sentinel { .. } => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(CONNECT_MAX))
                    .set_response_timeout(Some(CONNECT_MAX));
                let client = self.server().await?;
                let opened = client.get_multiplexed_async_connection_with_config(&config);
                Connection::Server(opened.await?)
            }
            Kind::Cluster => {
                let client = ClusterClient::builder(self.nodes.clone())
                    .retries(1)
                    .connection_timeout(CONNECT_MAX)
                    .response_timeout(CONNECT_MAX)
                    .build()?;
                Connection::Cluster(client.get_async_connection().await?)
            }
        };
        redis::cmd("PING")
            .query_async::<()>(&mut connection)
            .await?;
        Ok(connection)
    }

    /// A connection of its own for what is published. In a Cluster any node passes it on.
    pub(super) async fn listen(&self) -> RedisResult<PubSub> {
        self.server().await?.get_async_pubsub().await
    }

    /// The server itself, or the one that the Sentinels name now.
    async fn server(&self) -> RedisResult<Client> {
        let Kind::Sentinel { master } = &self.kind else {
            let node = self.nodes.first().ok_or_else(none)?;
            return Client::open(node.clone());
        };
        let first = self.nodes.first().ok_or_else(none)?;
        let mut behind = SentinelNodeConnectionInfo::default()
            .set_redis_connection_info(first.redis_settings().clone())
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        if self.tls {
            behind = behind.set_tls_mode(TlsMode::Secure);
        }
        let sentinels = self.nodes.iter().map(|node| node.addr().clone()).collect();
        let mut client =
            SentinelClient::build(sentinels, master, Some(behind), SentinelServerType::Master)?;
        client.async_get_client().await
    }
}

fn none() -> RedisError {
    RedisError::from((redis::ErrorKind::InvalidClientConfig, "no server is named"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_url_names_its_servers() {
        for (url, nodes, kind) in [
            ("redis://localhost", 1, "Single"),
            ("rediss://user:secret@cache:6380/2", 1, "Single"),
            (
                "redis+sentinel://:secret@a:26379,b:26379/main",
                2,
                "Sentinel",
            ),
            ("redis+sentinel://a/main/3", 1, "Sentinel"),
            ("rediss+cluster://u:p@a:7000,b:7001,c:7002", 3, "Cluster"),
        ] {
            let target: Target = url.parse().expect(url);
            let shown = format!("{target:?}");
            assert!(shown.contains(kind), "{shown}");
            assert!(shown.ends_with(&format!("of {nodes})")), "{shown}");
            assert!(!shown.contains("secret"), "{shown}");
        }
    }

    #[test]
    fn what_is_no_url_of_a_redis_is_refused_without_being_repeated() {
        for url in [
            "",
            "localhost:6379",
            "http://localhost",
            "redis+ring://secret@a",
            "redis://a:1,b:2",
            "redis+sentinel://a:1",
            "redis+cluster://a:1/2",
            "redis://user:secret@host:port",
        ] {
            let told = url.parse::<Target>().expect_err(url).to_string();
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
