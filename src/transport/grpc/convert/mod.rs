//! Messages into the domain's types and back. Whatever is malformed is named by its path from the
//! request; no rule of the domain is decided here.

pub mod admin;
mod field;
pub mod holder;
pub mod key;
pub mod outcome;
pub mod policy;
pub mod record;
pub mod reserve;
pub mod support;
pub mod time;

pub(super) use field::{page, required};
