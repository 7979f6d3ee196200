//! Oncegate: idempotency as a service. ARCHITECTURE.md is the map.

pub mod config;
pub mod domain;
pub mod port;
pub mod proto;
pub mod service;
pub mod store;
pub mod telemetry;
pub mod transport;
