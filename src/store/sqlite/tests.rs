//! What only the inside of the store can provoke: a full disk, a held lock, a thread that panics.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::domain::command::{Answer, Reserve, ReserveVerdict};
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
    Command::Reserve(Arc::new(Reserve {
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

/// Reserves three keys in one transaction, in a database where `bad` meets a trigger.
async fn among_others(store: &SqliteStore, trigger: String) -> [Result<bool, StoreError>; 3] {
    let (has_begun, begun) = tokio::sync::oneshot::channel();
    let (go, may_end) = std::sync::mpsc::channel::<()>();
    let busy = store.writer.run(move |connection| {
        connection.execute_batch(&trigger)?;
        let _waiting = (has_begun.send(()), may_end.recv());
        Ok(())
    });
    let queued_meanwhile = async {
        begun.await.expect("the writer is busy");
        tokio::join!(
            store.apply(reserve("before")),
            store.apply(reserve("bad")),
            store.apply(reserve("after")),
            async { go.send(()) },
        )
    };
    let (busy, (before, bad, after, _sent)) = tokio::join!(busy, queued_meanwhile);
    busy.expect("it only waited");
    [before, bad, after].map(|answer| answer.map(|answer| is_granted(&answer)))
}

#[tokio::test]
async fn what_comes_together_shares_one_flush() {
    let (_folder, store) = store();
    let results = among_others(&store, String::new()).await;
    assert!(
        matches!(results, [Ok(true), Ok(true), Ok(true)]),
        "{results:?}"
    );
    assert_eq!(store.commits(), 1);
}

#[tokio::test]
async fn one_that_fails_takes_back_only_what_it_did_itself() {
    // At the second the engine gives up the whole transaction.
    for failure in ["ABORT", "ROLLBACK"] {
        let (_folder, store) = store();
        let trigger = format!(
            "CREATE TRIGGER bad BEFORE INSERT ON oncegate_record WHEN NEW.key = 'bad' \
             BEGIN SELECT RAISE({failure}, 'as if'); END"
        );
        let results = among_others(&store, trigger).await;
        assert!(
            matches!(results, [Ok(true), Err(StoreError::Corrupt(_)), Ok(true)]),
            "{failure}: {results:?}"
        );
        let read = store
            .read(vec![key("before"), key("bad"), key("after")])
            .await;
        let fences: Vec<_> = read
            .expect("read")
            .records
            .into_iter()
            .map(|record| record.expect("readable").map(|record| record.fence.get()))
            .collect();
        assert!(fences[0] < fences[2] && fences[1].is_none(), "{fences:?}");
    }
}

#[tokio::test]
async fn a_panic_costs_its_own_answer_and_writes_nothing() {
    let (_folder, store) = store();
    let panics = |connection: &Connection| -> Result<(), StoreError> {
        connection.execute("UPDATE oncegate_fence SET last = 1000", [])?;
        panic!("as if a bug were met")
    };
    let told = store.writer.run(panics).await;
    assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
    let last =
        |c: &Connection| Ok(c.query_row("SELECT last FROM oncegate_fence", [], |row| row.get(0))?);
    assert_eq!(store.reader.run(last).await.ok(), Some(0));
    store.check().await.expect("it works on");
    assert!(is_granted(
        &store.apply(reserve("k")).await.expect("stored")
    ));
}

#[test]
fn a_disk_that_is_nearly_full_is_told_before_a_write_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    open::room(folder.path(), 1).expect("there is some room");
    let full = open::room(folder.path(), u64::MAX).expect_err("nobody has that much");
    assert!(matches!(full, StoreError::Unavailable(why) if why.contains("free")));
}
