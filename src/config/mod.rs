//! What a server is told: defaults < TOML file < `ONCEGATE_*` < flags, checked as a whole.

pub mod auth;
pub mod database;
pub mod hex;
pub mod read;
pub mod redis;
pub mod sections;
pub mod span;
#[cfg(test)]
mod tests;

pub use read::{Flags, Problems, read};
pub use sections::Config;
