//! The store, as a server would find it.

use std::time::Duration;

use tokio::task::spawn_blocking;

use super::Check;
use crate::cmd::failure::Failure;
use crate::cmd::migrate::StoreArgs;
use crate::cmd::text;
use crate::config::database::DatabaseUrl;
use crate::domain::time::Timestamp;
use crate::port::clock::Clock;
use crate::port::store::{Health, Store, StoreError};
use crate::store::postgres::{self, PostgresOptions, PostgresStore};
use crate::store::sqlite::{self, SqliteStore};

/// From here on, log lines of the two machines are hard to put in order.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(2);

pub(super) async fn look(args: &StoreArgs) -> Result<Vec<Check>, Failure> {
    let url = args.url()?;
    if let (None, DatabaseUrl::Sqlite(path)) = (&args.database_url, &url)
        && !path.exists()
    {
        let path = path.display();
        let found = format!("not looked at: none is named and there is no ./{path}");
        return Ok(vec![Check::ok("store", found)]);
    }
    let mut checks = Vec::new();
    let opened = match &url {
        DatabaseUrl::Memory => {
            let found = "in memory: gone when its server ends";
            return Ok(vec![Check::ok("store", found)]);
        }
        DatabaseUrl::Sqlite(path) => open_sqlite(path.clone(), &mut checks).await,
        DatabaseUrl::Postgres(url) => open_postgres(url, &mut checks).await,
    };
    match opened {
        Ok(Some(store)) => settings(store.as_ref(), &url, &mut checks).await,
        Ok(None) => {}
        Err(error) => checks.push(unusable(&url, &error)),
    }
    Ok(checks)
}

fn unusable(url: &DatabaseUrl, error: &StoreError) -> Check {
    let advice = match error {
        StoreError::Unavailable(_) | StoreError::Overloaded | StoreError::OutcomeUnknown(_) => {
            "is it running, and is the address right?"
        }
        StoreError::Unusable(_) => "do what the text says, then look again",
        StoreError::Corrupt(_) => "restore it from a backup",
    };
    Check::problem("store", format!("{url}: {error}"), advice)
}

/// Opens the file only if its schema is this version's: opening it would bring it up to date.
async fn open_sqlite(
    path: std::path::PathBuf,
    checks: &mut Vec<Check>,
) -> Result<Option<Box<dyn Store>>, StoreError> {
    if !path.exists() {
        let found = format!("there is no file {}", path.display());
        let advice = "start `oncegate serve` where it is, or name it with --database-url";
        checks.push(Check::problem("store", found, advice));
        return Ok(None);
    }
    let work = spawn_blocking(move || {
        let found = sqlite::migrate::schema_version(&path)?;
        let ours = found == sqlite::migrate::SCHEMA_VERSION;
        let open = || SqliteStore::open(&path, Clock::Database);
        Ok::<_, StoreError>((found, ours.then(open).transpose()?))
    });
    let (found, store) = work
        .await
        .map_err(|error| StoreError::Unavailable(error.to_string()))??;
    let known = i64::try_from(sqlite::migrate::SCHEMA_VERSION).unwrap_or(i64::MAX);
    checks.push(schema(i64::try_from(found).unwrap_or(i64::MAX), known));
    Ok(store.map(|store| Box::new(store) as Box<dyn Store>))
}

async fn open_postgres(
    url: &str,
    checks: &mut Vec<Check>,
) -> Result<Option<Box<dyn Store>>, StoreError> {
    let found = postgres::schema_version(url).await?;
    checks.push(schema(found, postgres::SCHEMA_VERSION));
    if found != postgres::SCHEMA_VERSION {
        return Ok(None);
    }
    let store = PostgresStore::connect(&PostgresOptions {
        connections: 1,
        ..PostgresOptions::new(url)
    })?;
    Ok(Some(Box::new(store)))
}

fn schema(found: i64, known: i64) -> Check {
    if found == known {
        return Check::ok("schema", format!("version {found}"));
    }
    let text = format!("version {found}; this program works with version {known}");
    let advice = if found < known {
        "run `oncegate migrate`"
    } else {
        "use the newer version of this program"
    };
    Check::problem("schema", text, advice)
}

async fn settings(store: &dyn Store, url: &DatabaseUrl, checks: &mut Vec<Check>) {
    let health = match store.check().await {
        Ok(health) => health,
        Err(error) => return checks.push(unusable(url, &error)),
    };
    let engine = format!("{url}: {} {}", health.engine, health.engine_version);
    checks.insert(0, Check::ok("store", engine));
    let listed: Vec<_> = health
        .settings
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    checks.push(Check::ok("settings", listed.join(" ")));
    checks.push(Check::ok("writable", "yes"));
    checks.push(clock(&health));
}

fn clock(health: &Health) -> Check {
    let here = Timestamp::from_micros(jiff::Timestamp::now().as_microsecond());
    let apart = here.since(health.now).max(health.now.since(here));
    let found = format!("differs from this machine's by {}", text::span(apart));
    if apart <= CLOCK_DIFFERENCE_MAX {
        return Check::ok("clock", found);
    }
    let advice = "set both by NTP: the gate trusts the database's clock alone, but logs will not \
                  fit together";
    Check::problem("clock", found, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_is_not_ours_names_the_command() {
        assert!(schema(1, 1).ok);
        assert!(schema(0, 1).advice.contains("oncegate migrate"));
        assert!(schema(2, 1).advice.contains("newer version"));
    }

    #[test]
    fn a_clock_far_away_is_a_problem() {
        let at = |seconds: u64| {
            let now = Timestamp::from_micros(jiff::Timestamp::now().as_microsecond());
            Health {
                engine: "memory",
                engine_version: String::new(),
                schema_version: 1,
                settings: Vec::new(),
                now: now.plus(Duration::from_secs(seconds)),
            }
        };
        assert!(clock(&at(0)).ok);
        assert!(!clock(&at(60)).ok);
    }
}
