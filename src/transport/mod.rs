//! What stands between the wire and the services: gRPC, HTTP, and the server that carries both.

pub mod coalesce;
pub mod connections;
pub mod grpc;
pub mod http;
pub mod layer;
mod opening;
pub mod owner;
pub mod readiness;
pub mod server;
pub mod tls;
