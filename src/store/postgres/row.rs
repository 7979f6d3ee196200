//! Between the driver's rows and the stored form. A row that cannot be right is logged here, once,
//! by its digest only.

use sqlx::postgres::{PgRow, Postgres};
use sqlx::{Decode, Row as _, Type};

use super::error::{Access, Failure, classify};
use crate::domain::decision::{Audit, AuditAction};
use crate::domain::key::KeyDigest;
use crate::domain::namespace::Namespace;
use crate::domain::record::{Fence, Record, StateName};
use crate::domain::time::Timestamp;
use crate::port::store::{AuditEntry, StoreError};
use crate::store::codec::{self, Payload, Row};
use crate::store::namespaces::decode_namespace;

/// Reads one column.
pub(super) fn get<'r, T>(row: &'r PgRow, column: &str) -> Result<T, Failure>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(column)
        .map_err(|error| classify(&error, Access::Read))
}

/// A digest, and the record that is stored under it or what is wrong with that.
pub(super) type Stored = ([u8; 32], Result<Record, StoreError>);

/// Reads the record in a row; `None`: the row says that there is none.
pub(super) fn record(row: &PgRow, payload: Payload) -> Result<Option<Stored>, Failure> {
    let Some(digest) = get::<Option<&[u8]>>(row, "digest")? else {
        return Ok(None);
    };
    let digest = bytes(digest, "a digest")?;
    let record = match columns(row, digest) {
        Ok(columns) => codec::decode(&columns, payload),
        Err(Failure::Final(error)) => Err(error),
        Err(failure @ (Failure::Broken { .. } | Failure::Again { .. })) => return Err(failure),
    };
    if let Err(error) = &record {
        let digest = KeyDigest::from_bytes(digest).short();
        tracing::error!(digest, %error, "CORRUPT: a stored record cannot be right");
    }
    Ok(Some((digest, record)))
}

fn columns(row: &PgRow, digest: [u8; 32]) -> Result<Row<'_>, Failure> {
    Ok(Row {
        digest,
        namespace: get(row, "namespace")?,
        environment: get(row, "environment")?,
        account: get(row, "account")?,
        key: get(row, "key")?,
        operation: get(row, "operation")?,
        state: get(row, "state")?,
        generation: get(row, "generation")?,
        fence: get(row, "fence")?,
        version: get(row, "version")?,
        first_reserved_at: get(row, "first_reserved_at")?,
        lease_expires_at: get(row, "lease_expires_at")?,
        sweep_at: get(row, "sweep_at")?,
        detail: get::<&[u8]>(row, "detail")?.into(),
        payload: get(row, "payload")?,
    })
}

/// Reads a namespace.
pub(super) fn namespace(row: &PgRow) -> Result<Namespace, Failure> {
    let (created_at, version) = (get(row, "created_at")?, get(row, "version")?);
    let body = get::<&[u8]>(row, "detail")?;
    let namespace = decode_namespace(get(row, "name")?, created_at, version, body);
    if let Err(error) = &namespace {
        tracing::error!(%error, "CORRUPT: a stored namespace cannot be right");
    }
    Ok(namespace?)
}

/// Reads a line of the audit trail.
pub(super) fn audit(row: &PgRow) -> Result<AuditEntry, Failure> {
    let id = get(row, "id")?;
    let action = get::<&str>(row, "action")?;
    let action = [
        AuditAction::Expire,
        AuditAction::Resolve,
        AuditAction::Reexecute,
    ]
    .into_iter()
    .find(|known| action_name(*known) == action);
    let audit = Audit {
        action: action.ok_or_else(|| unreadable(id))?,
        actor: get(row, "actor")?,
        reason: get(row, "reason")?,
        at: Timestamp::from_micros(get(row, "at")?),
        fence: Fence::new(get(row, "fence")?),
        before: state(get(row, "before")?).ok_or_else(|| unreadable(id))?,
        after: state(get(row, "after")?).ok_or_else(|| unreadable(id))?,
    };
    Ok(AuditEntry { id, audit })
}

fn unreadable(id: i64) -> StoreError {
    tracing::error!(id, "CORRUPT: a line of the audit trail cannot be right");
    StoreError::Corrupt(format!("line {id} of the audit trail"))
}

fn state(code: i16) -> Option<StateName> {
    StateName::ALL
        .into_iter()
        .find(|state| state.code() == code)
}

/// An action's name as it is stored.
pub(super) const fn action_name(action: AuditAction) -> &'static str {
    match action {
        AuditAction::Expire => "EXPIRE",
        AuditAction::Resolve => "RESOLVE",
        AuditAction::Reexecute => "REEXECUTE",
    }
}

/// Reads a digest.
pub(super) fn digest(row: &PgRow, column: &str) -> Result<KeyDigest, Failure> {
    let digest = bytes(get(row, column)?, "a digest")?;
    Ok(KeyDigest::from_bytes(digest))
}

/// Takes a value of 32 bytes.
pub(super) fn bytes(value: &[u8], what: &str) -> Result<[u8; 32], StoreError> {
    let wrong = |_error| StoreError::Corrupt(format!("{what} has not 32 bytes"));
    value.try_into().map_err(wrong)
}
