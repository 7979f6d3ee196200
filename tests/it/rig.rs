//! What the storms share: a Postgres store behind a proxy that breaks, a second way into its
//! database, and a guard inside it that refuses what no rule allows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oncegate::port::store::Store;
use oncegate::store::postgres::{self, PostgresOptions, PostgresStore};
use oncegate::testkit::chaos_proxy::ChaosProxy;
use oncegate::testkit::databases::TempPostgres;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

/// Every supported server, by the variable that holds its URL.
pub(crate) const SERVERS: [&str; 2] = ["ONCEGATE_TEST_POSTGRES_15", "ONCEGATE_TEST_POSTGRES_18"];

/// Tests that load the machine, or measure it, run one at a time.
pub(crate) async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// Refuses every transition that would break the promise: out of COMPLETED to anything but EXPIRED,
/// a second GRANTED in one generation but after a Release, a fence or generation that falls, and
/// the loss of a record.
const GUARD: &str = "
CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'guard: a record was deleted';
    END IF;
    IF OLD.state = 4 AND NEW.state NOT IN (4, 6) THEN
        RAISE EXCEPTION 'guard: COMPLETED became %', NEW.state;
    END IF;
    IF OLD.state = 4 AND NEW.state = 4 AND NEW.payload IS DISTINCT FROM OLD.payload THEN
        RAISE EXCEPTION 'guard: an outcome was replaced';
    END IF;
    IF NEW.state = 1 AND NEW.generation = OLD.generation AND NEW.fence <> OLD.fence
        AND OLD.state <> 3
    THEN
        RAISE EXCEPTION 'guard: granted twice, from %', OLD.state;
    END IF;
    IF NEW.fence < OLD.fence OR NEW.generation < OLD.generation OR NEW.version <= OLD.version THEN
        RAISE EXCEPTION 'guard: a number fell';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON oncegate_record
    FOR EACH ROW EXECUTE FUNCTION guard();
";

/// A database with the schema and the guard, a store that reaches it through a proxy, and a
/// connection that does not.
pub(crate) struct Rig {
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) proxy: ChaosProxy,
    pub(crate) sql: PgConnection,
    pub(crate) database: TempPostgres,
    options: PostgresOptions,
}

impl Rig {
    /// With the options that `tune` leaves.
    pub(crate) async fn start(server: &str, tune: impl FnOnce(&mut PostgresOptions)) -> Self {
        let database = TempPostgres::create(server).await;
        postgres::migrate(&database.url())
            .await
            .expect("an empty database migrates");
        let mut sql = PgConnection::connect(&database.url())
            .await
            .expect("the server answers");
        sql.execute(GUARD).await.expect("the guard is set");
        let proxy = ChaosProxy::in_front_of(address_in(&database.url())).expect("a free port");
        let mut options = PostgresOptions::new(with_address(&database.url(), proxy.address()));
        tune(&mut options);
        let store = Arc::new(PostgresStore::connect(&options).expect("the URL is readable"));
        Self {
            store,
            proxy,
            sql,
            database,
            options,
        }
    }

    /// A store as another process would have it, on the same database.
    pub(crate) fn another_store(&self) -> Arc<PostgresStore> {
        Arc::new(PostgresStore::connect(&self.options).expect("the URL is readable"))
    }

    /// A number that a statement reads, past the proxy.
    pub(crate) async fn number(&mut self, statement: &str) -> i64 {
        number(&mut self.sql, statement).await
    }

    /// Runs statements past the proxy.
    pub(crate) async fn run(&mut self, statements: &str) {
        let statements = AssertSqlSafe(statements.to_owned());
        self.sql
            .execute(statements)
            .await
            .expect("the statements are carried out");
    }

    /// Sessions of the store in a state of `pg_stat_activity`, e.g. `idle in transaction`.
    pub(crate) async fn sessions(&mut self, condition: &str) -> i64 {
        sessions(&mut self.sql, condition).await
    }

    /// Waits until the store answers again, at most `limit`.
    pub(crate) async fn recovers_within(&self, limit: Duration) -> Duration {
        recovers_within(self.store.as_ref(), limit).await
    }
}

pub(crate) async fn recovers_within(store: &dyn Store, limit: Duration) -> Duration {
    let before = Instant::now();
    while let Err(error) = store.check().await {
        assert!(before.elapsed() < limit, "still away: {error}");
        sleep(Duration::from_millis(10)).await;
    }
    assert!(
        before.elapsed() < limit,
        "back only after {:?}",
        before.elapsed()
    );
    before.elapsed()
}

pub(crate) async fn number(sql: &mut PgConnection, statement: &str) -> i64 {
    let row = sqlx::query(AssertSqlSafe(statement.to_owned()))
        .fetch_one(sql)
        .await;
    row.expect("the statement is carried out").get(0)
}

/// Counts the sessions of stores in this database for which the condition holds.
pub(crate) async fn sessions(sql: &mut PgConnection, condition: &str) -> i64 {
    let statement = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND application_name = 'oncegate' AND ({condition})"
    );
    number(sql, &statement).await
}

/// The server's address in a URL.
pub(crate) fn address_in(url: &str) -> SocketAddr {
    let (_, place) = url.rsplit_once('@').expect("a user stands in the URL");
    let end = place.find('/').unwrap_or(place.len());
    place[..end].parse().expect("an address and a port")
}

/// The same URL at another address.
pub(crate) fn with_address(url: &str, address: SocketAddr) -> String {
    url.replacen(&format!("@{}", address_in(url)), &format!("@{address}"), 1)
}
