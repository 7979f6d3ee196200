//! The form in which every engine keeps a record: a few columns that SQL decides by, and one
//! versioned message for the rest. What is read back is distrusted.
//!
//! Times in the message are offsets from `first_reserved_at`, and fence and generation are columns:
//! the message of a new record does not depend on the database's moment, so that one INSERT can
//! supply both.

use sha2::{Digest, Sha256};

use super::detail::{self, Detail};
use crate::domain::command::Reserve;
use crate::domain::decision::{Moment, decide_reserve};
use crate::domain::key::RecordKey;
use crate::domain::record::{Fence, Generation, Record, RecordState, Version};
use crate::domain::time::Timestamp;
use crate::port::store::StoreError;

/// A record's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) digest: [u8; 32],
    pub(super) namespace: String,
    pub(super) environment: String,
    pub(super) account: String,
    pub(super) key: String,
    pub(super) operation: String,
    pub(super) state: i16,
    pub(super) generation: i64,
    pub(super) fence: i64,
    pub(super) version: i64,
    pub(super) first_reserved_at: i64,
    pub(super) lease_expires_at: Option<i64>,
    pub(super) sweep_at: Option<i64>,
    pub(super) detail: Vec<u8>,
    pub(super) payload: Option<Vec<u8>>,
}

/// Whether a row was read with its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// It was, and is checked.
    Read,
    /// It was left out: the record is only good for being swept.
    LeftOut,
}

/// Makes the columns of a record.
pub(super) fn encode(record: &Record) -> Row {
    let payload = match &record.state {
        RecordState::Completed(completion) => Some(completion.outcome.payload.clone()),
        RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Released { .. }
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => None,
    };
    Row {
        digest: *record.key.digest().as_bytes(),
        namespace: record.key.namespace().to_owned(),
        environment: record.key.environment().to_owned(),
        account: record.key.account().to_owned(),
        key: record.key.key().to_owned(),
        operation: record.operation.clone(),
        state: record.state_name().code(),
        generation: record.generation.get(),
        fence: record.fence.get(),
        version: record.version.get(),
        first_reserved_at: record.first_reserved_at.as_micros(),
        lease_expires_at: record.hold().map(|hold| hold.lease_expires_at.as_micros()),
        sweep_at: record.sweep_at().map(Timestamp::as_micros),
        detail: prost::Message::encode_to_vec(&detail::of(record)),
        payload,
    }
}

/// The columns of the record that a Reserve makes of a new key, for an INSERT that adds the
/// database's moment: its clock to `first_reserved_at` and `lease_expires_at`, its next fence to
/// `fence` and `generation`.
pub(super) fn fresh(request: &Reserve) -> Option<Row> {
    let moment = Moment { now: Timestamp::EPOCH, next_fence: Fence::new(0) };
    decide_reserve(None, request, moment).write.map(|record| encode(&record))
}

/// Reads the columns back.
///
/// # Errors
///
/// `Corrupt`: something in them cannot be right.
pub(super) fn decode(row: Row, payload: Payload) -> Result<Record, StoreError> {
    let key = RecordKey::parse(&row.namespace, &row.environment, &row.account, &row.key)
        .map_err(|error| corrupt(&row, &error.to_string()))?;
    if *key.digest().as_bytes() != row.digest {
        return Err(corrupt(&row, "the digest is not that of the identity"));
    }
    if row.generation < 1 || row.fence < row.generation || row.version < 1 {
        return Err(corrupt(&row, "generation, fence or version is out of order"));
    }
    let detail: Detail = prost::Message::decode(row.detail.as_slice())
        .map_err(|error| corrupt(&row, &format!("detail: {error}")))?;
    let parts = detail::Parts {
        key,
        operation: row.operation.clone(),
        generation: Generation::new(row.generation),
        fence: Fence::new(row.fence),
        version: Version::new(row.version),
        first_reserved_at: Timestamp::from_micros(row.first_reserved_at),
        payload: row.payload.clone().unwrap_or_default(),
    };
    let (record, sha256) =
        detail::into_record(detail, parts).map_err(|problem| corrupt(&row, &problem))?;
    if record.state_name().code() != row.state {
        return Err(corrupt(&row, "the state is not that of the detail"));
    }
    if payload == Payload::Read {
        let read: [u8; 32] = Sha256::digest(row.payload.as_deref().unwrap_or_default()).into();
        if sha256.is_some_and(|stored| stored != read) {
            return Err(corrupt(&row, "the payload's digest is another one"));
        }
    }
    Ok(record)
}

/// Names the row by its digest only: the key may be personal.
fn corrupt(row: &Row, problem: &str) -> StoreError {
    let digest = row.digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect::<String>();
    StoreError::Corrupt(format!("record {digest}…: {problem}"))
}
