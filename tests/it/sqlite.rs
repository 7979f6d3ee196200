//! What is SQLite's own: the file and its settings, flushes, several stores on one file; in the
//! folder, damage and versions.

mod damage;
mod schema;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::command::{Answer, Command, Complete, Reserve, ReserveVerdict};
use oncegate::domain::namespace::Namespace;
use oncegate::domain::outcome::{Outcome, OutcomeStatus};
use oncegate::domain::record::{Record, RecordState, RequestId};
use oncegate::domain::time::Timestamp;
use oncegate::domain::token::Token;
use oncegate::port::clock::{Clock, ManualClock};
use oncegate::port::store::{Store, StoreError};
use oncegate::store::sqlite::SqliteStore;
use oncegate::testkit::load::ask;
use oncegate::testkit::values::key_of as key;
use rusqlite::Connection;
use tempfile::TempDir;

const DAY: Duration = Duration::from_hours(24);

struct File {
    _folder: TempDir,
    path: PathBuf,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("oncegate.db");
        Self {
            _folder: folder,
            path,
        }
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path, Clock::Database).expect("opens")
    }

    /// Changes the file behind the store's back.
    fn spoil(&self, sql: &str) {
        let connection = Connection::open(&self.path).expect("opens");
        connection
            .execute_batch("PRAGMA ignore_check_constraints = ON")
            .expect("set");
        connection.execute_batch(sql).expect("spoilt");
    }
}

fn reserve_as(name: &str, caller: u8) -> Command {
    Command::Reserve(Arc::new(Reserve {
        request_id: RequestId::from_bytes([caller; 16]),
        ..ask(name)
    }))
}

fn reserve(name: &str) -> Command {
    reserve_as(name, 1)
}

fn granted(answer: &Answer) -> Option<Token> {
    let Answer::Reserve(reserved) = answer else {
        return None;
    };
    let ReserveVerdict::Granted(grant) = &reserved.verdict else {
        return None;
    };
    Some(Token {
        generation: grant.generation,
        fence: grant.fence,
    })
}

async fn grant(store: &SqliteStore, name: &str) -> Token {
    let answer = store.apply(reserve(name)).await.expect("stored");
    granted(&answer).expect("a new key is granted")
}

/// What happened under a token, kept for a day.
fn completion(name: &str, token: Token, payload: &[u8]) -> Command {
    let (media_type, effect_id) = ("text/plain".to_owned(), "e-1".to_owned());
    let command = Complete {
        key: key(name),
        token,
        outcome: Outcome::reported(
            OutcomeStatus::Succeeded,
            payload.to_vec(),
            media_type,
            effect_id,
            Vec::new(),
            None,
        ),
        retention: Some(DAY),
    };
    Command::Complete(Box::new(command))
}

/// Completes a key.
async fn complete(store: &SqliteStore, name: &str, payload: &[u8]) {
    let token = grant(store, name).await;
    let command = completion(name, token, payload);
    store.apply(command).await.expect("stored");
}

async fn only_record(store: &SqliteStore, name: &str) -> Result<Option<Record>, StoreError> {
    let mut reading = store.read(vec![key(name)]).await.expect("read");
    assert_eq!(reading.records.len(), 1);
    reading.records.remove(0)
}

