//! Retention ends by time alone, swept or not; the sweeper only tidies up behind it.

use std::sync::Arc;

use futures::future::join_all;

use super::{ReserveVerdict, Scene, StateName, Terms, name_of, outcome, secs};
use crate::domain::command::{Command, Complete};
use crate::port::store::Swept;
use crate::testkit::scene::{TICK, key_of, terms};

const DAY: u64 = 86_400;

pub async fn an_outcome_is_replayed_until_its_retention_ends_and_then_expired(scene: Scene) {
    for (key, swept) in [("left", false), ("swept", true)] {
        let held = scene.completed(key).await;
        scene.later(secs(DAY) - TICK);
        if swept {
            scene.sweep().await;
        }
        assert_eq!(scene.says(key).await, "REPLAY");
        scene.later(TICK);
        if swept {
            scene.sweep().await;
        }
        let verdict = scene.reserve(&scene.ask(key)).await;
        let ReserveVerdict::Expired {
            completed_at,
            expired_at,
            ..
        } = verdict
        else {
            panic!("must be EXPIRED, not {verdict:?}")
        };
        assert_eq!(expired_at.since(completed_at), secs(DAY));
        let again = scene.complete(&held, outcome("done")).await;
        assert_eq!(again.state, Some(StateName::Expired));
    }
}

pub async fn a_tombstone_answers_until_its_end_and_then_the_key_is_new(scene: Scene) {
    for (key, swept) in [("left", false), ("swept", true)] {
        let held = scene.completed(key).await;
        scene.later(secs(31 * DAY) - TICK);
        if swept {
            scene.sweep().await;
        }
        assert_eq!(scene.says(key).await, "EXPIRED");
        scene.later(TICK);
        if swept {
            scene.sweep().await;
        }
        let late = scene.complete(&held, outcome("done")).await;
        assert_eq!(late.state, None);
        let again = scene.granted(key).await;
        assert!(again.token.fence > held.token.fence);
        assert!(again.token.generation > held.token.generation);
        assert_eq!(again.grant.attempt, 1);
    }
}

pub async fn without_a_tombstone_a_key_is_new_only_after_the_cache_bound(scene: Scene) {
    let scene = scene.under(Terms {
        tombstone_retention: secs(0),
        ..terms()
    });
    for (key, swept) in [("left", false), ("swept", true)] {
        scene.completed(key).await;
        scene.later(secs(DAY + 60) - TICK);
        if swept {
            scene.sweep().await;
        }
        assert_eq!(scene.says(key).await, "EXPIRED");
        scene.later(TICK);
        if swept {
            scene.sweep().await;
        }
        assert_eq!(scene.says(key).await, "GRANTED");
    }
}

pub async fn retention_counts_from_completion_and_is_not_extended_by_reads(scene: Scene) {
    let scene = scene.under(Terms {
        retention: secs(120),
        ..terms()
    });
    let held = scene.granted("k").await;
    scene.later(secs(20));
    scene.complete(&held, outcome("done")).await;
    for _ in 0..3 {
        scene.later(secs(39));
        assert_eq!(scene.says("k").await, "REPLAY");
    }
    scene.later(secs(3));
    assert_eq!(scene.says("k").await, "EXPIRED");
}

pub async fn a_completion_may_ask_for_its_own_retention(scene: Scene) {
    let held = scene.granted("k").await;
    let command = Complete {
        key: held.key.clone(),
        token: held.token,
        outcome: outcome("done"),
        retention: Some(secs(50)),
    };
    scene.apply(Command::Complete(Box::new(command))).await;
    scene.later(secs(50) - TICK);
    assert_eq!(scene.says("k").await, "REPLAY");
    scene.later(TICK);
    assert_eq!(scene.says("k").await, "EXPIRED");
}

pub async fn the_sweeper_takes_the_payload_and_leaves_a_tombstone(scene: Scene) {
    scene.completed("k").await;
    scene.later(secs(DAY));
    let swept = scene.sweep().await;
    assert_eq!(
        swept,
        Swept {
            buried: 1,
            deleted: 0
        }
    );
    let record = scene.record("k").await;
    assert_eq!(record.state_name(), StateName::Expired);
    scene.later(secs(30 * DAY));
    let swept = scene.sweep().await;
    assert_eq!(
        swept,
        Swept {
            buried: 0,
            deleted: 1
        }
    );
    assert_eq!(scene.find("k").await, None);
}

pub async fn the_sweeper_takes_released_records_after_their_retention(scene: Scene) {
    let held = scene.granted("k").await;
    scene.release(&held).await;
    scene.later(secs(DAY) - TICK);
    assert_eq!(scene.sweep().await, Swept::default());
    scene.later(TICK);
    let swept = scene.sweep().await;
    assert_eq!(
        swept,
        Swept {
            buried: 0,
            deleted: 1
        }
    );
    let again = scene.granted("k").await;
    assert!(again.token.fence > held.token.fence);
}

