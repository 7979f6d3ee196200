//! All gRPC services of a server, behind the layers.

use std::sync::Arc;

use futures::FutureExt;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use tonic::codec::CompressionEncoding;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::pb::health_server::{self, HealthServer};
use tonic_health::server::{HealthReporter, HealthService};
use tonic_reflection::pb::{v1, v1alpha};
use tonic_reflection::server::Builder;
use tower::Service as _;

use super::handle::Handler;
use crate::domain::limits;
use crate::proto::FILE_DESCRIPTOR_SET;
use crate::proto::v1::admin_service_server::{self, AdminServiceServer};
use crate::proto::v1::gate_service_server::{self, GateServiceServer};
use crate::proto::v1::support_service_server::{self, SupportServiceServer};
use crate::telemetry::metrics::Metrics;
use crate::transport::connections::{Service, routed};
use crate::transport::layer::Guards;
use crate::transport::layer::auth::Credentials;
use crate::transport::layer::deadline::DeadlineOptions;
use crate::transport::layer::shed::CallLimit;
use crate::transport::layer::trace::Methods;

/// What the routes of a server are made of.
#[derive(Debug)]
pub struct RouteOptions {
    /// Who may call.
    pub credentials: Credentials,
    /// How long a call may take.
    pub deadlines: DeadlineOptions,
    /// Calls at work from which on new work is refused.
    pub calls_max: usize,
    /// Whether the server describes itself.
    pub reflection: bool,
    /// Bytes of one message that is taken, after it is inflated.
    pub message_bytes_max: usize,
}

type Gate = GateServiceServer<Handler>;

/// The services, but for reflection, which is there on demand.
const SERVED: [&str; 4] = [
    gate_service_server::SERVICE_NAME,
    admin_service_server::SERVICE_NAME,
    support_service_server::SERVICE_NAME,
    health_server::SERVICE_NAME,
];

/// All services of one handler.
///
/// # Errors
///
/// The descriptors cannot be read; a defect of the build.
pub(in crate::transport) fn routes(
    handler: &Handler,
    health: HealthReporter,
    metrics: Arc<Metrics>,
    options: RouteOptions,
) -> anyhow::Result<Service> {
    macro_rules! served {
        ($server:ident) => {
            $server::new(handler.clone())
                .accept_compressed(CompressionEncoding::Gzip)
                .send_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(options.message_bytes_max)
                .max_encoding_message_size(limits::ANSWER_BYTES_MAX)
        };
    }
    let health = HealthServer::new(HealthService::from_health_reporter(health))
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    let mut others = Routes::new(served!(AdminServiceServer))
        .add_service(served!(SupportServiceServer))
        .add_service(health);
    if options.reflection {
        let describe = |own: &str| {
            let builder = Builder::configure()
                .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .with_service_name(own);
            SERVED.into_iter().fold(builder, Builder::with_service_name)
        };
        let v1 = describe(v1::server_reflection_server::SERVICE_NAME).build_v1()?;
        let v1alpha = v1alpha::server_reflection_server::SERVICE_NAME;
        let v1alpha = describe(v1alpha).build_v1alpha()?;
        others = others.add_service(v1).add_service(v1alpha);
    }
    let guards = Arc::new(Guards {
        credentials: options.credentials,
        deadlines: options.deadlines,
        calls: CallLimit::new(handler.gate.clone(), options.calls_max),
        metrics,
        methods: methods()?,
    });
    let gate = served!(GateServiceServer);
    let others = routed(others.into_axum_router());
    Ok(Arc::new(move |request| {
        let guards = Arc::clone(&guards);
        // What programs ask goes straight to its service: a router costs several allocations.
        if request.uri().path().split('/').nth(1) == Some(Gate::NAME) {
            let mut gate = gate.clone();
            let answer = move |request| gate.call(request).map(|Ok(answer)| answer);
            async move { guards.pass(request, answer).await }.boxed()
        } else {
            let others = Arc::clone(&others);
            async move { guards.pass(request, |request| others(request)).await }.boxed()
        }
    }))
}

/// Every method that is served.
fn methods() -> anyhow::Result<Methods> {
    let mut pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET)?;
    pool.decode_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)?;
    let served = pool
        .services()
        .filter(|service| SERVED.contains(&service.full_name()));
    let methods = served.flat_map(|service| {
        let methods: Vec<_> = service.methods().collect();
        methods
    });
    let path = |method: MethodDescriptor| {
        let service = method.parent_service().full_name().to_owned();
        format!("/{service}/{}", method.name())
    };
    Ok(Methods::new(methods.map(path)))
}
