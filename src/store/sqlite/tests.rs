//! What only the inside of the store can provoke: a full disk, a held lock, a thread that panics.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::domain::command::{Reserve, ReserveVerdict};
use crate::domain::policy::Terms;
use crate::domain::record::RequestId;

fn store() -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(&folder.path().join("og.db"), Clock::Database).expect("opens");
    (folder, store)
}

fn key(name: &str) -> RecordKey {
    RecordKey::parse("ns", "live", "", name).expect("valid")
}

/// A Reserve whose record takes a page of its own.
fn reserve(name: &str) -> Command {
    Command::Reserve(Box::new(Reserve {
        key: key(name),
        operation: "slot.claim".to_owned(),
        fingerprint: None,
        request_id: RequestId::from_bytes([9; 16]),
        lease: Duration::from_secs(30),
        holder: "pod".to_owned(),
        trace_id: String::new(),
        attributes: BTreeMap::from([("note".to_owned(), "x".repeat(4096))]),
        can_recover: true,
        terms: Terms::default(),
    }))
}

fn is_granted(answer: &Answer) -> bool {
    matches!(answer, Answer::Reserve(reserved) if matches!(reserved.verdict, ReserveVerdict::Granted(_)))
}

fn limit_pages(connection: &Connection, pages: i64) -> Result<i64, StoreError> {
    connection
        .execute_batch(&format!("PRAGMA max_page_count = {pages}"))
        .map_err(StoreError::from)?;
    Ok(connection.pragma_query_value(None, "page_count", |row| row.get(0))?)
}

#[test]
fn every_statement_can_be_prepared_and_the_sweeper_s_uses_its_index() {
    let mut connection = Connection::open_in_memory().expect("opens");
    migrate::up(&mut connection).expect("migrates");
    prepare(&connection).expect("every statement");
    let plan: String = connection
        .query_row(&format!("EXPLAIN QUERY PLAN {}", sql::DUE), [0], |row| {
            row.get(3)
        })
        .expect("a plan");
    assert!(plan.contains("oncegate_record_sweep_at"), "{plan}");
}

#[tokio::test]
async fn a_full_disk_is_unavailable_and_leaves_what_was_there() {
    let (_folder, store) = store();
    assert!(is_granted(
        &store.apply(reserve("before")).await.expect("stored")
    ));
    let pages = store.writer.run(|c| limit_pages(c, 1)).await.expect("set");
    assert!(pages > 1);
    let full = store.apply(reserve("full")).await.expect_err("no room");
    assert!(
        matches!(&full, StoreError::Unavailable(why) if why.contains("full")),
        "{full}"
    );
    store
        .writer
        .run(|c| limit_pages(c, 100_000))
        .await
        .expect("set");
    let read = store
        .read(vec![key("before"), key("full")])
        .await
        .expect("read");
    let there: Vec<_> = read
        .records
        .into_iter()
        .map(|record| record.expect("readable").is_some())
        .collect();
    assert_eq!(there, [true, false]);
    assert!(is_granted(
        &store
            .apply(reserve("full"))
            .await
            .expect("there is room again")
    ));
}

#[tokio::test]
async fn a_read_only_database_is_unusable_for_writes() {
    let (_folder, store) = store();
    let read_only = |c: &Connection| Ok(c.pragma_update(None, "query_only", "ON")?);
    store.writer.run(read_only).await.expect("set");
    let refused = store.apply(reserve("k")).await.expect_err("read-only");
    assert!(matches!(refused, StoreError::Unusable(_)), "{refused}");
}

#[tokio::test]
async fn a_lock_that_another_process_keeps_is_unavailable() {
    let (folder, store) = store();
    let short = |c: &Connection| Ok(c.busy_timeout(Duration::from_millis(20))?);
    store.writer.run(short).await.expect("set");
    let other = Connection::open(folder.path().join("og.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    for refused in [
        store.apply(reserve("k")).await.map(drop),
        store.check().await.map(drop),
    ] {
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
    }
    store
        .read(vec![key("k")])
        .await
        .expect("readers never wait");
    other.execute_batch("ROLLBACK").expect("unlocked");
    assert!(is_granted(
        &store.apply(reserve("k")).await.expect("free again")
    ));
}

/// Does `cause` in one transaction with a Reserve before it and one after it.
async fn amid_others(
    store: &SqliteStore,
    cause: fn(&Connection) -> Result<(), StoreError>,
) -> [Result<bool, StoreError>; 3] {
    let (has_begun, begun) = tokio::sync::oneshot::channel();
    let (go, may_end) = std::sync::mpsc::channel::<()>();
    let busy = store.writer.run(move |_connection| {
        let _waiting = (has_begun.send(()), may_end.recv());
        Ok(())
    });
    let queued_meanwhile = async {
        begun.await.expect("the writer is busy");
        tokio::join!(
            store.apply(reserve("before")),
            store.writer.run(cause),
            store.apply(reserve("after")),
            async { go.send(()) },
        )
    };
    let (busy, (before, own, after, _sent)) = tokio::join!(busy, queued_meanwhile);
    busy.expect("it only waited");
    let granted = |answer: Result<Answer, StoreError>| answer.map(|answer| is_granted(&answer));
    [granted(before), own.map(|()| true), granted(after)]
}

#[tokio::test]
async fn one_that_fails_takes_back_only_what_it_did_itself() {
    let (_folder, store) = store();
    let fails = |connection: &Connection| {
        connection.execute("UPDATE oncegate_fence SET last = 1000", [])?;
        Err(StoreError::Corrupt("as if".to_owned()))
    };
    let results = amid_others(&store, fails).await;
    assert!(
        matches!(results, [Ok(true), Err(StoreError::Corrupt(_)), Ok(true)]),
        "{results:?}"
    );
    assert_eq!(store.commits(), 1);
    let read = store.read(vec![key("before"), key("after")]).await;
    let fences: Vec<_> = read
        .expect("read")
        .records
        .into_iter()
        .map(|record| record.expect("readable").expect("there").fence.get())
        .collect();
    assert_eq!(fences, [1, 2]);
}

#[tokio::test]
async fn who_shares_a_transaction_that_the_engine_gives_up_is_told() {
    let (_folder, store) = store();
    let gives_up = |connection: &Connection| Ok(connection.execute_batch("ROLLBACK")?);
    for result in amid_others(&store, gives_up).await {
        assert!(
            matches!(result, Err(StoreError::Unavailable(_))),
            "{result:?}"
        );
    }
    assert!(is_granted(
        &store.apply(reserve("before")).await.expect("as new")
    ));
}

#[tokio::test]
async fn a_thread_that_panics_writes_nothing_more_and_fails_the_check() {
    let (_folder, store) = store();
    let panics = |connection: &Connection| -> Result<(), StoreError> {
        connection.execute("UPDATE oncegate_fence SET last = 1000", [])?;
        panic!("as if a bug were met")
    };
    for refused in [
        store.writer.run(panics).await,
        store.apply(reserve("k")).await.map(drop),
        store.check().await.map(drop),
    ] {
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
    }
    let last =
        |c: &Connection| Ok(c.query_row("SELECT last FROM oncegate_fence", [], |row| row.get(0))?);
    assert_eq!(store.reader.run(last).await.ok(), Some(0));
}

#[test]
fn a_disk_that_is_nearly_full_is_told_before_a_write_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    open::room(folder.path(), 1).expect("there is some room");
    let full = open::room(folder.path(), u64::MAX).expect_err("nobody has that much");
    assert!(matches!(full, StoreError::Unavailable(why) if why.contains("free")));
}
