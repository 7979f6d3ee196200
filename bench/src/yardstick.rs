//! What a user would write in place of Oncegate: two statements on a table of one's own. It gets
//! every advantage that such code could have: prepared statements, no check of a connection before
//! or after its use, a fence that costs nothing, room for updates in place.

use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, ensure};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::work::{Caller, OUTCOME, Verdict};

/// Connections that all callers share.
pub(crate) const CONNECTIONS: u32 = 32;

const TABLE: &str = "CREATE TABLE yardstick (
    key bytea PRIMARY KEY,
    state smallint NOT NULL,
    fence bigint NOT NULL,
    request_hash bytea NOT NULL,
    outcome bytea,
    reserved_at timestamptz NOT NULL,
    completed_at timestamptz
) WITH (fillfactor = 80)";

// State 1 is running, 2 is completed. A takeover would add one to the fence.
const RESERVE: &str = "INSERT INTO yardstick (key, state, fence, request_hash, reserved_at)
    VALUES ($1, 1, 1, $2, clock_timestamp()) ON CONFLICT (key) DO NOTHING RETURNING fence";
const READ: &str = "SELECT state, request_hash, outcome FROM yardstick WHERE key = $1";
const COMPLETE: &str =
    "UPDATE yardstick SET state = 2, outcome = $3, completed_at = clock_timestamp()
    WHERE key = $1 AND fence = $2 AND state = 1";
const RESERVE_MANY: &str = "INSERT INTO yardstick (key, state, fence, request_hash, reserved_at)
    SELECT key, 1, 1, key, clock_timestamp() FROM unnest($1::bytea[]) AS asked (key)
    ON CONFLICT (key) DO NOTHING";
const COMPLETE_MANY: &str = "UPDATE yardstick AS row
    SET state = 2, outcome = $2, completed_at = clock_timestamp()
    FROM unnest($1::bytea[]) AS done (key) WHERE row.key = done.key AND fence = 1 AND state = 1";

const FACTS: &str = "SELECT current_setting('server_version'),
    to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI \"UTC\"')";

/// The connections. Not the driver's own pool: that asks the server whether a connection lives
/// each time that it is given back.
#[derive(Debug)]
pub(crate) struct Yardstick {
    turns: Semaphore,
    free: Mutex<Vec<PgConnection>>,
}

/// What the database server says about itself.
#[derive(Debug)]
pub(crate) struct ServerFacts {
    pub(crate) version: String,
    /// The time of day by its clock.
    pub(crate) now: String,
}

impl Yardstick {
    /// Connects and makes the table.
    pub(crate) async fn start(url: &str) -> anyhow::Result<Self> {
        let options = PgConnectOptions::from_str(url)?.disable_statement_logging();
        let mut free = Vec::new();
        for _ in 0..CONNECTIONS {
            free.push(PgConnection::connect_with(&options).await?);
        }
        let yardstick = Self {
            turns: Semaphore::new(free.len()),
            free: Mutex::new(free),
        };
        sqlx::query(TABLE)
            .execute(yardstick.lend().await?.connection()?)
            .await?;
        Ok(yardstick)
    }

    pub(crate) async fn facts(&self) -> anyhow::Result<ServerFacts> {
        let (version, now) = sqlx::query_as(FACTS)
            .fetch_one(self.lend().await?.connection()?)
            .await?;
        Ok(ServerFacts { version, now })
    }

    /// A connection, in the order in which callers come.
    async fn lend(&self) -> anyhow::Result<Lent<'_>> {
        let turn = self.turns.acquire().await?;
        let connection = self.free().pop();
        Ok(Lent {
            connection,
            yardstick: self,
            _turn: turn,
        })
    }

    fn free(&self) -> MutexGuard<'_, Vec<PgConnection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that goes back where it came from, before the next caller has its turn.
struct Lent<'a> {
    connection: Option<PgConnection>,
    yardstick: &'a Yardstick,
    _turn: SemaphorePermit<'a>,
}

impl Lent<'_> {
    fn connection(&mut self) -> anyhow::Result<&mut PgConnection> {
        let lent = self.connection.as_mut();
        lent.context("whoever has a turn finds a connection")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.yardstick.free().extend(self.connection.take());
    }
}

impl Caller for Arc<Yardstick> {
    /// The fence.
    type Token = i64;

    async fn reserve(&mut self, key: &str) -> anyhow::Result<Verdict<i64>> {
        let mut lent = self.lend().await?;
        let connection = lent.connection()?;
        let key = key.as_bytes();
        let inserted = sqlx::query_scalar(RESERVE).bind(key).bind(key);
        if let Some(fence) = inserted.fetch_optional(&mut *connection).await? {
            return Ok(Verdict::Granted(fence));
        }
        let (state, request_hash, outcome): (i16, Vec<u8>, Option<Vec<u8>>) =
            sqlx::query_as(READ).bind(key).fetch_one(connection).await?;
        ensure!(request_hash == key, "the key was used for something else");
        if state == 1 {
            return Ok(Verdict::InProgress);
        }
        ensure!(outcome.as_deref() == Some(&OUTCOME[..]), "another outcome");
        Ok(Verdict::Replay)
    }

    async fn complete(&mut self, key: &str, fence: i64) -> anyhow::Result<()> {
        let mut lent = self.lend().await?;
        let query = sqlx::query(COMPLETE).bind(key.as_bytes()).bind(fence);
        let done = query.bind(&OUTCOME[..]).execute(lent.connection()?).await?;
        ensure!(done.rows_affected() == 1, "the outcome was not recorded");
        Ok(())
    }

    async fn batch(&mut self, keys: &[String]) -> anyhow::Result<()> {
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let reserve = sqlx::query(RESERVE_MANY).bind(&keys);
        let reserved = reserve.execute(self.lend().await?.connection()?).await?;
        let complete = sqlx::query(COMPLETE_MANY).bind(&keys).bind(&OUTCOME[..]);
        let done = complete.execute(self.lend().await?.connection()?).await?;
        let counts = (reserved.rows_affected(), done.rows_affected());
        let all = u64::try_from(keys.len())?;
        ensure!(counts == (all, all), "a batch wrote {counts:?} rows");
        Ok(())
    }
}
