//! Oncegate: idempotency as a service. ARCHITECTURE.md is the map.

pub mod cmd;
pub mod config;
pub mod domain;
pub mod port;
pub mod proto;
pub mod service;
pub mod store;
pub mod telemetry;
#[cfg(feature = "test-util")]
pub mod testkit;
pub mod transport;
