//! The form in which a record lies in the shared memory: sealed with the store's secrets, so that
//! nobody can make one up, change one, or put one under another key.

use prost::Message;

use super::Entry;
use crate::domain::key::KeyDigest;
use crate::domain::record::{Record, RecordState};
use crate::domain::time::Timestamp;
use crate::domain::token::TokenSecrets;
use crate::store::codec::{self, Payload, Row};

/// The form, a part of every key's name: what is written in another one lies elsewhere, and is neither
/// read nor written over.
pub(super) const FORMAT: &str = "1";
const PURPOSE: &str = "oncegate/cache/v1";
/// Digits of a stamp: two numbers of 20.
const STAMP_BYTES: usize = 40;

/// What a value is good for.
#[derive(Debug)]
pub(super) enum Opened {
    /// A completed record.
    Entry(Entry),
    /// A note that the record is completed no longer.
    Gone,
    /// Nothing: it was not sealed by this deployment for this key and state, or it is damaged.
    Forged,
}

/// A record's columns, and until when they may be told. Append only.
#[derive(Clone, PartialEq, Message)]
struct Sealed {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    environment: String,
    #[prost(string, tag = "3")]
    account: String,
    #[prost(string, tag = "4")]
    key: String,
    #[prost(string, tag = "5")]
    operation: String,
    #[prost(int32, tag = "6")]
    state: i32,
    #[prost(int64, tag = "7")]
    generation: i64,
    #[prost(int64, tag = "8")]
    fence: i64,
    #[prost(int64, tag = "9")]
    version: i64,
    #[prost(int64, tag = "10")]
    first_reserved_at: i64,
    #[prost(int64, optional, tag = "11")]
    sweep_at: Option<i64>,
    #[prost(bytes = "vec", tag = "12")]
    detail: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "13")]
    payload: Option<Vec<u8>>,
    #[prost(int64, tag = "14")]
    valid_until: i64,
}

/// Orders the states of a record as text does: a later one has a greater stamp.
pub(super) fn stamp(record: &Record) -> String {
    let (generation, version) = (record.generation.get(), record.version.get());
    format!("{generation:020}{version:020}")
}

/// Seals a record for its key.
pub(super) fn seal(
    secrets: &TokenSecrets,
    digest: &KeyDigest,
    record: &Record,
    valid_until: Timestamp,
) -> Vec<u8> {
    let row = codec::encode(record);
    let sealed = Sealed {
        namespace: row.namespace.to_owned(),
        environment: row.environment.to_owned(),
        account: row.account.to_owned(),
        key: row.key.to_owned(),
        operation: row.operation.to_owned(),
        state: row.state.into(),
        generation: row.generation,
        fence: row.fence,
        version: row.version,
        first_reserved_at: row.first_reserved_at,
        sweep_at: row.sweep_at,
        detail: row.detail.into_owned(),
        payload: row.payload.map(<[u8]>::to_vec),
        valid_until: valid_until.as_micros(),
    };
    secrets.seal(PURPOSE, digest, &sealed.encode_to_vec())
}

/// Opens what was found under a key, a stamp and what was sealed.
pub(super) fn open(secrets: &TokenSecrets, digest: &KeyDigest, value: &[u8]) -> Opened {
    let Some((record, valid_until)) = unseal(secrets, digest, value) else {
        return Opened::Forged;
    };
    if !matches!(record.state, RecordState::Completed(_)) {
        return Opened::Gone;
    }
    Opened::Entry(Entry {
        record: record.into(),
        valid_until,
    })
}

fn unseal(secrets: &TokenSecrets, digest: &KeyDigest, value: &[u8]) -> Option<(Record, Timestamp)> {
    let (stamped, bytes) = value.split_at_checked(STAMP_BYTES)?;
    let body = secrets.unseal(PURPOSE, digest, bytes)?;
    let sealed = Sealed::decode(body).ok()?;
    let valid_until = Timestamp::from_micros(sealed.valid_until);
    let row = Row {
        digest: *digest.as_bytes(),
        namespace: &sealed.namespace,
        environment: &sealed.environment,
        account: &sealed.account,
        key: &sealed.key,
        operation: &sealed.operation,
        state: i16::try_from(sealed.state).ok()?,
        generation: sealed.generation,
        fence: sealed.fence,
        version: sealed.version,
        first_reserved_at: sealed.first_reserved_at,
        lease_expires_at: None,
        sweep_at: sealed.sweep_at,
        detail: sealed.detail.into(),
        payload: sealed.payload.as_deref(),
    };
    let record = codec::decode(&row, Payload::Read).ok()?;
    (stamp(&record).as_bytes() == stamped).then_some((record, valid_until))
}
