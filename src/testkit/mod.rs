//! Helpers of the tests. Behind the feature `test-util`; never in the product.

#![expect(
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a test that fails panics; that is what all of this is for"
)]

pub mod process;
