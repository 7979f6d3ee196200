//! A worker's own connection: opened with our settings, checked, and every statement on it bounded
//! in time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Connection, Postgres};

use super::error::{Access, Failure, classify};
use super::settings::{Asked, Settings};
use super::{PostgresOptions, row, sql};
use crate::port::clock::Clock;
use crate::port::store::StoreError;

/// How much longer than the server's own limit a statement is waited for: then the network or the
/// server is gone.
const GRACE: Duration = Duration::from_secs(1);

/// Where and how to connect.
#[derive(Clone)]
pub(super) struct Target {
    options: PgConnectOptions,
    asked: Asked,
    connect_timeout: Duration,
    clock: Clock,
}

/// Without the options: they hold the password.
impl fmt::Debug for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("Target");
        out.field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// Reads the URL. Its text, which holds the password, is never repeated.
pub(super) fn parse(url: &str) -> Result<PgConnectOptions, StoreError> {
    let unreadable = || {
        let text =
            "the database's URL cannot be read: it must be postgres://USER@HOST:PORT/DATABASE";
        StoreError::Unusable(text.to_owned())
    };
    let options = PgConnectOptions::from_str(url).map_err(|_error| unreadable())?;
    // The driver's own log would show statements with every caller's call.
    Ok(options
        .application_name("oncegate")
        .disable_statement_logging())
}

impl Target {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        let asked = Asked {
            statement_timeout: options.statement_timeout,
            lock_timeout: options.lock_timeout,
        };
        Ok(Self {
            options: parse(&options.url)?.options(asked.options()),
            asked,
            connect_timeout: options.connect_timeout,
            clock: options.clock.clone(),
        })
    }

    /// Opens a connection and makes sure that it is what was asked for.
    pub(super) async fn open(&self) -> Result<Session, Failure> {
        let connecting = PgConnection::connect_with(&self.options);
        let connected = tokio::time::timeout(self.connect_timeout, connecting).await;
        let connected =
            connected.map_err(|_elapsed| Failure::unreachable("the database cannot be reached"))?;
        let connection = connected.map_err(|error| classify(&error, Access::Read))?;
        let mut session = Session {
            connection,
            asked: self.asked.clone(),
            clock: self.clock.clone(),
        };
        session.settings().await?;
        Ok(session)
    }
}

/// An open connection. Whoever gets a [`Failure::Broken`] from it drops it.
#[derive(Debug)]
pub(super) struct Session {
    connection: PgConnection,
    asked: Asked,
    clock: Clock,
}

impl Session {
    /// The time to use in place of the database's.
    pub(super) fn injected_now(&self) -> Option<i64> {
        self.clock.injected()
    }

    /// What the session really got; an error if it may not be used.
    pub(super) async fn settings(&mut self) -> Result<Settings, Failure> {
        let query = sqlx::query(sql::SETTINGS).bind(self.injected_now());
        let rows = self.all(Access::Read, query).await?;
        let settings = rows
            .iter()
            .map(|row| Ok((row::get(row, "name")?, row::get(row, "setting")?)));
        let settings = Settings::new(settings.collect::<Result<Vec<_>, Failure>>()?);
        settings.judge(&self.asked)?;
        Ok(settings)
    }

    /// All rows of a statement.
    pub(super) async fn all(
        &mut self,
        access: Access,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, Failure> {
        let limit = self.limit();
        bounded(limit, access, query.fetch_all(&mut self.connection)).await
    }

    /// The row of a statement that has one or none.
    pub(super) async fn optional(
        &mut self,
        access: Access,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Option<PgRow>, Failure> {
        let limit = self.limit();
        bounded(limit, access, query.fetch_optional(&mut self.connection)).await
    }

    /// The row of a statement that always has one.
    pub(super) async fn one(
        &mut self,
        access: Access,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<PgRow, Failure> {
        let limit = self.limit();
        bounded(limit, access, query.fetch_one(&mut self.connection)).await
    }

    /// How many rows a statement wrote.
    pub(super) async fn execute(
        &mut self,
        access: Access,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<u64, Failure> {
        let limit = self.limit();
        let done = bounded(limit, access, query.execute(&mut self.connection)).await?;
        Ok(done.rows_affected())
    }

    fn limit(&self) -> Duration {
        self.asked.statement_timeout.saturating_add(GRACE)
    }
}

async fn bounded<T>(
    limit: Duration,
    access: Access,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done.map_err(|error| classify(&error, access)),
        Err(_elapsed) => Err(Failure::Broken {
            reason: "the database did not answer in time".to_owned(),
            wrote: access == Access::Write,
        }),
    }
}
