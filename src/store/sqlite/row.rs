//! SQLite's columns to and from the stored form of records, audit lines and namespaces.

use rusqlite::{Connection, Row, params};

use super::sql;
use crate::domain::decision::{Audit, AuditAction};
use crate::domain::key::KeyDigest;
use crate::domain::record::{Fence, Record, StateName};
use crate::domain::time::Timestamp;
use crate::port::store::{AuditEntry, StoreError};
use crate::store::codec::{self, Payload};

/// Reads the columns of [`sql::LOAD`] or [`sql::DUE`]. What cannot be right is logged here, and named
/// by its digest only: the key may be personal.
pub(super) fn record(row: &Row<'_>, payload: Payload) -> Result<Record, StoreError> {
    let record = columns(row)
        .map_err(|error| {
            let digest: rusqlite::Result<[u8; 32]> = row.get(0);
            let name = digest.map(|digest| KeyDigest::from_bytes(digest).short());
            let name = name.unwrap_or_else(|_unreadable| "of no digest".to_owned());
            StoreError::Corrupt(format!("record {name}…: {error}"))
        })
        .and_then(|row| codec::decode(&row, payload));
    record.inspect_err(|problem| tracing::error!(%problem, "a stored record cannot be used"))
}

fn columns<'a>(row: &'a Row<'_>) -> rusqlite::Result<codec::Row<'a>> {
    let text = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
    Ok(codec::Row {
        digest: row.get(0)?,
        namespace: text(1)?,
        environment: text(2)?,
        account: text(3)?,
        key: text(4)?,
        operation: text(5)?,
        state: row.get(6)?,
        generation: row.get(7)?,
        fence: row.get(8)?,
        version: row.get(9)?,
        first_reserved_at: row.get(10)?,
        lease_expires_at: row.get(11)?,
        sweep_at: row.get(12)?,
        detail: row.get_ref(13)?.as_blob()?.into(),
        payload: row.get_ref(14)?.as_blob_or_null()?,
    })
}

/// Runs [`sql::INSERT`]. Answers the number of changed rows.
pub(super) fn insert(connection: &Connection, row: &codec::Row<'_>) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql::INSERT)?.execute(params![
        row.digest,
        row.namespace,
        row.environment,
        row.account,
        row.key,
        row.operation,
        row.state,
        row.generation,
        row.fence,
        row.version,
        row.first_reserved_at,
        row.lease_expires_at,
        row.sweep_at,
        row.detail,
        row.payload,
    ])
}

/// Which state of a record was judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    pub(super) version: i64,
    pub(super) fence: i64,
    pub(super) state: i16,
}

/// Runs [`sql::UPDATE`]. Answers the number of changed rows.
pub(super) fn update(
    connection: &Connection,
    row: &codec::Row<'_>,
    judged: Judged,
) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql::UPDATE)?.execute(params![
        row.digest,
        row.operation,
        row.state,
        row.generation,
        row.fence,
        row.version,
        row.first_reserved_at,
        row.lease_expires_at,
        row.sweep_at,
        row.detail,
        row.payload,
        judged.version,
        judged.fence,
        judged.state,
    ])
}

/// Runs [`sql::AUDIT`]. Answers the number of changed rows.
pub(super) fn insert_audit(
    connection: &Connection,
    digest: &[u8; 32],
    audit: &Audit,
) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql::AUDIT)?.execute(params![
        digest,
        audit.at.as_micros(),
        audit.actor,
        action_name(audit.action),
        audit.reason,
        audit.fence.get(),
        audit.before.code(),
        audit.after.code(),
    ])
}

/// Reads the columns of [`sql::TRAIL`].
pub(super) fn audit(row: &Row<'_>) -> rusqlite::Result<Result<AuditEntry, StoreError>> {
    let id = row.get(0)?;
    let corrupt = || StoreError::Corrupt(format!("audit line {id} cannot be read"));
    let name: String = row.get(3)?;
    let (before, after) = (state(row.get(6)?), state(row.get(7)?));
    let action = [
        AuditAction::Expire,
        AuditAction::Resolve,
        AuditAction::Reexecute,
    ]
    .into_iter()
    .find(|action| action_name(*action) == name);
    let (Some(action), Some(before), Some(after)) = (action, before, after) else {
        return Ok(Err(corrupt()));
    };
    let audit = Audit {
        action,
        actor: row.get(2)?,
        reason: row.get(4)?,
        at: Timestamp::from_micros(row.get(1)?),
        fence: Fence::new(row.get(5)?),
        before,
        after,
    };
    Ok(Ok(AuditEntry { id, audit }))
}

const fn action_name(action: AuditAction) -> &'static str {
    match action {
        AuditAction::Expire => "EXPIRE",
        AuditAction::Resolve => "RESOLVE",
        AuditAction::Reexecute => "REEXECUTE",
    }
}

fn state(code: i16) -> Option<StateName> {
    StateName::ALL.into_iter().find(|name| name.code() == code)
}
