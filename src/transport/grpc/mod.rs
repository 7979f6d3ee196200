//! The gRPC services. A handler parses, calls and converts; nothing else.

pub mod admin;
pub mod answer_room;
pub mod convert;
pub mod gate;
pub mod handle;
pub mod routes;
pub mod status;
pub mod support;
