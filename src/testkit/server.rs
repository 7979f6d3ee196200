//! A server of its own for one test: in this process, on free ports, over whichever store.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use super::net::http_get;
use crate::domain::limits;
use crate::port::store::Store;
use crate::proto::v1::admin_service_client::AdminServiceClient;
use crate::proto::v1::gate_service_client::GateServiceClient;
use crate::proto::v1::support_service_client::SupportServiceClient;
use crate::service::gate::GateOptions;
use crate::service::sweep::SweepOptions;
use crate::transport::connections::ConnectionOptions;
use crate::transport::grpc::routes::RouteOptions;
use crate::transport::layer::auth::Credentials;
use crate::transport::layer::deadline::DeadlineOptions;
use crate::transport::server::{Listeners, Server, ServerOptions};

/// The largest answer that the clients take.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A running server. Dropping it ends it at once; [`TestServer::drain`] ends it in good order.
#[derive(Debug)]
pub struct TestServer {
    server: Server,
    channel: Channel,
}

/// What a server is told by default in tests: everybody may do everything, namespaces are created
/// when they are first named.
pub fn options() -> ServerOptions {
    let minute = Duration::from_mins(1);
    ServerOptions {
        gate: GateOptions {
            namespaces_auto_create: true,
            waiters_max: 10_000,
        },
        sweep: SweepOptions {
            every: minute * 60,
            batch: 100,
        },
        routes: RouteOptions {
            credentials: Credentials::default(),
            deadlines: DeadlineOptions {
                default: minute,
                max: minute * 6,
            },
            calls_max: 10_000,
            reflection: true,
            message_bytes_max: limits::MESSAGE_BYTES_MAX,
        },
        connections: ConnectionOptions {
            connections_max: 4096,
            streams_max: 2000,
            age_max: minute * 30,
            age_grace: minute,
            header_timeout: minute,
            keepalive_every: minute,
            keepalive_timeout: minute,
        },
        tls: None,
        drain_delay: Duration::ZERO,
        drain_timeout: Duration::from_secs(10),
    }
}

impl TestServer {
    /// Serves a store with the default options.
    pub async fn start(store: Arc<dyn Store>) -> Self {
        Self::with(store, options()).await
    }

    /// Serves a store, and returns once it is ready.
    pub async fn with(store: Arc<dyn Store>, options: ServerOptions) -> Self {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listeners = Listeners::bind(any_port, any_port).await;
        let listeners = listeners.expect("free ports on this machine");
        let server = Server::start(store, listeners, options).await;
        let server = server.expect("a server");
        let channel = endpoint(server.grpc_address()).connect_lazy();
        Self { server, channel }
    }

    /// Returns once the server says that it is ready.
    pub async fn ready(&self) {
        self.server.ready().await;
    }

    /// Where gRPC is served.
    pub fn grpc_address(&self) -> SocketAddr {
        self.server.grpc_address()
    }

    /// Where HTTP is served.
    pub fn http_address(&self) -> SocketAddr {
        self.server.http_address()
    }

    /// The connection that the clients of this server share.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A connection of its own.
    pub fn new_channel(&self) -> Channel {
        endpoint(self.grpc_address()).connect_lazy()
    }

    /// A client of the gate.
    pub fn gate(&self) -> GateServiceClient<Channel> {
        GateServiceClient::new(self.channel()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// A client of the support service.
    pub fn support(&self) -> SupportServiceClient<Channel> {
        SupportServiceClient::new(self.channel()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// A client of the admin service.
    pub fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// The status and the body of a GET.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let answer = http_get(self.http_address(), path).await;
        answer.expect("the server answers")
    }

    /// Ends it as a signal would.
    pub async fn drain(self) {
        self.server.drain().await;
    }
}

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}")).expect("an address is a URL")
}
