//! The form in which every engine keeps a record: a few columns that SQL decides by, and one
//! versioned message for the rest. What is read back is distrusted.
//!
//! Times in the message are offsets from `first_reserved_at`, and fence and generation are columns:
//! the message of a new record does not depend on the database's moment, so that one INSERT can
//! supply both.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use super::detail::{self, Detail};
use crate::domain::command::Reserve;
use crate::domain::decision::{Moment, decide_reserve};
use crate::domain::key::{KeyDigest, RecordKey};
use crate::domain::record::{Fence, Generation, Record, RecordState, Version};
use crate::domain::time::Timestamp;
use crate::port::store::StoreError;

/// A record's columns. What can be lent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) digest: [u8; 32],
    pub(super) namespace: &'a str,
    pub(super) environment: &'a str,
    pub(super) account: &'a str,
    pub(super) key: &'a str,
    pub(super) operation: &'a str,
    pub(super) state: i16,
    pub(super) generation: i64,
    pub(super) fence: i64,
    pub(super) version: i64,
    pub(super) first_reserved_at: i64,
    pub(super) lease_expires_at: Option<i64>,
    pub(super) sweep_at: Option<i64>,
    pub(super) detail: Cow<'a, [u8]>,
    pub(super) payload: Option<&'a [u8]>,
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
pub(super) fn encode(record: &Record) -> Row<'_> {
    let payload = match &record.state {
        RecordState::Completed(completion) => Some(completion.outcome.payload.as_slice()),
        RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Released { .. }
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => None,
    };
    let (lease_expires_at, sweep_at) = times_of(record);
    Row {
        digest: *record.key.digest().as_bytes(),
        namespace: record.key.namespace(),
        environment: record.key.environment(),
        account: record.key.account(),
        key: record.key.key(),
        operation: &record.operation,
        state: record.state_name().code(),
        generation: record.generation.get(),
        fence: record.fence.get(),
        version: record.version.get(),
        first_reserved_at: record.first_reserved_at.as_micros(),
        lease_expires_at,
        sweep_at,
        detail: prost::Message::encode_to_vec(&detail::of(record)).into(),
        payload,
    }
}

/// The record that a Reserve makes of a new key, for an INSERT that adds the database's moment: its
/// clock to `first_reserved_at` and `lease_expires_at`, its next fence to `fence` and `generation`.
pub(super) fn fresh(request: &Reserve) -> Option<Box<Record>> {
    let moment = Moment {
        now: Timestamp::EPOCH,
        next_fence: Fence::new(0),
    };
    decide_reserve(None, request, moment).write
}

/// The times that SQL searches by: the end of the lease, and when the sweeper is due.
fn times_of(record: &Record) -> (Option<i64>, Option<i64>) {
    let lease_expires_at = record.hold().map(|hold| hold.lease_expires_at);
    (
        lease_expires_at.map(Timestamp::as_micros),
        record.sweep_at().map(Timestamp::as_micros),
    )
}

/// Reads the columns back.
///
/// # Errors
///
/// `Corrupt`: something in them cannot be right.
pub(super) fn decode(row: &Row<'_>, payload: Payload) -> Result<Record, StoreError> {
    let digest = KeyDigest::from_bytes(row.digest);
    // Named by its digest only: the key may be personal.
    read(row, payload)
        .map_err(|problem| StoreError::Corrupt(format!("record {digest:?}: {problem}")))
}

fn read(row: &Row<'_>, payload: Payload) -> Result<Record, String> {
    let key = RecordKey::parse(row.namespace, row.environment, row.account, row.key)
        .map_err(|error| error.to_string())?;
    if *key.digest().as_bytes() != row.digest {
        return Err("the digest is not that of the identity".to_owned());
    }
    if row.generation < 1 || row.fence < row.generation || row.version < 1 {
        return Err("generation, fence or version is out of order".to_owned());
    }
    let detail: Detail =
        prost::Message::decode(&*row.detail).map_err(|error| format!("detail: {error}"))?;
    let bytes = row.payload.unwrap_or_default();
    let found: Option<[u8; 32]> = match payload {
        Payload::Read => Some(Sha256::digest(bytes).into()),
        Payload::LeftOut => None,
    };
    let parts = detail::Parts {
        key,
        operation: row.operation.to_owned(),
        generation: Generation::new(row.generation),
        fence: Fence::new(row.fence),
        version: Version::new(row.version),
        first_reserved_at: Timestamp::from_micros(row.first_reserved_at),
        payload: bytes.to_vec(),
    };
    let (record, stored) = detail::into_record(detail, parts)?;
    if record.state_name().code() != row.state {
        return Err("the state is not that of the detail".to_owned());
    }
    if times_of(&record) != (row.lease_expires_at, row.sweep_at) {
        return Err("the lease's end or the sweep's time is not that of the detail".to_owned());
    }
    match (stored, found) {
        (Some(stored), Some(found)) if stored != found => {
            Err("the payload's digest is another one".to_owned())
        }
        (Some(_) | None, Some(_) | None) => Ok(record),
    }
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
        let fresh = fresh(&request()).expect("a grant");
        let mut row = encode(&fresh);
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
            decode(&encode(&record), Payload::Read).expect("readable"),
            record
        );
    }

    #[test]
    fn a_row_that_cannot_be_right_is_corrupt_and_never_guessed_at() {
        let granted = granted(Moment {
            now: Timestamp::EPOCH,
            next_fence: Fence::new(7),
        });
        let good = encode(&granted);
        let spoil: [fn(&mut Row<'_>); 12] = [
            |row| row.state = 4,
            |row| row.state = 99,
            |row| row.key = "another",
            |row| row.digest[0] ^= 1,
            |row| row.generation = 0,
            |row| row.fence = 6,
            |row| row.version = 0,
            |row| row.lease_expires_at = None,
            |row| row.lease_expires_at = Some(0),
            |row| row.sweep_at = Some(0),
            |row| {
                row.detail.to_mut().pop();
            },
            |row| row.detail = Cow::default(),
        ];
        for (i, spoil) in spoil.iter().enumerate() {
            let mut row = good.clone();
            spoil(&mut row);
            let error = decode(&row, Payload::Read).expect_err("must be refused");
            assert!(matches!(error, StoreError::Corrupt(_)), "{i}: {error}");
        }
    }
}
