//! That what is acknowledged has reached the disk. A killed process leaves its writes to the
//! kernel, so only counting flushes shows it: one caller asks one thing after the other, so that no
//! two writes can share a flush, and there must be at least as many flushes as answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use oncegate::domain::command::ReserveVerdict;
use oncegate::domain::token::Token;
use oncegate::proto::v1 as pb;
use oncegate::store::postgres::{self, PostgresOptions, PostgresStore};
use oncegate::testkit::load;
use oncegate::testkit::process::Server;
use oncegate::testkit::values::outcome;
use pb::reserve_response::Verdict;
use tempfile::TempDir;

use crate::client::{ask, complete, completion, gate, insist, program, reserve};
use crate::cluster::{Cluster, PROGRAMS};
use crate::rig::alone;

/// Keys reserved and completed: two writes for each.
const KEYS: i64 = 100;

/// The server under `strace`, which writes each flush down before the server goes on.
pub(crate) struct Traced {
    pub(crate) program: PathBuf,
    trace: PathBuf,
    _folder: TempDir,
}

impl Traced {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (script, trace) = (folder.path().join("traced"), folder.path().join("flushes"));
        let text = format!(
            "#!/bin/sh\nexec strace -D -f -q --seccomp-bpf -e trace=fsync,fdatasync -A -o '{}' \
             '{}' \"$@\"\n",
            trace.display(),
            program().display()
        );
        fs::write(&script, text).expect("the script is written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it can be run");
        Self {
            program: script,
            trace,
            _folder: folder,
        }
    }

    /// Flushes that succeeded so far, over all runs of the program.
    pub(crate) fn flushes(&self) -> usize {
        let text = fs::read_to_string(&self.trace).expect("strace is installed: see scripts/test");
        text.lines()
            .filter(|line| line.contains("sync") && line.ends_with("= 0"))
            .count()
    }
}

#[tokio::test]
async fn every_write_that_sqlite_acknowledges_was_flushed() {
    let _alone = alone().await;
    let traced = Traced::new();
    let server = Server::start(&traced.program).await;
    let gate = gate(&server);
    // The first call makes the namespace.
    insist(|| async { reserve(&gate, &ask("warm-up")).await }).await;
    for n in 0..KEYS {
        let name = format!("flushed-{n}");
        let request = ask(&name);
        let before = traced.flushes();
        let answer = insist(|| reserve(&gate, &request)).await;
        let Some(Verdict::Granted(granted)) = answer.verdict else {
            panic!("{answer:?}")
        };
        assert!(traced.flushes() > before, "GRANTED without a flush");

        let request = completion(&name, &granted.token, &name);
        let before = traced.flushes();
        insist(|| complete(&gate, &request)).await;
        assert!(traced.flushes() > before, "RECORDED without a flush");
    }
}

#[tokio::test]
async fn every_write_that_postgres_acknowledges_was_flushed() {
    let _alone = alone().await;
    for programs in PROGRAMS {
        let cluster = Cluster::start(programs);
        postgres::migrate(&cluster.url())
            .await
            .expect("an empty database migrates");
        // Nobody else uses this server.
        let before = cluster.wal_flushes().await;
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
        store.close().await;
        cluster.has_flushed(before + 2 * KEYS).await;
    }
}
