//! What goes wrong in Postgres under careless statements: winners that nobody sees yet, stale
//! judgements, stricter isolation, numbers that run out, uniqueness that a table does not hold.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test fails at an answer that it does not expect"
)]

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::command::{Answer, Command, CompleteVerdict, Reserve, ReserveVerdict};
use oncegate::domain::key::RecordKey;
use oncegate::domain::record::{Fence, StateName};
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::{Store, StoreError};
use oncegate::store::postgres::PostgresStore;
use oncegate::testkit::load::{Dice, Ledger, ask, complete, completion, granted, reserve, work};
use oncegate::testkit::values::{LEASE, key_of, outcome, start};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, SERVERS, alone};

fn reserve_command(request: &Reserve) -> Command {
    Command::Reserve(Arc::new(request.clone()))
}

/// Applies a command in a task of its own.
fn apply(store: &Arc<PostgresStore>, command: Command) -> JoinHandle<Result<Answer, StoreError>> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.apply(command).await })
}

async fn verdict(reserving: JoinHandle<Result<Answer, StoreError>>) -> ReserveVerdict {
    match reserving
        .await
        .expect("the task ends")
        .expect("the store answers")
    {
        Answer::Reserve(reserved) => reserved.verdict,
        other => panic!("{other:?}"),
    }
}

// Field case H1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_winner_that_nobody_sees_yet_is_waited_for() {
    let mut dice = Dice::cast();
    for server in SERVERS {
        let mut rig = Rig::start(server, |_| {}).await;
        // The winner's row, to be inserted by hand in a transaction that stays open.
        granted(rig.store.as_ref(), "contested").await;
        rig.run(
            "DROP TRIGGER guard ON oncegate_record; \
             CREATE TABLE winner AS SELECT * FROM oncegate_record; DELETE FROM oncegate_record",
        )
        .await;
        for round in 0..60 {
            let commits = dice.below(2) == 0;
            // Most of them soon; the first two only after the loser's own limit on locks.
            let open_for = if round < 2 {
                Duration::from_millis(1_300)
            } else {
                dice.span(Duration::from_millis(10))
            };
            rig.run("BEGIN; INSERT INTO oncegate_record SELECT * FROM winner")
                .await;
            let loser = apply(&rig.store, reserve_command(&ask("contested")));
            sleep(open_for).await;
            rig.run(if commits { "COMMIT" } else { "ROLLBACK" }).await;
            let told = verdict(loser).await;
            match told {
                ReserveVerdict::InProgress(_) => assert!(commits, "{server}: nobody had won"),
                ReserveVerdict::Granted(grant) => {
                    assert!(!commits, "{server}: granted twice");
                    let stored = "SELECT fence FROM oncegate_record WHERE key = 'contested'";
                    assert_eq!(
                        grant.fence,
                        Fence::new(rig.number(stored).await),
                        "{server}"
                    );
                }
                other => panic!("{server}: {other:?}"),
            }
            rig.run("DELETE FROM oncegate_record").await;
        }
    }
}

/// Waits until so many of the store's sessions wait for a lock.
async fn waiting_for_locks(rig: &mut Rig, sessions: i64) {
    let limit = Instant::now() + Duration::from_secs(10);
    while rig.sessions("wait_event_type = 'Lock'").await < sessions {
        assert!(Instant::now() < limit, "they do not come to wait");
        sleep(Duration::from_millis(2)).await;
    }
}

