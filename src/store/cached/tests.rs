//! What a replica with a memory tells while another one changes the record.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::domain::command::{Complete, Expire, PersonAnswer};
use crate::domain::fingerprint::Fingerprint;
use crate::domain::outcome::{Outcome, OutcomeStatus};
use crate::domain::policy::Terms;
use crate::domain::record::RequestId;
use crate::domain::token::Token;
use crate::port::clock::ManualClock;
use crate::store::memory::MemoryStore;

const BYTES_MAX: u64 = 1024 * 1024;

/// Two replicas on one store.
struct Replicas {
    clock: ManualClock,
    store: Arc<dyn Store>,
    here: Cached,
    there: Cached,
}

impl Replicas {
    fn start() -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Clock::Manual(clock.clone())));
        let replica = || Cached::new(Arc::clone(&store), Clock::Manual(clock.clone()), BYTES_MAX);
        Self {
            here: replica(),
            there: replica(),
            clock,
            store,
        }
    }

    /// Has a record completed here.
    async fn complete(&self, payload: &str) {
        let verdict = ask(&self.here, 1).await;
        let ReserveVerdict::Granted(grant) = verdict else {
            panic!("must be GRANTED, is {verdict:?}")
        };
        let complete = Complete {
            key: key(),
            token: Token {
                generation: grant.generation,
                fence: grant.fence,
            },
            outcome: outcome(payload),
            retention: None,
        };
        let command = Command::Complete(Box::new(complete));
        self.here.apply(command).await.expect("it is completed");
    }

    /// Lets the key open again: a person says so here.
    async fn expire(&self) {
        let read = self.store.read(vec![key()]).await.expect("it is read");
        let record = read.records[0].clone().expect("readable").expect("there");
        let expire = Expire {
            key: key(),
            reason: "wrong customer".to_owned(),
            allow_rerun: true,
            etag: record.etag(),
            actor: "support".to_owned(),
        };
        for _ in 0..2 {
            let command = Command::Expire(expire.clone());
            let told = self.here.apply(command).await.expect("it answers");
            let Answer::Expire(PersonAnswer::Ok(_)) = told else {
                panic!("not expired but {told:?}")
            };
        }
    }
}

fn key() -> RecordKey {
    RecordKey::parse("terminal", "live", "", "k").expect("valid")
}

fn outcome(payload: &str) -> Outcome {
    Outcome::reported(
        OutcomeStatus::Succeeded,
        payload.as_bytes().to_vec(),
        String::new(),
        String::new(),
        Vec::new(),
        None,
    )
}

/// What a Reserve of a request with that digest is told.
async fn ask(cached: &Cached, digest: u8) -> ReserveVerdict {
    let reserve = Reserve {
        key: key(),
        operation: "slot.claim".to_owned(),
        fingerprint: Some(Fingerprint::parse("raw-sha256-v1", &[digest; 32]).expect("valid")),
        request_id: RequestId::from_bytes([digest; 16]),
        lease: Duration::from_secs(30),
        holder: String::new(),
        trace_id: String::new(),
        attributes: BTreeMap::new(),
        can_recover: true,
        terms: Terms::default(),
    };
    let told = cached.apply(Command::Reserve(Box::new(reserve))).await;
    match told.expect("it answers") {
        Answer::Reserve(reserved) => reserved.verdict,
        Answer::Complete(_)
        | Answer::Renew(_)
        | Answer::Release(_)
        | Answer::Park(_)
        | Answer::Reexecute(_)
        | Answer::Expire(_)
        | Answer::Resolve(_) => panic!("not a Reserve's answer"),
    }
}

fn is_replay(verdict: &ReserveVerdict, payload: &str) -> bool {
    matches!(verdict, ReserveVerdict::Replay(replay) if replay.outcome == outcome(payload))
}

fn hits(cached: &Cached) -> u64 {
    cached.counts().local.load(Ordering::Relaxed)
}

