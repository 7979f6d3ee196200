//! The schema's versions: what `oncegate migrate` does, and what a server must find.

use sqlx::Connection;
use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnection, PgDatabaseError};

use super::error::{Access, Failure, classify};
use super::{row, session, settings, sql};
use crate::port::store::StoreError;

/// The version that this program works with.
pub const SCHEMA_VERSION: i64 = 1;

/// Not the name that the driver would take: another program in the same database may use that.
const TABLE: &str = "oncegate_migrations";

/// What [`migrate`] and [`migrate_down`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationReport {
    /// The version that was found; zero: none.
    pub before: i64,
    /// The version that the schema has now.
    pub after: i64,
}

/// Brings the schema to [`SCHEMA_VERSION`]. Several may run at once: one works, the others wait
/// for it and find the work done.
///
/// # Errors
///
/// `Unusable`: the schema is not one that this program can bring there. Repeating is safe.
pub async fn migrate(url: &str) -> Result<MigrationReport, StoreError> {
    let mut connection = connect(url).await?;
    let before = version(&mut connection).await?;
    migrator()
        .run(&mut connection)
        .await
        .map_err(|error| told(&error))?;
    let after = version(&mut connection).await?;
    Ok(MigrationReport { before, after })
}

/// Takes the schema back to `target`; zero: to nothing.
///
/// # Errors
///
/// `Unusable`: it would lose records or fences, or the schema is not one of this program's.
/// Repeating is safe.
pub async fn migrate_down(url: &str, target: i64) -> Result<MigrationReport, StoreError> {
    let mut connection = connect(url).await?;
    let before = version(&mut connection).await?;
    migrator()
        .undo(&mut connection, target)
        .await
        .map_err(|error| told(&error))?;
    let after = version(&mut connection).await?;
    Ok(MigrationReport { before, after })
}

/// The version that the schema has; zero: there is none.
///
/// # Errors
///
/// The database cannot be reached or refuses. Repeating is safe.
pub async fn schema_version(url: &str) -> Result<i64, StoreError> {
    version(&mut connect(url).await?).await
}

/// Whether this program works with a schema of that version. `clean`: no migration stopped
/// half-way.
pub(super) fn judge(version: i64, clean: bool) -> Result<(), StoreError> {
    let unusable = |text: String| Err(StoreError::Unusable(text));
    if !clean {
        return unusable("a migration stopped half-way: run `oncegate migrate`".to_owned());
    }
    if version < SCHEMA_VERSION {
        return unusable(format!(
            "the schema has version {version} and {SCHEMA_VERSION} is needed: run `oncegate migrate`"
        ));
    }
    if version > SCHEMA_VERSION {
        return unusable(format!(
            "the schema has version {version}, and this program knows {SCHEMA_VERSION}: run a newer \
             oncegate, or take the schema back with that one's `oncegate migrate`"
        ));
    }
    Ok(())
}

fn migrator() -> Migrator {
    let step = |kind, text: &'static str| {
        Migration::new(1, "records".into(), kind, text.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(vec![
        step(
            MigrationType::ReversibleUp,
            include_str!("../../../migrations/postgres/0001_records.up.sql"),
        ),
        step(
            MigrationType::ReversibleDown,
            include_str!("../../../migrations/postgres/0001_records.down.sql"),
        ),
    ]);
    migrator.dangerous_set_table_name(TABLE);
    migrator
}

/// Without the server's limits: a migration takes as long as it takes, and a second runner waits
/// for the first.
async fn connect(url: &str) -> Result<PgConnection, StoreError> {
    let options = session::parse(url)?;
    let options = options.options([("statement_timeout", "0"), ("lock_timeout", "0")]);
    let connected = PgConnection::connect_with(&options).await;
    let connection = connected.map_err(|error| classify(&error, Access::Read).told(false))?;
    // A server that hides its version is judged when it is used.
    if let Some(version) = connection.server_version_num() {
        settings::judge_version(&format!("{}.{}", version / 10_000, version % 10_000))?;
    }
    Ok(connection)
}

async fn version(connection: &mut PgConnection) -> Result<i64, StoreError> {
    match sqlx::query(sql::SCHEMA_VERSION).fetch_one(connection).await {
        Ok(row) => row::get(&row, "version").map_err(|failure: Failure| failure.told(false)),
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42P01") => Ok(0),
        Err(error) => Err(classify(&error, Access::Read).told(false)),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the driver's errors are open to new ones"
)]
fn told(error: &MigrateError) -> StoreError {
    let text = match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            return refused(error);
        }
        MigrateError::VersionMissing(version) => format!(
            "the schema has migration {version}, which this program does not know: run a newer \
             oncegate"
        ),
        MigrateError::VersionMismatch(version) => format!(
            "migration {version} was applied in another form than this program's: run the \
             oncegate that applied it"
        ),
        MigrateError::Dirty(version) => format!("migration {version} stopped half-way"),
        _ => "the migration cannot be carried out".to_owned(),
    };
    StoreError::Unusable(text)
}

fn refused(error: &sqlx::Error) -> StoreError {
    let server = error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    let text = match server.map(PgDatabaseError::code) {
        Some("55000") => {
            "the schema is not taken back while there are records: a key without its record would \
             run a second time"
        }
        Some("42501") => {
            "the database role may not change the schema: run `oncegate migrate` as its owner"
        }
        Some(_) | None => return classify(error, Access::Write).told(false),
    };
    StoreError::Unusable(text.to_owned())
}
