//! Namespaces, inside a transaction that its caller has begun.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::sql;
use crate::domain::namespace::Namespace;
use crate::domain::time::Timestamp;
use crate::port::clock::Clock;
use crate::port::store::StoreError;
use crate::store::namespaces::{decode_namespace, encode_namespace};

/// Reads one.
pub(super) fn get(connection: &Connection, name: &str) -> Result<Option<Namespace>, StoreError> {
    let mut statement = connection.prepare_cached(sql::NAMESPACE)?;
    statement.query_row([name], read).optional()?.transpose()
}

/// Reads those after a name.
pub(super) fn list(
    connection: &Connection,
    after: &str,
    limit: u32,
) -> Result<Vec<Namespace>, StoreError> {
    let mut statement = connection.prepare_cached(sql::NAMESPACES)?;
    let found = statement.query_map(params![after, limit], read)?;
    found.map(|namespace| namespace?).collect()
}

/// Stores one in place of exactly the version that its editor saw.
pub(super) fn put(
    connection: &Connection,
    clock: &Clock,
    namespace: Namespace,
) -> Result<Option<Namespace>, StoreError> {
    let body = encode_namespace(&namespace);
    let name = &namespace.name;
    let written = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let stored = if namespace.version == 0 {
        connection
            .prepare_cached(sql::INSERT_NAMESPACE)?
            .query_row(params![clock.injected(), name, body], written)
    } else {
        connection
            .prepare_cached(sql::UPDATE_NAMESPACE)?
            .query_row(params![name, body, namespace.version], written)
    };
    Ok(stored.optional()?.map(|(created_at, version)| Namespace {
        created_at: Timestamp::from_micros(created_at),
        version,
        ..namespace
    }))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Result<Namespace, StoreError>> {
    let body: Vec<u8> = row.get(3)?;
    Ok(decode_namespace(
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        &body,
    ))
}
