//! The schema goes up and down without losing anything, and a server knows its own.

use super::*;

use oncegate::store::postgres::testing::STATEMENTS;
use oncegate::store::postgres::{SCHEMA_VERSION, migrate, migrate_down, schema_version};
use sqlx::SqlSafeStr;

#[tokio::test]
async fn every_statement_prepares_on_every_supported_server() {
    for database in Database::migrated().await {
        let mut connection = database.connection().await;
        for &(name, statement) in STATEMENTS {
            let prepared = connection.prepare(statement.into_sql_str()).await;
            assert!(prepared.is_ok(), "{name}: {prepared:?}");
        }
    }
}

#[tokio::test]
async fn the_schema_goes_up_down_and_up_again() {
    for database in Database::on_each_server().await {
        assert_eq!(schema_version(&database.url).await.unwrap(), 0);
        let up = migrate(&database.url).await.unwrap();
        assert_eq!((up.before, up.after), (0, SCHEMA_VERSION));
        let down = migrate_down(&database.url, 0).await.unwrap();
        assert_eq!((down.before, down.after), (SCHEMA_VERSION, 0));
        let left = sqlx::query_scalar::<_, i64>(
            "SELECT count(*) FROM pg_class WHERE relname LIKE 'oncegate%' \
             AND relname NOT LIKE 'oncegate_migrations%'",
        );
        assert_eq!(
            left.fetch_one(&mut database.connection().await)
                .await
                .unwrap(),
            0
        );
        migrate(&database.url).await.unwrap();
        assert_eq!(schema_version(&database.url).await.unwrap(), SCHEMA_VERSION);
    }
}

#[tokio::test]
async fn the_schema_is_not_taken_back_while_it_holds_a_record() {
    for database in Database::migrated().await {
        let store = database.store();
        granted(&store, "kept").await;
        let refused = migrate_down(&database.url, 0).await;
        assert!(
            matches!(refused, Err(StoreError::Unusable(_))),
            "{refused:?}"
        );
        assert_eq!(schema_version(&database.url).await.unwrap(), SCHEMA_VERSION);
        let kept = store.read(vec![key("kept")]).await.unwrap();
        assert!(matches!(kept.records.as_slice(), [Ok(Some(_))]), "{kept:?}");
        store.close().await;
    }
}

#[tokio::test]
async fn runners_at_once_all_end_well() {
    for database in Database::on_each_server().await {
        let runners = (0..6).map(|_| migrate(&database.url));
        for report in futures::future::join_all(runners).await {
            assert_eq!(report.unwrap().after, SCHEMA_VERSION);
        }
    }
}

#[tokio::test]
async fn a_database_without_the_schema_names_the_command_to_run() {
    for database in Database::on_each_server().await {
        let store = database.store();
        let refused = [
            store.apply(reserve("any", 1)).await.map(|_| ()),
            store.read(vec![key("any")]).await.map(|_| ()),
            store.sweep(10).await.map(|_| ()),
            store.token_secrets().await.map(|_| ()),
            store.check().await.map(|_| ()),
        ];
        for refused in refused {
            let Err(StoreError::Unusable(text)) = refused else {
                panic!("{refused:?}");
            };
            assert!(text.contains("oncegate migrate"), "{text}");
        }
        store.close().await;
    }
}

#[tokio::test]
async fn a_schema_of_another_version_is_not_used() {
    for database in Database::migrated().await {
        let store = database.store();
        assert_eq!(store.check().await.unwrap().schema_version, SCHEMA_VERSION);
        for change in [
            "INSERT INTO oncegate_migrations VALUES (99, 'later', now(), true, '', 0)",
            "DELETE FROM oncegate_migrations",
        ] {
            database.run(change).await;
            let Err(StoreError::Unusable(text)) = store.check().await else {
                panic!("used after {change}");
            };
            assert!(text.contains("oncegate migrate"), "{text}");
        }
        store.close().await;
    }
}