#[tokio::test]
async fn settings_are_read_back_and_the_file_is_for_its_owner_alone() {
    let file = File::new();
    let health = file.open().check().await.expect("ready");
    let settings = [("journal_mode", "wal"), ("synchronous", "FULL")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!((health.engine, health.schema_version), ("sqlite", 1));
    assert_eq!(health.settings, settings);
    for path in [file.path.clone(), file.path.with_extension("db-wal")] {
        let mode = std::fs::metadata(&path)
            .expect("is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn the_clock_is_the_engine_s_unless_one_is_injected() {
    let file = File::new();
    let now = file.open().check().await.expect("ready").now;
    let changed = std::fs::metadata(&file.path).expect("is there").modified();
    let changed = changed
        .expect("a time")
        .duration_since(std::time::UNIX_EPOCH);
    let changed = Timestamp::EPOCH.plus(changed.expect("after 1970"));
    let apart = now.since(changed).max(changed.since(now));
    assert!(apart < Duration::from_mins(1), "{apart:?}");

    let set = Timestamp::from_micros(1_234_567);
    let store = SqliteStore::open(&file.path, Clock::Manual(ManualClock::new(set))).expect("opens");
    grant(&store, "k").await;
    let record = only_record(&store, "k")
        .await
        .expect("readable")
        .expect("stored");
    let seen = [
        store.check().await.expect("ready").now,
        record.first_reserved_at,
    ];
    assert_eq!(seen, [set, set]);
}

#[tokio::test(flavor = "multi_thread")]
async fn racers_through_two_stores_on_one_file_have_one_winner() {
    let file = File::new();
    let stores = [Arc::new(file.open()), Arc::new(file.open())];
    for round in 0..20 {
        let name = format!("k-{round}");
        let racers = (0..16_u8).map(|racer| {
            let store = Arc::clone(&stores[usize::from(racer % 2)]);
            let command = reserve_as(&name, racer);
            tokio::spawn(async move { store.apply(command).await })
        });
        let mut winners = 0;
        for answer in futures::future::join_all(racers).await {
            let answer = answer.expect("not cancelled").expect("answered");
            winners += u32::from(granted(&answer).is_some());
        }
        assert_eq!(winners, 1, "{name}");
    }
}

#[test]
fn one_new_file_can_be_opened_by_many_at_once() {
    let file = File::new();
    std::thread::scope(|scope| {
        let open = || file.open();
        let opened: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        for store in opened {
            store.join().expect("opens");
        }
    });
}

#[tokio::test]
async fn every_acknowledged_write_has_waited_for_a_flush() {
    let file = File::new();
    let store = file.open();
    for i in 0..5 {
        assert_eq!(store.commits(), i);
        grant(&store, &format!("k-{i}")).await;
    }
    store.apply(reserve_as("k-0", 2)).await.expect("answered");
    assert_eq!(store.commits(), 5, "what changes nothing needs no flush");
}

#[tokio::test]
async fn writes_that_wait_together_share_a_flush() {
    let file = File::new();
    let store = file.open();
    let names: Vec<_> = (0..1000).map(|i| format!("k-{i}")).collect();
    let answers = names.iter().map(|name| store.apply(reserve(name)));
    let answers = futures::future::join_all(answers).await;
    let mut fences: Vec<_> = answers
        .into_iter()
        .filter_map(|answer| granted(&answer.expect("stored")))
        .map(|token| token.fence)
        .collect();
    fences.sort();
    fences.dedup();
    assert_eq!(fences.len(), names.len());
    assert!(store.commits() <= 100, "{} commits", store.commits());
}

#[tokio::test]
async fn everything_is_there_after_opening_again() {
    let file = File::new();
    let store = file.open();
    let token = grant(&store, "running").await;
    complete(&store, "done", b"slot 7").await;
    let identity = key("running").digest();
    let secrets = store.token_secrets().await.expect("made");
    let text = secrets.issue(&identity, token);
    let namespace = store.put_namespace(Namespace::with_defaults("ns")).await;
    let namespace = namespace.expect("stored").expect("new");
    store.close().await.expect("closes");
    assert!(
        !file.path.with_extension("db-wal").exists(),
        "the log is in the file"
    );

    let store = file.open();
    let secrets = store.token_secrets().await.expect("kept");
    assert_eq!(secrets.verify(&identity, &text), Ok(token));
    assert_eq!(store.namespace("ns").await.expect("read"), Some(namespace));
    let done = only_record(&store, "done")
        .await
        .expect("readable")
        .expect("kept");
    assert!(
        matches!(done.state, RecordState::Completed(done) if done.outcome.payload == b"slot 7")
    );
    assert!(grant(&store, "new").await.fence > done.fence);
}

#[tokio::test]
async fn a_caller_that_hangs_up_loses_nothing() {
    let file = File::new();
    let store = file.open();
    let token = grant(&store, "k").await;
    let reporting = store.apply(completion("k", token, b"slot 7"));
    let hung_up = tokio::time::timeout(Duration::ZERO, reporting).await;
    drop(hung_up);
    let later = store.apply(reserve_as("k", 2)).await.expect("answered");
    let Answer::Reserve(later) = later else {
        panic!("{later:?}")
    };
    let replayed = matches!(&later.verdict, ReserveVerdict::Replay(_));
    assert!(replayed, "{later:?}");
}

#[tokio::test]
async fn a_closed_store_has_done_what_was_queued_and_takes_no_more() {
    let file = File::new();
    let store = file.open();
    let names: Vec<_> = (0..300).map(|i| format!("k-{i}")).collect();
    let queued = futures::future::join_all(names.iter().map(|name| store.apply(reserve(name))));
    let (queued, closed) = tokio::join!(queued, store.close());
    closed.expect("closes");
    assert!(queued.iter().all(Result::is_ok));
    for refused in [
        store.apply(reserve("late")).await.map(drop),
        store.read(vec![key("k-0")]).await.map(drop),
        store.check().await.map(drop),
    ] {
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
    }
}
