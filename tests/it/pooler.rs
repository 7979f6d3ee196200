//! PgBouncer in transaction mode between the store and the server: the store says that it cannot
//! work like that and what to do, whichever way the pooler takes its settings away.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::command::Command;
use oncegate::port::store::{Store, StoreError};
use oncegate::store::postgres::{self, PostgresOptions, PostgresStore};
use oncegate::testkit::databases::TempPostgres;
use oncegate::testkit::load::ask;
use oncegate::testkit::net::free_address;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::cluster::{printed, unprivileged, unprivileged_folder, variable_of};
use crate::rig::{SERVERS, address_in};

/// A PgBouncer in front of one database; ended when it is dropped.
struct Pooler {
    process: Child,
    folder: String,
    port: u16,
}

impl Pooler {
    async fn start(database_url: &str, further: &str) -> Self {
        let folder = unprivileged_folder("pooler").display().to_string();
        let port = free_address().port();
        let server = address_in(database_url);
        let credentials = database_url.trim_start_matches("postgres://");
        let (user, rest) = credentials
            .split_once(':')
            .expect("a password stands in the URL");
        let (password, _) = rest.split_once('@').expect("a password stands in the URL");
        let (_, name) = database_url
            .rsplit_once('/')
            .expect("a database stands in the URL");
        let settings = format!(
            "[databases]\n\
             gate = host={} port={} dbname={name} user={user} password={password}\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\nmax_client_conn = 50\n\
             default_pool_size = 2\nlogfile = {folder}/log\n{further}\n",
            server.ip(),
            server.port(),
        );
        let file = format!("{folder}/pgbouncer.ini");
        let write = format!("umask 077; printf '%s' '{settings}' > {file}");
        printed(&mut unprivileged("/bin/sh", &["-c", &write]));
        let mut command = unprivileged(variable_of("ONCEGATE_TEST_PGBOUNCER"), &["-q", &file]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let pooler = Self {
            process: process.expect("PgBouncer starts"),
            folder,
            port,
        };
        let limit = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(Instant::now() < limit, "PgBouncer does not listen");
            sleep(Duration::from_millis(20)).await;
        }
        pooler
    }

    fn url(&self) -> String {
        format!(
            "postgres://oncegate:x@127.0.0.1:{}/gate?sslmode=disable",
            self.port
        )
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill().and_then(|()| self.process.wait()));
        printed(&mut unprivileged("rm", &["-rf", &self.folder]));
    }
}

// Field case H8. Field case G2.
#[tokio::test]
async fn a_transaction_pooler_is_refused_with_what_to_do() {
    for server in SERVERS {
        let database = TempPostgres::create(server).await;
        postgres::migrate(&database.url())
            .await
            .expect("an empty database migrates");
        for further in ["", "ignore_startup_parameters = options"] {
            let pooler = Pooler::start(&database.url(), further).await;
            let mut options = PostgresOptions::new(pooler.url());
            options.connections = 2;
            options.retry_for = Duration::from_secs(3);
            let store = PostgresStore::connect(&options).expect("the URL is readable");
            let command = Command::Reserve(Arc::new(ask("through the pooler")));
            for refused in [
                store.check().await.map(drop),
                store.apply(command).await.map(drop),
            ] {
                let Err(StoreError::Unusable(text)) = refused else {
                    panic!("{server}, {further:?}: {refused:?}");
                };
                assert!(
                    text.contains("pooler") && text.contains("connect straight"),
                    "{text}"
                );
            }
            store.close().await;
        }
        // The way that the message shows.
        let store = PostgresStore::connect(&PostgresOptions::new(database.url()));
        store
            .expect("the URL is readable")
            .check()
            .await
            .expect("straight to Postgres works");
    }
}
