//! Oncegate: idempotency as a service. See `oncegate --help`.
fn main() {}
