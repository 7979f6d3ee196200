//! Databases that live as long as one test: a folder, or a database of its own on a running server.
//! A missing server fails the test; nothing is skipped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::conformance::Fixture;
use super::net::free_address;
use crate::port::clock::{Clock, ManualClock};
use crate::port::store::Store as _;
use crate::store::cached::Cached;
use crate::store::memory::MemoryStore;
use crate::store::postgres::{PostgresOptions, PostgresStore, migrate};
use crate::store::sqlite::SqliteStore;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// An empty store in memory.
#[expect(
    clippy::unused_async,
    reason = "the other stores' factories wait for their database"
)]
pub async fn memory(clock: ManualClock) -> Fixture {
    let store = Arc::new(MemoryStore::new(Clock::Manual(clock)));
    Fixture {
        store,
        keep: Box::new(()),
    }
}

/// An empty store in memory, with a replica's memory in front of it.
pub async fn cached_memory(clock: ManualClock) -> Fixture {
    cached(memory(clock.clone()).await, clock)
}

/// An empty store on the newest Postgres that is served, with a replica's memory in front of it.
pub async fn cached_postgres(clock: ManualClock) -> Fixture {
    cached(postgres_18(clock.clone()).await, clock)
}

/// An empty store in memory, whose outcomes are remembered in a Redis.
pub async fn sharing_memory(clock: ManualClock) -> Fixture {
    let redis = std::env::var("ONCEGATE_TEST_REDIS").expect("ONCEGATE_TEST_REDIS names a Redis");
    sharing(memory(clock.clone()).await, clock, &redis).await
}

/// An empty store in memory, whose Redis is away.
pub async fn sharing_nowhere(clock: ManualClock) -> Fixture {
    let nowhere = format!("redis://{}", free_address());
    sharing(memory(clock.clone()).await, clock, &nowhere).await
}

fn cached(behind: Fixture, clock: ManualClock) -> Fixture {
    let store = Cached::new(behind.store, Clock::Manual(clock), 1024 * 1024);
    Fixture {
        store: Arc::new(store),
        keep: behind.keep,
    }
}

/// Without a memory of its own: what it knows it has from Redis.
async fn sharing(behind: Fixture, clock: ManualClock, redis: &str) -> Fixture {
    let redis = redis.parse().expect("a Redis URL");
    let store = Cached::new(behind.store, Clock::Manual(clock), 0).sharing(redis);
    store.token_secrets().await.expect("it has secrets");
    Fixture {
        store: Arc::new(store),
        keep: behind.keep,
    }
}

/// An empty store in a file of its own.
#[expect(
    clippy::unused_async,
    reason = "the other stores' factories wait for their database"
)]
pub async fn sqlite(clock: ManualClock) -> Fixture {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("oncegate.db");
    let store = SqliteStore::open(&path, Clock::Manual(clock)).expect("a new store opens");
    Fixture {
        store: Arc::new(store),
        keep: Box::new(folder),
    }
}

/// An empty store on the oldest Postgres that is served.
pub async fn postgres_15(clock: ManualClock) -> Fixture {
    postgres("ONCEGATE_TEST_POSTGRES_15", clock).await
}

/// An empty store on the newest Postgres that is served.
pub async fn postgres_18(clock: ManualClock) -> Fixture {
    postgres("ONCEGATE_TEST_POSTGRES_18", clock).await
}

async fn postgres(variable: &str, clock: ManualClock) -> Fixture {
    let schema = TempSchema::create(variable).await;
    migrate(&schema.url()).await.expect("the schema is made");
    let clock = Clock::Manual(clock);
    let options = PostgresOptions {
        clock,
        connections: 4,
        ..PostgresOptions::new(schema.url())
    };
    let store = PostgresStore::connect(&options).expect("the URL is read");
    Fixture {
        store: Arc::new(store),
        keep: Box::new(schema),
    }
}

