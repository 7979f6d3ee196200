//! The use cases. They know the rules and the store's port, and neither SQL nor gRPC.

pub mod admin;
pub mod batch;
pub mod error;
pub mod gate;
pub mod holder;
pub mod lookup;
pub mod policies;
pub mod reserve;
pub mod support;
pub mod sweep;
pub mod wait;
