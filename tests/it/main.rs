//! The one integration binary. Every store passes the conformance suite; the reference machine and
//! the protocol's table judge the rules themselves.

#![expect(clippy::panic, reason = "a test that fails panics, in its helpers too")]

mod conformance;
mod property;
mod protocol_table;
