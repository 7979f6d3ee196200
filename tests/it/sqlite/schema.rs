//! Versions of the schema, and files that are not a store's.

use std::path::Path;

use oncegate::port::clock::Clock;
use oncegate::port::store::{Store, StoreError};
use oncegate::store::sqlite::{SqliteStore, migrate};

use super::{File, grant};

fn refused_with(path: &Path, words: &str) {
    let refused = SqliteStore::open(path, Clock::Database).expect_err("must be refused");
    assert!(
        matches!(&refused, StoreError::Unusable(why) if why.contains(words)),
        "{refused}"
    );
}

#[tokio::test]
async fn the_schema_goes_up_down_and_up_again_but_loses_no_record_or_fence() {
    let file = File::new();
    file.open().close().await.expect("closes");
    migrate::back_to(&file.path, 0).expect("empty");
    let store = file.open();
    grant(&store, "k").await;
    store.close().await.expect("closes");
    for _ in ["with a record", "with a fence alone"] {
        let refused = migrate::back_to(&file.path, 0).expect_err("would lose promises");
        assert!(matches!(refused, StoreError::Unusable(_)), "{refused}");
        let store = file.open();
        assert!(store.check().await.is_ok());
        store.close().await.expect("closes");
        file.spoil("DELETE FROM oncegate_record");
    }
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_is() {
    let file = File::new();
    drop(file.open());
    file.spoil("PRAGMA user_version = 2");
    refused_with(&file.path, "run the newer version");
    let back = migrate::back_to(&file.path, 0).expect_err("not ours to take back");
    assert!(matches!(back, StoreError::Unusable(_)), "{back}");
}

#[test]
fn what_is_not_a_store_s_file_is_refused_with_what_to_do() {
    let file = File::new();
    let folder = file.path.parent().expect("a folder").to_owned();
    refused_with(&folder.join("missing/oncegate.db"), "create it first");
    refused_with(&folder, "cannot be opened");
    std::fs::write(folder.join("text"), "no database ".repeat(100)).expect("written");
    refused_with(&folder.join("text"), "no SQLite database");
    file.spoil("CREATE TABLE theirs (id INTEGER); PRAGMA user_version = 1");
    refused_with(&file.path, "tables");
}

#[test]
fn a_file_with_another_program_s_tables_is_refused_and_left_alone() {
    for (version, table) in [(0, "orders"), (0, "oncegate_record"), (1, "orders")] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("theirs.db");
        let theirs = rusqlite::Connection::open(&path).expect("a file");
        let make = format!("CREATE TABLE {table} (id INTEGER); PRAGMA user_version = {version};");
        theirs.execute_batch(&make).expect("their table is made");
        drop(theirs);
        let before = std::fs::read(&path).expect("read");
        refused_with(&path, "another program");
        let back = migrate::back_to(&path, 0).expect_err("not ours to take back");
        assert!(matches!(back, StoreError::Unusable(_)), "{back}");
        let after = std::fs::read(&path).expect("read");
        assert!(before == after, "{version} {table}: the file was changed");
    }
}
