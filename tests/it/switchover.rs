//! A server that reads and does not write: a primary made read-only under open sessions, and a
//! standby that is promoted. Its sessions look healthy; none of them may be kept.

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::command::ReserveVerdict;
use oncegate::port::store::{Store, StoreError};
use oncegate::store::postgres::{self, PostgresOptions, PostgresStore};
use oncegate::testkit::load::{Ledger, ask, reserve, work};

use crate::cluster::{Cluster, PROGRAMS};
use crate::rig::{alone, recovers_within};

/// How soon the store works again once it can.
const BACK_WITHIN: Duration = Duration::from_secs(3);

async fn store_on(cluster: &Cluster) -> PostgresStore {
    postgres::migrate(&cluster.url())
        .await
        .expect("an empty database migrates");
    let mut options = PostgresOptions::new(cluster.url());
    options.connections = 2;
    options.retry_for = Duration::from_millis(300);
    PostgresStore::connect(&options).expect("the URL is readable")
}

async fn writes_nothing(store: &PostgresStore, state: &str) {
    for key in ["new", "done"] {
        let command = oncegate::domain::command::Command::Reserve(Arc::new(ask(key)));
        let answer = store.apply(command).await;
        // What is already known to have happened may be told from a session that only reads.
        let replayed = key == "done" && answer.is_ok();
        assert!(
            replayed
                || matches!(
                    answer,
                    Err(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_))
                ),
            "{state}: {answer:?}"
        );
    }
    let ready = store.check().await;
    assert!(
        matches!(ready, Err(StoreError::Unavailable(_))),
        "{state}: {ready:?}"
    );
}

async fn is_back(store: &PostgresStore, ledger: &Ledger, key: &str) {
    recovers_within(store, BACK_WITHIN).await;
    assert!(work(store, ledger, key).await);
    let verdict = reserve(store, &ask("done")).await;
    assert!(matches!(verdict, ReserveVerdict::Replay(_)), "{verdict:?}");
}

// Field case H4. Field case G1.
#[tokio::test]
async fn a_server_that_only_reads_grants_nothing_and_its_sessions_are_given_up() {
    let _alone = alone().await;
    for programs in PROGRAMS {
        let cluster = Cluster::start(programs);
        let store = store_on(&cluster).await;
        let ledger = Ledger::default();
        assert!(work(&store, &ledger, "done").await);

        // Under open sessions, which answer every read as before.
        let read_only = "ALTER SYSTEM SET default_transaction_read_only = on";
        cluster.run(&[read_only, "SELECT pg_reload_conf()"]).await;
        recovers_not(&store).await;
        writes_nothing(&store, "read-only").await;
        let writable = "ALTER SYSTEM RESET default_transaction_read_only";
        cluster
            .run(&[
                "SET default_transaction_read_only = off",
                writable,
                "SELECT pg_reload_conf()",
            ])
            .await;
        is_back(&store, &ledger, "after read-only").await;

        cluster.demote();
        writes_nothing(&store, "standby").await;
        cluster.promote();
        is_back(&store, &ledger, "after promotion").await;
        ledger.settle(&store).await;
        store.close().await;
    }
}

/// Waits until the sessions have heard of the new setting.
async fn recovers_not(store: &PostgresStore) {
    let heard = async {
        while store.check().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let heard = tokio::time::timeout(BACK_WITHIN, heard).await;
    heard.expect("the check notices that the server cannot be written to");
}
