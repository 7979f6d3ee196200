//! The rules: identities, records and the decisions about them. Pure; no I/O, no async, no clock.

pub mod caller;
pub mod command;
pub mod decision;
pub mod error;
pub mod fingerprint;
pub mod key;
pub mod limits;
pub mod namespace;
pub mod outcome;
pub mod policy;
pub mod record;
pub mod time;
pub mod token;
