//! The wire messages, generated from `proto/`. Deliberately no rules: `transport::grpc::convert`
//! turns these into the domain's types, and nothing below it sees them.

/// Holds the messages, clients and servers of the package `oncegate.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated: its text is prost's and tonic's, its documentation that of the proto files"
)]
pub mod v1 {
    tonic::include_proto!("oncegate.v1");
}

/// The encoded `FileDescriptorSet` of every proto file, imports included, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/oncegate.binpb"));