pub async fn the_sweeper_never_touches_what_is_not_decided(scene: Scene) {
    scene.granted("running").await;
    let (_, owned) = scene.taken_over("unowned").await;
    scene.release(&owned).await;
    scene.taken_over("owned").await;
    scene.parked("parked").await;
    let keys = ["running", "owned", "unowned", "parked"];
    let mut before = Vec::new();
    for key in keys {
        before.push(scene.record(key).await);
    }
    scene.later(secs(4_000 * DAY));
    assert_eq!(scene.sweep().await, Swept::default());
    for (key, before) in keys.iter().zip(before) {
        assert_eq!(scene.record(key).await, before);
    }
}

pub async fn a_sweep_touches_no_more_than_its_batch(scene: Scene) {
    for number in 0..25 {
        scene.completed(&format!("k-{number}")).await;
    }
    scene.later(secs(DAY));
    for buried in [10, 10, 5, 0] {
        let swept = scene.store.sweep(10).await.expect("the store sweeps");
        assert_eq!(swept, Swept { buried, deleted: 0 });
    }
}

pub async fn several_sweepers_at_once_touch_each_record_once(scene: Scene) {
    for number in 0..60 {
        scene.completed(&format!("k-{number}")).await;
    }
    for (age, want) in [
        (
            secs(DAY),
            Swept {
                buried: 60,
                deleted: 0,
            },
        ),
        (
            secs(30 * DAY),
            Swept {
                buried: 0,
                deleted: 60,
            },
        ),
    ] {
        scene.later(age);
        let mut sum = Swept::default();
        // Several rounds: a sweeper passes over what another one is at.
        for _ in 0..20 {
            let sweeps = (0..8).map(|_| {
                let store = Arc::clone(&scene.store);
                tokio::spawn(async move { store.sweep(7).await })
            });
            for swept in join_all(sweeps).await {
                let swept = swept.expect("no task panics").expect("the store sweeps");
                sum.buried += swept.buried;
                sum.deleted += swept.deleted;
            }
        }
        assert_eq!(sum, want);
    }
}

pub async fn a_sweep_and_a_reserve_at_once_agree(scene: Scene) {
    let scene = scene.under(Terms {
        tombstone_retention: secs(0),
        ..terms()
    });
    for round in 0..20 {
        let key = format!("k-{round}");
        let old = scene.completed(&key).await;
        scene.later(secs(DAY + 60));
        let sweeper = Arc::clone(&scene.store);
        let sweep = tokio::spawn(async move { sweeper.sweep(10).await });
        let calls = (0..5).map(|_| {
            let (store, request) = (Arc::clone(&scene.store), scene.ask(&key));
            tokio::spawn(async move { store.apply(Command::Reserve(Arc::new(request))).await })
        });
        let mut granted = 0;
        for answer in join_all(calls).await {
            let answer = answer.expect("no task panics").expect("the store answers");
            let super::Answer::Reserve(reserved) = answer else {
                panic!("{answer:?}")
            };
            granted += u32::from(name_of(&reserved.verdict) == "GRANTED");
        }
        sweep
            .await
            .expect("no task panics")
            .expect("the store sweeps");
        assert_eq!(granted, 1);
        assert!(scene.record(&key).await.fence > old.token.fence);
    }
}

pub async fn fences_rise_over_sweep_and_reuse(scene: Scene) {
    let scene = scene.under(Terms {
        retention: secs(10),
        tombstone_retention: secs(0),
        ..terms()
    });
    let mut last = 0;
    for round in 0..8 {
        let held = scene.granted("k").await;
        assert!(held.token.fence.get() > last, "round {round}");
        last = held.token.fence.get();
        scene.complete(&held, outcome("done")).await;
        scene.later(secs(70));
        if round % 2 == 0 {
            scene.sweep().await;
            assert_eq!(scene.find("k").await, None);
        }
    }
    assert_eq!(scene.record("k").await.key, key_of("k"));
}

pub async fn tokens_are_checked_with_the_same_secrets_for_ever(scene: Scene) {
    let (one, other) = tokio::join!(scene.store.token_secrets(), scene.store.token_secrets());
    let (one, other) = (one.expect("a secret"), other.expect("a secret"));
    let held = scene.granted("k").await;
    let text = one.issue(&held.key.digest(), held.token);
    assert_eq!(other.verify(&held.key.digest(), &text), Ok(held.token));
    scene.later(secs(400 * DAY));
    scene.sweep().await;
    let later = scene.store.token_secrets().await.expect("a secret");
    assert_eq!(later.verify(&held.key.digest(), &text), Ok(held.token));
    assert!(later.verify(&key_of("other").digest(), &text).is_err());
}
