//! Helpers of the tests: the suite that every store passes, the reference machine of the rules, and
//! databases that live as long as one test. Behind the feature `test-util`; never in the product.

#![expect(
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::unchecked_time_subtraction,
    reason = "a test that fails panics, and whatever it did not expect is a failure"
)]

pub mod certificates;
pub mod chaos_proxy;
pub mod conformance;
pub mod databases;
mod grpc_answers;
mod grpc_questions;
pub mod grpc_store;
pub mod load;
pub mod net;
pub mod process;
pub mod redis;
pub mod reference;
pub mod scene;
pub mod server;
pub mod values;
