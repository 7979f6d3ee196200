//! The schema's versions. A store brings an older schema up to date by itself and never takes a
//! newer one back.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use rusqlite_migration::{Error, M, Migrations};

use super::open;
use crate::port::store::StoreError;

const STEPS: &[M<'static>] = &[M::up(include_str!(
    "../../../migrations/sqlite/0001_records.up.sql"
))
.down(include_str!(
    "../../../migrations/sqlite/0001_records.down.sql"
))];

/// The version that this program works with.
pub const SCHEMA_VERSION: usize = STEPS.len();

/// The version of a file's schema; zero: there are no tables. The file must exist.
///
/// # Errors
///
/// `Unusable`: the schema is newer than this version of the program knows. Repeating is safe.
pub fn schema_version(path: &Path) -> Result<usize, StoreError> {
    known_version(&open::connect(path)?)
}

/// Takes the schema of a file that no store has open back to `version`; zero: no tables at all.
///
/// # Errors
///
/// `Unusable`: records or fences would be lost, or the schema is newer than this version of the
/// program knows. Nothing is changed then.
pub fn back_to(path: &Path, version: usize) -> Result<(), StoreError> {
    let mut connection = open::connect(path)?;
    let found = known_version(&connection)?;
    if version > found {
        let problem = format!("the schema is of version {found}: open the store to go further");
        return Err(StoreError::Unusable(problem));
    }
    let migrated = Migrations::from_slice(STEPS).to_version(&mut connection, version);
    migrated.map_err(of)
}

/// Brings the schema up to date.
pub(super) fn up(connection: &mut Connection) -> Result<(), StoreError> {
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    if known_version(connection)? == SCHEMA_VERSION {
        return Ok(());
    }
    let migrated = Migrations::from_slice(STEPS).to_latest(connection);
    match migrated {
        // Another process that opened the same file did it meanwhile: ours found its tables.
        Err(_) if known_version(connection)? == SCHEMA_VERSION => Ok(()),
        Err(failure) => Err(of(failure)),
        Ok(()) => Ok(()),
    }
}

/// The schema's version, and whether the tables are somebody else's.
const LOOK: &str = "SELECT v.user_version, \
       CASE v.user_version \
       WHEN 0 THEN EXISTS (SELECT 1 FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*') \
       ELSE NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'oncegate_record') END \
     FROM pragma_user_version v";

/// The version of the schema that is there; zero: no tables.
pub(super) fn known_version(connection: &Connection) -> Result<usize, StoreError> {
    let (found, is_foreign): (i64, bool) =
        connection.query_row(LOOK, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if is_foreign {
        return Err(StoreError::Unusable(
            "the file holds another program's tables: choose a file of its own".to_owned(),
        ));
    }
    let known = SCHEMA_VERSION;
    match usize::try_from(found) {
        Ok(found) if found <= known => Ok(found),
        Ok(_) | Err(_) => Err(StoreError::Unusable(format!(
            "its schema is of version {found}, this program knows up to {known}: run the newer \
             version of the program"
        ))),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's enum: only the engine's failures are told apart"
)]
fn of(failure: Error) -> StoreError {
    match failure {
        Error::RusqliteError { err, .. }
            if err.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) =>
        {
            let problem = "its schema cannot be taken back: records or fences would be lost";
            StoreError::Unusable(problem.to_owned())
        }
        Error::RusqliteError { err, .. } => err.into(),
        other => {
            tracing::error!(error = %other, "a migration failed");
            StoreError::Unusable("its schema could not be migrated".to_owned())
        }
    }
}
