//! What the service tells of itself: metrics and logs.

pub mod logs;
pub mod metrics;
