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
    let moment = Moment {
        now: Timestamp::EPOCH,
        next_fence: Fence::new(0),
    };
    decide_reserve(None, request, moment)
        .write
        .map(|record| encode(&record))
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
        return Err(corrupt(
            &row,
            "generation, fence or version is out of order",
        ));
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
    let digest = row
        .digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    StoreError::Corrupt(format!("record {digest}…: {problem}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::domain::fingerprint::Fingerprint;
    use crate::domain::policy::Terms;
    use crate::domain::record::RequestId;

    fn request() -> Reserve {
        Reserve {
            key: RecordKey::parse("ns", "live", "acct", "k").expect("valid"),
            operation: "slot.claim".to_owned(),
            fingerprint: Some(Fingerprint::parse("raw-sha256-v1", &[3; 32]).expect("valid")),
            request_id: RequestId::from_bytes([9; 16]),
            lease: Duration::from_secs(30),
            holder: "pod-1".to_owned(),
            trace_id: String::new(),
            attributes: BTreeMap::from([("order".to_owned(), "4711".to_owned())]),
            can_recover: true,
            terms: Terms::default(),
        }
    }

    fn granted(moment: Moment) -> Record {
        *decide_reserve(None, &request(), moment)
            .write
            .expect("a grant is written")
    }

    #[test]
    fn a_new_record_s_message_does_not_depend_on_the_moment() {
        let now = Timestamp::from_micros(1_700_000_000_000_000);
        let moment = Moment {
            now,
            next_fence: Fence::new(42),
        };
        let mut row = fresh(&request()).expect("a grant");
        row.first_reserved_at += now.as_micros();
        row.lease_expires_at = row.lease_expires_at.map(|offset| offset + now.as_micros());
        (row.fence, row.generation) = (42, 42);
        assert_eq!(row, encode(&granted(moment)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let now = Timestamp::from_micros(1_700_000_000_000_000);
        let record = granted(Moment {
            now,
            next_fence: Fence::new(42),
        });
        assert_eq!(
            decode(encode(&record), Payload::Read).expect("readable"),
            record
        );
    }

    #[test]
    fn a_row_that_cannot_be_right_is_corrupt_and_never_guessed_at() {
        let good = encode(&granted(Moment {
            now: Timestamp::EPOCH,
            next_fence: Fence::new(7),
        }));
        let spoil: [fn(&mut Row); 9] = [
            |row| row.state = 4,
            |row| row.state = 99,
            |row| row.key.push('x'),
            |row| row.digest[0] ^= 1,
            |row| row.generation = 0,
            |row| row.fence = 6,
            |row| row.version = 0,
            |row| row.detail.truncate(row.detail.len() - 1),
            |row| row.detail.clear(),
        ];
        for (i, spoil) in spoil.iter().enumerate() {
            let mut row = good.clone();
            spoil(&mut row);
            let error = decode(row, Payload::Read).expect_err("must be refused");
            assert!(matches!(error, StoreError::Corrupt(_)), "{i}: {error}");
        }
    }
}
