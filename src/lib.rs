//! Oncegate: idempotency as a service. ARCHITECTURE.md is the map.

pub mod domain;
pub mod port;
