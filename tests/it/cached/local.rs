//! What a replica tells from its own memory while another one changes the record.

use oncegate::domain::limits;
use oncegate::domain::policy::Terms;
use oncegate::testkit::values::secs;

use super::*;

const BYTES_MAX: u64 = 1024 * 1024;

fn replicas() -> Replicas {
    let put = |store, clock| Cached::new(store, clock, BYTES_MAX);
    Replicas::on(Duration::ZERO, Duration::ZERO, put)
}

#[tokio::test]
async fn an_outcome_is_told_from_memory_where_it_was_completed_and_where_it_was_read() {
    let replicas = replicas();
    replicas.complete("k").await;
    assert!(is_replay(&told(&replicas.here, "k").await, "k"));
    assert_eq!(count(&replicas.here, "local_hit"), 1);
    for seen in [0, 1, 2] {
        assert!(is_replay(&told(&replicas.there, "k").await, "k"));
        assert_eq!(count(&replicas.there, "local_hit"), seen);
    }
}

// Field case D2. Field case C3.
#[tokio::test]
async fn another_request_under_the_key_is_a_mismatch_from_memory_too() {
    let replicas = replicas();
    replicas.complete("k").await;
    for times in [1, 2] {
        let verdict = told_another(&replicas.here, "k").await;
        assert!(
            matches!(verdict, ReserveVerdict::Mismatch(_)),
            "{verdict:?}"
        );
        assert_eq!(count(&replicas.here, "local_hit"), times);
    }
}

// Field case G11.
#[tokio::test]
async fn an_expired_outcome_is_told_no_longer_than_the_bound_and_never_beside_a_grant() {
    let replicas = replicas();
    replicas.complete("k").await;
    assert!(is_replay(&told(&replicas.there, "k").await, "k"));
    replicas.clock.advance(secs(20));
    replicas.expire("k").await;
    // Where it was expired, at once.
    let verdict = told(&replicas.here, "k").await;
    assert!(
        matches!(verdict, ReserveVerdict::InProgress(_)),
        "{verdict:?}"
    );
    // Elsewhere until the bound, counted from when it was read.
    replicas.clock.advance(secs(39));
    assert!(is_replay(&told(&replicas.there, "k").await, "k"));
    replicas.clock.advance(secs(1));
    let verdict = told(&replicas.there, "k").await;
    assert!(
        matches!(verdict, ReserveVerdict::InProgress(_)),
        "{verdict:?}"
    );
    // Only then the key opens again, and nobody hears of the old outcome any more.
    replicas.clock.advance(secs(20));
    granted(replicas.there.as_ref(), "k").await;
    let verdict = told(&replicas.here, "k").await;
    assert!(!is_replay(&verdict, "k"), "{verdict:?}");
}

// Field case B2. Field case G12.
#[tokio::test(start_paused = true)]
async fn what_was_read_earlier_and_arrives_later_is_not_kept() {
    let put = |store, clock| Cached::new(store, clock, BYTES_MAX);
    let replicas = Replicas::on(Duration::ZERO, secs(5), put);
    replicas.complete("k").await;
    // Each replica reads the outcome, and hears of it when the world has moved on.
    for expired_here in [true, false] {
        let replica = if expired_here {
            &replicas.here
        } else {
            &replicas.there
        };
        let late = tokio::spawn({
            let replica = Arc::clone(replica);
            async move { told(&replica, "k").await }
        });
        sleep(secs(1)).await;
        if expired_here {
            replicas.expire("k").await;
        } else {
            replicas.clock.advance(limits::CACHE_BOUND);
        }
        let _whatever_it_was = late.await.expect("the task ends");
        let verdict = told(replica, "k").await;
        assert!(!is_replay(&verdict, "k"), "{expired_here}: {verdict:?}");
    }
}

#[tokio::test]
async fn at_the_end_of_retention_the_store_is_asked() {
    let replicas = replicas();
    replicas.complete("k").await;
    let almost = Terms::default().retention.saturating_sub(secs(1));
    replicas.clock.advance(almost);
    assert!(is_replay(&told(&replicas.here, "k").await, "k"));
    replicas.clock.advance(secs(1));
    let verdict = told(&replicas.here, "k").await;
    assert!(
        matches!(verdict, ReserveVerdict::Expired { .. }),
        "{verdict:?}"
    );
}

#[tokio::test]
async fn a_memory_of_no_bytes_only_costs_a_question() {
    let put = |store, clock| Cached::new(store, clock, 0);
    let replicas = Replicas::on(Duration::ZERO, Duration::ZERO, put);
    replicas.complete("k").await;
    let before = replicas.asked();
    for _ in 0..3 {
        assert!(is_replay(&told(&replicas.here, "k").await, "k"));
    }
    assert_eq!(replicas.asked(), before + 3);
    assert_eq!(count(&replicas.here, "local_hit"), 0);
}
