//! Records and files that somebody has damaged: told apart, never guessed at, never in the way.

use std::path::Path;
use std::time::Duration;

use oncegate::domain::time::Timestamp;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::{Store, StoreError, Swept};
use oncegate::store::sqlite::SqliteStore;

use super::{DAY, File, complete, grant, key, only_record, reserve};

#[tokio::test]
async fn a_record_that_cannot_be_right_is_corrupt_for_its_own_key_alone() {
    for damage in [
        "state = 99",
        "state = 5",
        "payload = X'00'",
        "payload = NULL",
        "detail = substr(detail, 1, length(detail) - 1)",
        "detail = X''",
        "key = 'other'",
        "account = CAST(X'FF' AS TEXT)",
        "version = 0",
    ] {
        let file = File::new();
        let store = file.open();
        complete(&store, "bad", b"slot 7").await;
        complete(&store, "good", b"slot 8").await;
        file.spoil(&format!(
            "UPDATE oncegate_record SET {damage} WHERE key = 'bad'"
        ));

        let read = only_record(&store, "bad").await;
        let applied = store.apply(reserve("bad")).await;
        for refused in [read.map(drop), applied.map(drop)] {
            let Err(StoreError::Corrupt(why)) = &refused else {
                panic!("{damage}: {refused:?}");
            };
            assert!(
                why.contains(&key("bad").digest().short()),
                "{damage}: {why}"
            );
            assert!(!why.contains("slot"), "{damage}: {why}");
        }
        let both = store
            .read(vec![key("bad"), key("good")])
            .await
            .expect("read");
        let readable: Vec<_> = both.records.iter().map(Result::is_ok).collect();
        assert_eq!(readable, [false, true], "{damage}");
    }
}

#[tokio::test]
async fn unreadable_records_do_not_keep_the_sweeper_from_the_others() {
    let (file, clock) = (
        File::new(),
        ManualClock::new(Timestamp::from_micros(1 << 50)),
    );
    let store = SqliteStore::open(&file.path, Clock::Manual(clock.clone())).expect("opens");
    for name in ["bad-1", "bad-2", "good"] {
        complete(&store, name, b"slot").await;
        clock.advance(Duration::from_secs(1));
    }
    file.spoil("UPDATE oncegate_record SET detail = X'FF' WHERE key = 'bad-1'");
    file.spoil("UPDATE oncegate_record SET account = CAST(X'FF' AS TEXT) WHERE key = 'bad-2'");
    clock.advance(DAY);
    let swept = |buried, deleted| Swept { buried, deleted };
    assert_eq!(store.sweep(1).await.expect("swept"), swept(1, 0));
    assert_eq!(store.sweep(1).await.expect("swept"), swept(0, 0));
    clock.advance(DAY * 31);
    assert_eq!(store.sweep(1).await.expect("swept"), swept(0, 1));
    assert!(matches!(only_record(&store, "good").await, Ok(None)));
}

#[tokio::test]
async fn a_file_that_was_deleted_or_replaced_is_not_written_to() {
    for damage in [
        |path: &Path| std::fs::remove_file(path),
        |path: &Path| std::fs::remove_dir_all(path.parent().expect("a folder")),
        |path: &Path| std::fs::rename(path, path.with_extension("old")),
        |path: &Path| std::fs::remove_file(path.with_extension("db-wal")),
    ] {
        let file = File::new();
        let store = file.open();
        grant(&store, "before").await;
        damage(&file.path).expect("done");
        for refused in [
            store.apply(reserve("k")).await.map(drop),
            store.check().await.map(drop),
        ] {
            assert!(
                matches!(refused, Err(StoreError::Unusable(_))),
                "{refused:?}"
            );
        }
    }
}