// Field case B2. Field case B7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_judged_on_an_older_state_writes_nothing() {
    for server in SERVERS {
        for holder_first in [true, false] {
            let clock = ManualClock::new(start());
            let mut rig = Rig::start(server, |options| {
                options.clock = Clock::Manual(clock.clone());
                options.lock_timeout = Duration::from_secs(4);
            })
            .await;
            let token = granted(rig.store.as_ref(), "late").await;
            clock.advance(LEASE);
            // Each reads the same state, and stands behind the other in the row's queue to write.
            let mut lock = PgConnection::connect(&rig.database.url())
                .await
                .expect("a session");
            let locking = "BEGIN; SELECT FROM oncegate_record WHERE key = 'late' FOR UPDATE";
            lock.execute(locking).await.expect("the row is locked");
            // Each in a process of its own: in one, only one at a time is at work on a key.
            let [holder, one, other] = [(); 3].map(|()| rig.another_store());
            let completing = || apply(&holder, completion("late", token, outcome("done")));
            let take_over = |store| apply(store, reserve_command(&ask("late")));
            let taking_over = || [take_over(&one), take_over(&other)];
            let (completed, takeovers) = if holder_first {
                let completed = completing();
                waiting_for_locks(&mut rig, 1).await;
                let takeovers = taking_over();
                (completed, takeovers)
            } else {
                let takeovers = taking_over();
                waiting_for_locks(&mut rig, 2).await;
                (completing(), takeovers)
            };
            waiting_for_locks(&mut rig, 3).await;
            lock.execute("COMMIT").await.expect("the row is free");

            let answer = completed
                .await
                .expect("the task ends")
                .expect("the store answers");
            let Answer::Complete(completed) = answer else {
                panic!("{answer:?}")
            };
            let mut verdicts = Vec::new();
            for takeover in takeovers {
                verdicts.push(verdict(takeover).await);
            }
            let recoveries = verdicts
                .iter()
                .filter(|told| matches!(told, ReserveVerdict::Recover(_)))
                .count();
            if holder_first {
                assert_eq!(completed.verdict, CompleteVerdict::Recorded, "{server}");
                assert_eq!(recoveries, 0, "{server}: {verdicts:?}");
            } else {
                assert_eq!(completed.verdict, CompleteVerdict::Superseded, "{server}");
                assert_eq!(recoveries, 1, "{server}: {verdicts:?}");
            }
            assert!(completed.outcome_used, "{server}");
            assert_eq!(completed.state, Some(StateName::Completed), "{server}");
            let ReserveVerdict::Replay(replay) = reserve(rig.store.as_ref(), &ask("late")).await
            else {
                panic!("{server}: not replayed");
            };
            assert_eq!(replay.outcome, outcome("done"), "{server}");
        }
    }
}

// Field case B2.
#[tokio::test]
async fn the_guard_of_these_tests_refuses_what_no_rule_allows() {
    let mut rig = Rig::start(SERVERS[0], |_| {}).await;
    granted(rig.store.as_ref(), "running").await;
    let token = granted(rig.store.as_ref(), "done").await;
    complete(rig.store.as_ref(), "done", token, outcome("done")).await;
    for change in [
        "UPDATE oncegate_record SET version = version + 1, state = 1, sweep_at = NULL, payload = NULL \
         WHERE key = 'done'",
        "UPDATE oncegate_record SET version = version + 1, payload = 'x' WHERE key = 'done'",
        "UPDATE oncegate_record SET version = version + 1, fence = fence + 1 WHERE key = 'running'",
        "UPDATE oncegate_record SET version = version + 1, fence = fence - 1 WHERE key = 'done'",
        "UPDATE oncegate_record SET state = 5 WHERE key = 'running'",
        "DELETE FROM oncegate_record",
    ] {
        let refused = rig
            .sql
            .execute(AssertSqlSafe(change))
            .await
            .expect_err(change);
        assert!(
            refused.to_string().contains("guard:"),
            "{change}: {refused}"
        );
    }
}

// Field case H6.
#[tokio::test]
async fn fences_rise_past_every_small_number_and_never_begin_again() {
    for server in SERVERS {
        let mut rig = Rig::start(server, |options| {
            options.retry_for = Duration::from_millis(500);
        })
        .await;
        let mut last = granted(rig.store.as_ref(), "first").await.fence;
        for edge in [1_i64 << 31, 1 << 32, 1 << 53, 1 << 62, i64::MAX - 9] {
            rig.run(&format!("SELECT setval('oncegate_fence', {})", edge - 2))
                .await;
            for n in 0..4 {
                let key = format!("{edge}-{n}");
                let token = granted(rig.store.as_ref(), &key).await;
                assert!(
                    token.fence > last && token.fence.get() >= edge - 1,
                    "{server}: {token:?}"
                );
                last = token.fence;
                let done = complete(rig.store.as_ref(), &key, token, outcome("done")).await;
                assert_eq!(done.verdict, CompleteVerdict::Recorded, "{server}");
            }
        }
        // Replays draw no number, so they go on when there is none left; grants stop.
        rig.run(&format!("SELECT setval('oncegate_fence', {})", i64::MAX))
            .await;
        let refused = rig.store.apply(reserve_command(&ask("one too many"))).await;
        assert!(refused.is_err(), "{server}: {refused:?}");
        let none = "SELECT count(*) FROM oncegate_record WHERE key = 'one too many'";
        assert_eq!(rig.number(none).await, 0, "{server}");
    }
}

