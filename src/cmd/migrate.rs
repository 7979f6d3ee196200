//! `oncegate migrate`: brings a store's schema up to date, or takes it back.

use std::path::Path;

use clap::Args;
use serde_json::json;
use tokio::task::spawn_blocking;

use super::args::FormatArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use crate::config::database::DatabaseUrl;
use crate::config::{self, Flags};
use crate::port::clock::Clock;
use crate::port::store::StoreError;
use crate::store::postgres;
use crate::store::sqlite::{self, SqliteStore};

/// Bring a store's schema up to date, or take it back.
///
/// Several may run at once, and a server may run meanwhile: each version's schema works with the
/// version before. With --down-to, stop all servers first; a step that would lose records or
/// fences is refused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ONCEGATE_DATABASE_URL=postgres://oncegate@db/oncegate oncegate migrate
  oncegate migrate --database-url sqlite://oncegate.db")]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// Take the schema back to this version; 0 takes all tables away.
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u32).range(0..=9999))]
    down_to: Option<u32>,

    #[command(flatten)]
    format: FormatArgs,
}

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store: `sqlite://PATH` or `postgres://USER@HOST:PORT/NAME`. One with a password belongs in
    /// the variable: arguments can be seen by every user of the machine.
    #[arg(
        long,
        env = "ONCEGATE_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL",
        value_parser = database_url
    )]
    pub(crate) database_url: Option<DatabaseUrl>,
}

fn database_url(text: &str) -> Result<DatabaseUrl, String> {
    DatabaseUrl::try_from(text.to_owned())
}

impl StoreArgs {
    /// The store that is named, else the one that `serve` uses if it is told nothing.
    pub(crate) fn url(&self) -> Result<DatabaseUrl, Failure> {
        match &self.database_url {
            Some(named) => Ok(named.clone()),
            None => Ok(config::read(None, [], Flags::new())?.database.url),
        }
    }
}

/// Ends as the store's failure asks for.
pub(crate) fn failed(error: &StoreError) -> Failure {
    let exit = match error {
        StoreError::Unavailable(_) | StoreError::Overloaded | StoreError::OutcomeUnknown(_) => {
            Exit::Unavailable
        }
        StoreError::Unusable(_) => Exit::NotPossible,
        StoreError::Corrupt(_) => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}

pub(crate) async fn migrate(args: MigrateArgs, out: Output) -> Result<Exit, Failure> {
    let url = args.store.url()?;
    let (before, after) = match (&url, args.down_to) {
        (DatabaseUrl::Memory, _) => {
            return Err(Failure::usage("a store in memory has no schema to migrate"));
        }
        (DatabaseUrl::Postgres(url), None) => of_postgres(postgres::migrate(url).await)?,
        (DatabaseUrl::Postgres(url), Some(version)) => {
            of_postgres(postgres::migrate_down(url, version.into()).await)?
        }
        (DatabaseUrl::Sqlite(path), down_to) => {
            let path = path.clone();
            let work = spawn_blocking(move || of_sqlite(&path, down_to)).await;
            work.map_err(|error| Failure::new(Exit::Failed, error.to_string()))??
        }
    };
    let shown = |_| {
        if before == after {
            format!("{url}: the schema is at version {after}; nothing was to be done\n")
        } else {
            format!("{url}: the schema went from version {before} to {after}\n")
        }
    };
    let done = json!({ "store": url.to_string(), "before": before, "after": after });
    out.own(args.format.format, &done, shown)?;
    Ok(Exit::Ok)
}

fn of_postgres(
    report: Result<postgres::MigrationReport, StoreError>,
) -> Result<(i64, i64), Failure> {
    let report = report.map_err(|error| failed(&error))?;
    Ok((report.before, report.after))
}

fn of_sqlite(path: &Path, down_to: Option<u32>) -> Result<(i64, i64), Failure> {
    let version = |path: &Path| -> Result<i64, Failure> {
        if !path.exists() {
            return Ok(0);
        }
        let found = sqlite::migrate::schema_version(path).map_err(|error| failed(&error))?;
        Ok(i64::try_from(found).unwrap_or(i64::MAX))
    };
    let before = version(path)?;
    match down_to {
        None => {
            SqliteStore::open(path, Clock::Database).map_err(|error| failed(&error))?;
        }
        Some(_) if !path.exists() => {
            return Err(Failure::new(
                Exit::NotFound,
                format!("there is no store at {}", path.display()),
            ));
        }
        Some(down_to) => {
            let target = usize::try_from(down_to).unwrap_or(usize::MAX);
            sqlite::migrate::back_to(path, target).map_err(|error| failed(&error))?;
        }
    }
    Ok((before, version(path)?))
}
