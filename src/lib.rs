//! x

pub mod proto;
