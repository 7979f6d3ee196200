//! What is particular to the Postgres store: its schema, its settings, its connections. What every
//! store must do is in the conformance suite. Every test runs on each supported server.

#![expect(clippy::panic, reason = "a helper that fails fails its test")]

mod batches;
mod connection;
mod schema;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::command::{Answer, Command, Reserve, ReserveVerdict};
use oncegate::domain::policy::Terms;
use oncegate::domain::record::RequestId;
use oncegate::domain::token::Token;
use oncegate::port::store::{Store, StoreError};
use oncegate::store::postgres::{self, PostgresOptions, PostgresStore};
use oncegate::testkit::databases::TempPostgres;
use oncegate::testkit::load::{ask, completion};
use oncegate::testkit::values::{key_of as key, outcome};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// A database of a test's own on one of the servers.
struct Database {
    url: String,
    /// Dropped with this value, also when the test fails.
    keep: TempPostgres,
}

impl Database {
    /// One empty database on each supported server.
    async fn on_each_server() -> Vec<Self> {
        let mut databases = Vec::new();
        for variable in ["ONCEGATE_TEST_POSTGRES_15", "ONCEGATE_TEST_POSTGRES_18"] {
            let keep = TempPostgres::create(variable).await;
            let url = keep.url();
            databases.push(Self { url, keep });
        }
        databases
    }

    fn name(&self) -> &str {
        self.keep.name()
    }

    /// The same, each with the schema.
    async fn migrated() -> Vec<Self> {
        let databases = Self::on_each_server().await;
        for database in &databases {
            postgres::migrate(&database.url)
                .await
                .expect("an empty database migrates");
        }
        databases
    }

    fn options(&self) -> PostgresOptions {
        PostgresOptions {
            connections: 4,
            ..PostgresOptions::new(self.url.clone())
        }
    }

    fn store(&self) -> PostgresStore {
        PostgresStore::connect(&self.options()).expect("the URL can be read")
    }

    async fn connection(&self) -> PgConnection {
        PgConnection::connect(&self.url)
            .await
            .expect("the server is up")
    }

    /// Runs statements inside the database.
    async fn run(&self, statements: &str) {
        let mut connection = self.connection().await;
        connection
            .execute(AssertSqlSafe(statements.to_owned()))
            .await
            .expect(statements);
    }
}

fn reserve(name: &str, request: u8) -> Command {
    Command::Reserve(Arc::new(Reserve {
        request_id: RequestId::from_bytes([request; 16]),
        ..ask(name)
    }))
}

/// Reserves a new key and gives the reservation's token.
async fn granted(store: &PostgresStore, name: &str) -> Token {
    let answer = store
        .apply(reserve(name, 1))
        .await
        .expect("the store is up");
    let Answer::Reserve(reserved) = answer else {
        panic!("{answer:?}");
    };
    let ReserveVerdict::Granted(grant) = reserved.verdict else {
        panic!("{reserved:?}");
    };
    Token {
        generation: grant.generation,
        fence: grant.fence,
    }
}

/// Reserves a new key and completes it.
async fn completed(store: &PostgresStore, name: &str) {
    let token = granted(store, name).await;
    let answer = store.apply(completion(name, token, outcome("done"))).await;
    assert!(matches!(answer, Ok(Answer::Complete(_))), "{answer:?}");
}
