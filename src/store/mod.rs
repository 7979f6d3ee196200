//! The stores: three engines behind one trait, and the one form in which they keep a record.

pub mod cached;
mod codec;
mod detail;
pub mod front;
pub mod memory;
mod namespaces;
pub mod postgres;
mod queue;
pub mod sqlite;

use crate::domain::key::KeyDigest;
use crate::domain::token::TokenSecrets;
use crate::port::store::StoreError;

/// Makes the first secret of a store, from the operating system's random source.
fn new_secret() -> Result<[u8; 32], StoreError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| StoreError::Unusable(format!("no source of random bytes: {error}")))?;
    Ok(secret)
}

fn new_secrets() -> Result<TokenSecrets, StoreError> {
    Ok(TokenSecrets::first(new_secret()?))
}

/// Never seen and never guessed at: what is stored under a digest is another identity's.
fn shared_digest(digest: &KeyDigest) -> StoreError {
    let digest = digest.short();
    tracing::error!(digest, "CORRUPT: two identities share a digest");
    StoreError::Corrupt(format!("record {digest}…: it is another identity's"))
}
