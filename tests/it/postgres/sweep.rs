//! The sweeper meets what it cannot read.

use super::*;

use oncegate::domain::time::Timestamp;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::Swept;

#[tokio::test]
async fn an_unreadable_record_neither_blocks_the_sweep_nor_is_deleted() {
    for database in Database::migrated().await {
        let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000));
        let options = PostgresOptions {
            clock: Clock::Manual(clock.clone()),
            ..database.options()
        };
        let store = PostgresStore::connect(&options).unwrap();
        for name in ["bad-1", "bad-2", "good-1", "good-2"] {
            completed(&store, name).await;
            clock.advance(Duration::from_secs(1));
        }
        database
            .run("UPDATE oncegate_record SET detail = '\\xff' WHERE key LIKE 'bad-%'")
            .await;
        clock.advance(Terms::default().retention);
        let swept = store.sweep(2).await.unwrap();
        assert_eq!(
            swept,
            Swept {
                buried: 2,
                deleted: 0
            }
        );
        clock.advance(Terms::default().tombstone_retention);
        let swept = store.sweep(10).await.unwrap();
        assert_eq!(
            swept,
            Swept {
                buried: 0,
                deleted: 2
            }
        );
        let keys = ["bad-1", "bad-2", "good-1"].map(key).to_vec();
        let read = store.read(keys).await.unwrap();
        let [
            Err(StoreError::Corrupt(_)),
            Err(StoreError::Corrupt(_)),
            Ok(None),
        ] = read.records.as_slice()
        else {
            panic!("{read:?}");
        };
        store.close().await;
    }
}
