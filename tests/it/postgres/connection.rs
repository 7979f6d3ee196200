//! What a session must be like, and what a broken one costs: latency, never a grant.

use super::*;

use std::sync::Arc;

use oncegate::testkit::net::free_address;

async fn unusable(store: &PostgresStore) -> String {
    let checked = store.check().await;
    let Err(StoreError::Unusable(text)) = checked else {
        panic!("{checked:?}");
    };
    text
}

#[tokio::test]
async fn the_sessions_settings_are_read_back_and_told() {
    for database in Database::migrated().await {
        database
            .run(&format!(
                "ALTER DATABASE {0} SET default_transaction_isolation = serializable; \
             ALTER DATABASE {0} SET statement_timeout = 0",
                database.name()
            ))
            .await;
        let store = database.store();
        let health = store.check().await.unwrap();
        for (name, setting) in [
            ("default_transaction_isolation", "read committed"),
            ("transaction_isolation", "read committed"),
            ("statement_timeout", "5000"),
            ("lock_timeout", "1000"),
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
        ] {
            let expected = (name.to_owned(), setting.to_owned());
            assert!(
                health.settings.contains(&expected),
                "{expected:?}: {health:?}"
            );
        }
        granted(&store, "works").await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_database_that_does_not_wait_for_its_commits_is_not_used() {
    for database in Database::migrated().await {
        database
            .run(&format!(
                "ALTER DATABASE {} SET synchronous_commit = off",
                database.name()
            ))
            .await;
        let store = database.store();
        let text = unusable(&store).await;
        assert!(text.contains("synchronous_commit"), "{text}");
        store.close().await;
    }
}

#[tokio::test]
async fn a_read_only_database_is_unavailable() {
    for database in Database::migrated().await {
        let name = database.name();
        database
            .run(&format!(
                "ALTER DATABASE {name} SET default_transaction_read_only = on"
            ))
            .await;
        let options = PostgresOptions {
            retry_for: Duration::from_millis(300),
            ..database.options()
        };
        let store = PostgresStore::connect(&options).unwrap();
        let refused = store.apply(reserve("any", 1)).await;
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
        store.close().await;
    }
}

#[tokio::test]
async fn a_database_that_is_down_is_unavailable_and_not_told_of() {
    let password = "swordfish";
    let free = free_address();
    let url = format!("postgres://somebody:{password}@{free}/nowhere");
    let options = PostgresOptions {
        retry_for: Duration::from_millis(200),
        ..PostgresOptions::new(url)
    };
    let store = PostgresStore::connect(&options).unwrap();
    let refused = store.apply(reserve("any", 1)).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    for shown in [
        format!("{refused:?}"),
        format!("{options:?}"),
        format!("{store:?}"),
    ] {
        assert!(
            !shown.contains(password) && !shown.contains("somebody"),
            "{shown}"
        );
    }
    store.close().await;
}

#[tokio::test]
async fn an_unreadable_url_is_refused_without_repeating_it() {
    let refused = PostgresStore::connect(&PostgresOptions::new("postgres://u:swordfish@h:port/d"));
    let Err(StoreError::Unusable(text)) = refused else {
        panic!("{refused:?}");
    };
    assert!(!text.contains("swordfish"), "{text}");
}

#[tokio::test]
async fn exactly_one_of_many_racers_is_granted() {
    for database in Database::migrated().await {
        let options = PostgresOptions {
            connections: 16,
            ..database.options()
        };
        let store = Arc::new(PostgresStore::connect(&options).unwrap());
        for name in ["one", "two", "three", "four"] {
            let racers = (0..32).map(|racer| store.apply(reserve(name, racer)));
            let answers = futures::future::join_all(racers).await;
            let grants = answers
                .iter()
                .filter(|answer| is_granted(answer.as_ref().unwrap()));
            assert_eq!(grants.count(), 1, "{name}");
        }
        drop(store);
    }
}

fn is_granted(answer: &Answer) -> bool {
    let Answer::Reserve(reserved) = answer else {
        return false;
    };
    matches!(reserved.verdict, ReserveVerdict::Granted(_))
}

/// Every caller gets its own grant although the server keeps ending the connections.
#[tokio::test]
async fn a_connection_that_the_server_ends_costs_no_caller_an_answer() {
    for database in Database::migrated().await {
        let store = database.store();
        for round in 0..20 {
            let name = format!("round-{round}");
            let kill = database.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND application_name = 'oncegate'",
            );
            tokio::join!(completed(&store, &name), kill);
            let replayed = store.apply(reserve(&name, 2)).await.unwrap();
            let Answer::Reserve(reserved) = replayed else {
                panic!("{replayed:?}");
            };
            assert!(
                matches!(reserved.verdict, ReserveVerdict::Replay(_)),
                "{reserved:?}"
            );
        }
        store.close().await;
    }
}
