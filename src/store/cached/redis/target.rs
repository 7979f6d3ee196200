//! Which Redis: one server, one that Sentinels name, or a Cluster.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures::future::join_all;
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo, Pipeline, RedisError,
    RedisFuture, RedisResult, TlsCertificates, TlsMode, Value,
};

/// How long one server may take to answer while a connection is opened.
const CONNECT_MAX: Duration = Duration::from_millis(500);

/// Where Redis is. Its URL can hold a password and is never shown.
#[derive(Clone)]
pub struct Target {
    kind: Kind,
    nodes: Vec<ConnectionInfo>,
    tls: bool,
    /// Who is trusted in place of the system's authorities.
    authorities: Option<TlsCertificates>,
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
        Ok(Self {
            kind,
            nodes,
            tls,
            authorities: None,
        })
    }
}

/// An open connection. Copies share it.
#[derive(Clone)]
pub(super) enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a redis::Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
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

impl Connection {
    /// Carries out every command, also after one that is refused.
    ///
    /// # Errors
    ///
    /// The first one that was refused or not answered.
    pub(super) async fn carry_out(&self, commands: &Pipeline) -> RedisResult<()> {
        let told = match self.clone() {
            Self::Server(mut server) => {
                let all = server.req_packed_commands(commands, 0, commands.len());
                all.await?.into_iter().map(Ok).collect()
            }
            // They lie on several nodes, and a pipeline goes to one.
            Self::Cluster(cluster) => {
                let each = commands.cmd_iter().map(|command| {
                    let mut cluster = cluster.clone();
                    async move { cluster.req_packed_command(command).await }
                });
                join_all(each).await
            }
        };
        told.into_iter()
            .try_for_each(|told| told?.extract_error().map(drop))
    }
}

impl Target {
    /// Trusts these authorities, certificates in PEM, and no others.
    ///
    /// # Errors
    ///
    /// There is no certificate in it, one cannot be read, or TLS is not spoken at all.
    pub fn trusting(mut self, authorities: Vec<u8>) -> Result<Self, BadTarget> {
        if !self.tls {
            return Err(BadTarget("is of use with TLS alone: rediss://"));
        }
        let begin = b"-----BEGIN CERTIFICATE-----";
        if !authorities.windows(begin.len()).any(|part| part == begin) {
            return Err(BadTarget("there is no certificate in PEM in it"));
        }
        let authorities = TlsCertificates {
            client_tls: None,
            root_cert: Some(authorities),
        };
        for node in &mut self.nodes {
            let client = Client::build_with_tls(node.clone(), authorities.clone());
            let client = client.map_err(|_bad| BadTarget("a certificate in it is damaged"))?;
            *node = client.get_connection_info().clone();
        }
        self.authorities = Some(authorities);
        Ok(self)
    }

    /// Opens a connection and sees that somebody answers on it.
    pub(super) async fn connect(&self) -> RedisResult<Connection> {
        let mut connection = match self.kind {
            Kind::Single | Kind::Sentinel { .. } => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(CONNECT_MAX))
                    .set_response_timeout(Some(CONNECT_MAX));
                let client = self.server(0).await?;
                let opened = client.get_multiplexed_async_connection_with_config(&config);
                Connection::Server(opened.await?)
            }
            Kind::Cluster => {
                let mut client = ClusterClient::builder(self.nodes.clone())
                    .retries(1)
                    .connection_timeout(CONNECT_MAX)
                    .response_timeout(CONNECT_MAX);
                if let Some(authorities) = &self.authorities {
                    client = client.certs(authorities.clone());
                }
                Connection::Cluster(client.build()?.get_async_connection().await?)
            }
        };
        redis::cmd("PING")
            .query_async::<()>(&mut connection)
            .await?;
        Ok(connection)
    }

    /// A connection of its own for what is published. In a Cluster any node passes it on: each attempt
    /// takes another one.
    pub(super) async fn listen(&self, attempt: usize) -> RedisResult<PubSub> {
        self.server(attempt).await?.get_async_pubsub().await
    }

    /// The server itself, the one that the Sentinels name now, or one of the nodes.
    async fn server(&self, attempt: usize) -> RedisResult<Client> {
        if let Kind::Sentinel { master } = &self.kind {
            return self.sentinels(master)?.async_get_client().await;
        }
        let mut nodes = self.nodes.iter().cycle();
        let node = nodes.nth(attempt % self.nodes.len().max(1));
        Client::open(node.ok_or_else(none)?.clone())
    }

    /// The Sentinels are asked without a password; the URL's is for the server that they name.
    fn sentinels(&self, master: &str) -> RedisResult<SentinelClient> {
        let behind = self.nodes.first().ok_or_else(none)?.redis_settings();
        let no_delay = TcpSettings::default().set_nodelay(true);
        let sentinels = self.nodes.iter().map(|node| node.addr().clone());
        let mut client = SentinelClientBuilder::new(sentinels, master, SentinelServerType::Master)?
            .set_client_to_redis_db(behind.db())
            .set_client_to_redis_tcp_settings(no_delay.clone())
            .set_client_to_sentinel_tcp_settings(no_delay);
        if let Some(user) = behind.username() {
            client = client.set_client_to_redis_username(user);
        }
        if let Some(password) = behind.password() {
            client = client.set_client_to_redis_password(password);
        }
        if self.tls {
            client = client.set_client_to_redis_tls_mode(TlsMode::Secure);
        }
        if let Some(authorities) = &self.authorities {
            client = client.set_client_to_redis_certificates(authorities.clone());
        }
        client.build()
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