#[tokio::test]
async fn an_outcome_is_told_from_memory_where_it_was_completed_and_where_it_was_read() {
    let replicas = Replicas::start();
    replicas.complete("done").await;
    assert!(is_replay(&ask(&replicas.here, 1).await, "done"));
    assert_eq!(hits(&replicas.here), 1);
    for seen in [0, 1, 2] {
        assert!(is_replay(&ask(&replicas.there, 1).await, "done"));
        assert_eq!(hits(&replicas.there), seen);
    }
}

// Field case D2. Field case C3.
#[tokio::test]
async fn another_request_under_the_key_is_a_mismatch_from_memory_too() {
    let replicas = Replicas::start();
    replicas.complete("done").await;
    for times in [1, 2] {
        let verdict = ask(&replicas.here, 2).await;
        assert!(
            matches!(verdict, ReserveVerdict::Mismatch(_)),
            "{verdict:?}"
        );
        assert_eq!(hits(&replicas.here), times);
    }
}

// Field case G11.
#[tokio::test]
async fn an_expired_outcome_is_told_no_longer_than_the_bound_and_never_beside_a_grant() {
    let replicas = Replicas::start();
    replicas.complete("done").await;
    assert!(is_replay(&ask(&replicas.there, 1).await, "done"));
    replicas.clock.advance(Duration::from_secs(20));
    replicas.expire().await;
    // Where it was expired, at once.
    let told = ask(&replicas.here, 1).await;
    assert!(matches!(told, ReserveVerdict::InProgress(_)), "{told:?}");
    // Elsewhere until the bound, counted from when it was read.
    replicas.clock.advance(Duration::from_secs(39));
    assert!(is_replay(&ask(&replicas.there, 1).await, "done"));
    replicas.clock.advance(Duration::from_secs(1));
    let told = ask(&replicas.there, 1).await;
    assert!(matches!(told, ReserveVerdict::InProgress(_)), "{told:?}");
    // Only then the key opens again, and nobody hears of the old outcome any more.
    replicas.clock.advance(Duration::from_secs(20));
    let told = ask(&replicas.there, 1).await;
    assert!(matches!(told, ReserveVerdict::Granted(_)), "{told:?}");
    let told = ask(&replicas.here, 2).await;
    assert!(!is_replay(&told, "done"), "{told:?}");
}

// Field case B2. Field case G12.
#[tokio::test]
async fn what_was_read_earlier_and_arrives_later_is_not_kept() {
    let replicas = Replicas::start();
    replicas.complete("done").await;
    let read = replicas.store.read(vec![key()]).await.expect("it is read");
    let late = Stands {
        record: Arc::new(read.records[0].clone().expect("readable").expect("there")),
        seen_at: read.now,
    };
    // Where it was expired, though it is within the bound.
    replicas.expire().await;
    replicas.here.keep(key().digest(), &late);
    let told = ask(&replicas.here, 1).await;
    assert!(matches!(told, ReserveVerdict::InProgress(_)), "{told:?}");
    // Anywhere, once the bound is over.
    replicas.clock.advance(limits::CACHE_BOUND);
    replicas.there.keep(key().digest(), &late);
    let told = ask(&replicas.there, 1).await;
    assert!(matches!(told, ReserveVerdict::Granted(_)), "{told:?}");
}

#[tokio::test]
async fn at_the_end_of_retention_the_store_is_asked() {
    let replicas = Replicas::start();
    replicas.complete("done").await;
    let second = Duration::from_secs(1);
    let almost = Terms::default().retention.saturating_sub(second);
    replicas.clock.advance(almost);
    assert!(is_replay(&ask(&replicas.here, 1).await, "done"));
    replicas.clock.advance(second);
    let told = ask(&replicas.here, 1).await;
    assert!(matches!(told, ReserveVerdict::Expired { .. }), "{told:?}");
}

#[tokio::test]
async fn a_memory_that_is_full_only_costs_a_question() {
    let replicas = Replicas::start();
    let clock = Clock::Manual(replicas.clock.clone());
    let tiny = Cached::new(Arc::clone(&replicas.store), clock, 1);
    replicas.complete("done").await;
    for _ in 0..3 {
        assert!(is_replay(&ask(&tiny, 1).await, "done"));
        tiny.local.settle();
    }
    assert_eq!(hits(&tiny), 0);
}