// Field case H7.
#[tokio::test]
async fn uniqueness_lies_in_one_table_on_the_digest_alone() {
    for server in SERVERS {
        let mut rig = Rig::start(server, |_| {}).await;
        let plain = "SELECT count(*) FROM pg_class WHERE relname LIKE 'oncegate_%' AND relkind = 'p' \
                     OR relispartition";
        assert_eq!(
            rig.number(plain).await,
            0,
            "{server}: a table is partitioned"
        );
        let unique = "SELECT count(*) FROM pg_index i WHERE i.indrelid = 'oncegate_record'::regclass \
             AND i.indisunique AND i.indisprimary AND i.indisvalid AND i.indimmediate \
             AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnatts = 1 \
             AND i.indkey[0] = (SELECT attnum FROM pg_attribute \
                 WHERE attrelid = i.indrelid AND attname = 'digest' AND attnotnull)";
        assert_eq!(
            rig.number(unique).await,
            1,
            "{server}: no unique index on the digest alone"
        );
    }
}

// Field case H10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stricter_default_isolation_gives_contract_states_only() {
    let _alone = alone().await;
    for server in SERVERS {
        for isolation in ["repeatable read", "serializable"] {
            let mut rig = Rig::start(server, |options| options.connections = 8).await;
            rig.run(&format!(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = \
                 %L', current_database(), '{isolation}'); END $$"
            ))
            .await;
            let mut fresh = PgConnection::connect(&rig.database.url())
                .await
                .expect("a session");
            let set = format!(
                "SELECT (current_setting('transaction_isolation') = '{isolation}')::int::int8"
            );
            assert_eq!(crate::rig::number(&mut fresh, &set).await, 1, "{server}");

            let ledger = Arc::new(Ledger::default());
            for key in 0..10 {
                let mut racers = JoinSet::new();
                for _ in 0..20 {
                    let (store, ledger) = (Arc::clone(&rig.store), Arc::clone(&ledger));
                    racers.spawn(async move {
                        work(store.as_ref(), &ledger, &format!("raced-{key}")).await
                    });
                }
                let grants = racers
                    .join_all()
                    .await
                    .into_iter()
                    .filter(|granted| *granted)
                    .count();
                assert_eq!(grants, 1, "{server}, {isolation}");
            }
            ledger.settle(rig.store.as_ref()).await;
        }
    }
}

/// Text of so many bytes that no compression makes shorter.
fn incompressible(dice: &mut Dice, bytes: usize) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |number: u64| {
        usize::try_from(number)
            .ok()
            .and_then(|at| letters.get(at))
            .copied()
    };
    let text = (0..bytes).filter_map(|_| letter(dice.below(64)).map(char::from));
    text.collect()
}

// Field case E7.
#[tokio::test]
async fn the_longest_scope_and_key_work_and_collide_with_nothing() {
    let mut dice = Dice::cast();
    let name = "n".repeat(63);
    let accounts = [incompressible(&mut dice, 255), "a".repeat(255)];
    let keys = [
        incompressible(&mut dice, 255),
        "k".repeat(255),
        "å".repeat(127),
    ];
    for server in SERVERS {
        let rig = Rig::start(server, |_| {}).await;
        for account in &accounts {
            for key in &keys {
                let key = RecordKey::parse(&name, &name, account, key).expect("at the limit");
                let operation = incompressible(&mut dice, 127);
                let request = Reserve {
                    key: key.clone(),
                    operation,
                    ..ask("replaced")
                };
                let ReserveVerdict::Granted(grant) = reserve(rig.store.as_ref(), &request).await
                else {
                    panic!("{server}: not granted");
                };
                let reading = rig
                    .store
                    .read(vec![key.clone()])
                    .await
                    .expect("the store reads");
                let record = reading.records[0].clone().expect("sound").expect("there");
                assert_eq!((record.key, record.fence), (key, grant.fence), "{server}");
            }
        }
        assert!(RecordKey::parse(&name, &name, "", &"k".repeat(256)).is_err());
        assert_ne!(key_of("a").digest(), key_of("b").digest());
    }
}
