//! That what is acknowledged has reached the disk. A killed process leaves its writes to the
//! kernel, so only counting flushes shows it: one caller asks one thing after the other, so that no
//! two writes can share a flush, and there must be at least as many flushes as answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use oncegate::domain::command::ReserveVerdict;
use oncegate::domain::token::Token;
use oncegate::proto::v1 as pb;
use oncegate::store::postgres::{self, PostgresOptions, PostgresStore};
use oncegate::testkit::load;
use oncegate::testkit::process::Server;
use oncegate::testkit::values::outcome;
use pb::reserve_response::Verdict;
use sqlx::{Connection, PgConnection};

use crate::client::{ask, complete, completion, gate, insist, program, reserve};
use crate::cluster::Cluster;
use crate::rig::{alone, number};

/// Keys reserved and completed: two writes for each.
const KEYS: usize = 100;

/// The server under `strace`, which writes each flush down before the server goes on.
fn traced(folder: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (script, trace) = (folder.join("traced"), folder.join("flushes"));
    let text = format!(
        "#!/bin/sh\nexec strace -D -f -q -e trace=fsync,fdatasync -o '{}' '{}' \"$@\"\n",
        trace.display(),
        program().display()
    );
    fs::write(&script, text).expect("the script is written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it can be run");
    (script, trace)
}

/// Flushes that succeeded so far.
fn flushes(trace: &std::path::Path) -> usize {
    let text = fs::read_to_string(trace).expect("strace is installed: see scripts/test");
    text.lines()
        .filter(|line| line.contains("sync") && line.ends_with("= 0"))
        .count()
}

#[tokio::test]
async fn every_write_that_sqlite_acknowledges_was_flushed() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (script, trace) = traced(folder.path());
    let server = Server::start(script).await;
    let gate = gate(&server);
    // The first call makes the namespace.
    insist(|| async { reserve(&gate, &ask("warm-up")).await }).await;
    for n in 0..KEYS {
        let name = format!("flushed-{n}");
        let request = ask(&name);
        let before = flushes(&trace);
        let answer = insist(|| reserve(&gate, &request)).await;
        let Some(Verdict::Granted(granted)) = answer.verdict else {
            panic!("{answer:?}")
        };
        assert!(flushes(&trace) > before, "GRANTED without a flush");

        let request = completion(&name, &granted.token, &name);
        let before = flushes(&trace);
        insist(|| complete(&gate, &request)).await;
        assert!(flushes(&trace) > before, "RECORDED without a flush");
    }
}

#[tokio::test]
async fn every_write_that_postgres_acknowledges_was_flushed() {
    let _alone = alone().await;
    let by_version = [
        (
            "ONCEGATE_TEST_PG_BIN_15",
            "SELECT wal_sync::int8 FROM pg_stat_wal",
        ),
        (
            "ONCEGATE_TEST_PG_BIN_18",
            "SELECT sum(fsyncs)::int8 FROM pg_stat_io WHERE object = 'wal'",
        ),
    ];
    for (programs, flushes) in by_version {
        let cluster = Cluster::start(programs);
        postgres::migrate(&cluster.url())
            .await
            .expect("an empty database migrates");
        let mut sql = PgConnection::connect(&cluster.url())
            .await
            .expect("the server answers");
        // Nobody else uses this server, and nothing is counted twice.
        let before = number(&mut sql, flushes).await;
        let options = PostgresOptions {
            connections: 1,
            ..PostgresOptions::new(cluster.url())
        };
        let store = PostgresStore::connect(&options).expect("the URL is readable");
        for n in 0..KEYS {
            let name = format!("flushed-{n}");
            let ReserveVerdict::Granted(grant) = load::reserve(&store, &load::ask(&name)).await
            else {
                panic!("not granted");
            };
            let token = Token {
                generation: grant.generation,
                fence: grant.fence,
            };
            load::complete(&store, &name, token, outcome(&name)).await;
        }
        // A session reports what it counted when it ends.
        store.close().await;
        let mut flushed = 0;
        for _ in 0..100 {
            flushed = number(&mut sql, flushes).await - before;
            if flushed >= 2 * i64::try_from(KEYS).unwrap_or(i64::MAX) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(
            flushed >= 200,
            "{programs}: {flushed} flushes for 200 writes"
        );
    }
}