/// A schema of its own in the server's database: as empty as a database of its own, and much
/// cheaper, for dropping a database flushes the whole server. Dropped with this value.
#[derive(Debug)]
pub struct TempSchema {
    server: String,
    name: String,
}

impl TempSchema {
    /// Makes an empty schema on the server whose URL is in the environment variable `variable`.
    pub async fn create(variable: &str) -> Self {
        let (server, name) = (server(variable), unique());
        // Invariant: the name consists of letters, digits and _, so it needs no quoting.
        statement(&server, format!("CREATE SCHEMA {name}")).await;
        Self { server, name }
    }

    /// A URL whose sessions see this schema and no other.
    pub fn url(&self) -> String {
        let joint = if self.server.contains('?') { '&' } else { '?' };
        format!(
            "{}{joint}options=-c%20search_path%3D{}",
            self.server, self.name
        )
    }
}

impl Drop for TempSchema {
    fn drop(&mut self) {
        // Invariant: nothing but this test knows the name.
        drop_by(&self.server, format!("DROP SCHEMA {} CASCADE", self.name));
    }
}

/// A database of its own on the Postgres server behind a superuser's URL. Dropped with this value.
#[derive(Debug)]
pub struct TempPostgres {
    server: String,
    name: String,
}

impl TempPostgres {
    /// Makes an empty database on the server whose URL is in the environment variable `variable`,
    /// `ONCEGATE_TEST_POSTGRES_15` or `ONCEGATE_TEST_POSTGRES_18`.
    pub async fn create(variable: &str) -> Self {
        let (server, name) = (server(variable), unique());
        // Invariant: the name consists of letters, digits and _, so it needs no quoting.
        statement(
            &server,
            format!("CREATE DATABASE {name} TEMPLATE template0"),
        )
        .await;
        Self { server, name }
    }

    /// The database's name: letters, digits and _ only.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The superuser's URL of this database.
    pub fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }
}

impl Drop for TempPostgres {
    fn drop(&mut self) {
        // Invariant: nothing but this test knows the name; FORCE ends what is still connected.
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        drop_by(&self.server, sql);
    }
}

/// Carries out what drops something, from a thread of its own: the test's runtime may be on its
/// way out.
fn drop_by(server: &str, sql: String) {
    let server = server.to_owned();
    let dropping = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .expect("a runtime starts")
            .block_on(statement(&server, sql));
    });
    let dropped = dropping.join();
    assert!(
        dropped.is_ok() || std::thread::panicking(),
        "what a test made could not be dropped"
    );
}

fn server(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} must hold a Postgres superuser's URL"))
}

fn unique() -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("oncegate_test_{}_{number}_{}", std::process::id(), random())
}

async fn statement(url: &str, sql: String) {
    let mut connection = PgConnection::connect(url)
        .await
        .expect("the server answers");
    connection
        .execute(AssertSqlSafe(sql))
        .await
        .expect("the statement is carried out");
    connection.close().await.expect("the connection closes");
}

/// The same URL with another database's name.
fn with_database(url: &str, name: &str) -> String {
    let (base, options) = url
        .split_once('?')
        .map_or((url, None), |(base, o)| (base, Some(o)));
    let scheme = base.find("://").map_or(0, |at| at + 3);
    let host_end = base[scheme..]
        .find('/')
        .map_or(base.len(), |at| scheme + at);
    let options = options.map_or_else(String::new, |options| format!("?{options}"));
    format!("{}/{name}{options}", &base[..host_end])
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the operating system has random bytes");
    u32::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_databases_name_changes_in_a_url() {
        for (url, want) in [
            ("postgres://u:p@h:1/postgres", "postgres://u:p@h:1/x"),
            ("postgres://u@h:1", "postgres://u@h:1/x"),
            (
                "postgres://u@h/a?sslmode=disable",
                "postgres://u@h/x?sslmode=disable",
            ),
        ] {
            assert_eq!(with_database(url, "x"), want);
        }
    }
}
