//! GRANTED is given once; everybody else waits, and a repeated call gets its own back.

use std::sync::Arc;

use futures::future::join_all;

use super::{Answer, Command, ReserveVerdict, Scene, StateName, name_of, outcome, secs};
use crate::testkit::scene::LEASE;

pub async fn one_of_many_racers_is_granted(scene: Scene) {
    for round in 0..5 {
        let calls = (0..50).map(|_| {
            let (store, request) = (
                Arc::clone(&scene.store),
                scene.ask(&format!("race-{round}")),
            );
            tokio::spawn(async move { store.apply(Command::Reserve(Arc::new(request))).await })
        });
        let mut granted = 0;
        for answer in join_all(calls).await {
            let answer = answer
                .expect("no task panics")
                .expect("no racer is told of an error");
            let Answer::Reserve(reserved) = answer else {
                panic!("{answer:?}")
            };
            match reserved.verdict {
                ReserveVerdict::Granted(_) => granted += 1,
                ReserveVerdict::InProgress(told) => assert_eq!(told.state, StateName::Running),
                other => panic!("a loser was told {other:?}"),
            }
        }
        assert_eq!(granted, 1);
    }
}

pub async fn racers_with_other_fingerprints_are_one_grant_and_mismatches(scene: Scene) {
    let calls = (1..=20).map(|byte| {
        let mut request = scene.ask("k");
        request.fingerprint = Some(crate::testkit::scene::fingerprint(byte));
        let store = Arc::clone(&scene.store);
        tokio::spawn(async move { store.apply(Command::Reserve(Arc::new(request))).await })
    });
    let mut said = Vec::new();
    for answer in join_all(calls).await {
        let answer = answer.expect("no task panics").expect("the store answers");
        let Answer::Reserve(reserved) = answer else {
            panic!("{answer:?}")
        };
        said.push(name_of(&reserved.verdict));
    }
    said.sort_unstable();
    assert_eq!(said[0], "GRANTED");
    assert!(
        said[1..].iter().all(|verdict| *verdict == "MISMATCH"),
        "{said:?}"
    );
}

pub async fn one_of_many_takers_recovers_a_stranded_record(scene: Scene) {
    let first = scene.granted("k").await;
    scene.lease_out();
    let calls = (0..30).map(|_| {
        let (store, request) = (Arc::clone(&scene.store), scene.ask("k"));
        tokio::spawn(async move { store.apply(Command::Reserve(Arc::new(request))).await })
    });
    let mut takers = Vec::new();
    for answer in join_all(calls).await {
        let answer = answer.expect("no task panics").expect("the store answers");
        let Answer::Reserve(reserved) = answer else {
            panic!("{answer:?}")
        };
        match reserved.verdict {
            ReserveVerdict::Recover(recover) => takers.push(recover.grant),
            ReserveVerdict::InProgress(_) => {}
            other => panic!("a loser was told {other:?}"),
        }
    }
    assert_eq!(takers.len(), 1);
    assert!(takers[0].fence > first.grant.fence);
    assert_eq!(scene.record("k").await.recoveries, 1);
}

pub async fn a_completion_that_meets_a_takeover_is_never_undone(scene: Scene) {
    for round in 0..30 {
        let key = format!("k-{round}");
        let first = scene.granted(&key).await;
        scene.lease_out();
        let takers = (0..3).map(|_| Command::Reserve(Arc::new(scene.ask(&key))));
        let done = Command::Complete(Box::new(crate::domain::command::Complete {
            key: first.key.clone(),
            token: first.token,
            outcome: outcome("done"),
            retention: None,
        }));
        let calls = takers.chain([done]).map(|command| {
            let store = Arc::clone(&scene.store);
            tokio::spawn(async move { store.apply(command).await })
        });
        for answer in join_all(calls).await {
            let answer = answer.expect("no task panics").expect("the store answers");
            if let Answer::Complete(completed) = answer {
                assert!(completed.outcome_used);
            }
        }
        assert_eq!(scene.state(&key).await, Some(StateName::Completed));
        assert_eq!(scene.says(&key).await, "REPLAY");
    }
}

pub async fn a_first_grant_has_attempt_one_and_the_whole_lease(scene: Scene) {
    let held = scene.granted("k").await;
    assert_eq!(held.grant.attempt, 1);
    assert_eq!(held.grant.lease_remaining, LEASE);
    assert_eq!(held.grant.downstream_key, held.key.downstream_key(0));
    assert!(held.grant.fence.get() > 0);
    assert!(held.grant.generation.get() <= held.grant.fence.get());
}

pub async fn a_second_caller_is_told_who_is_at_work(scene: Scene) {
    let held = scene.granted("k").await;
    scene.later(secs(10));
    let mut request = scene.ask("k");
    "worker-2".clone_into(&mut request.holder);
    let ReserveVerdict::InProgress(told) = scene.reserve(&request).await else {
        panic!("must be IN_PROGRESS")
    };
    assert_eq!(
        (told.state, told.needs_recovery),
        (StateName::Running, false)
    );
    assert_eq!(told.lease_remaining, secs(20));
    assert_eq!(
        (told.holder.as_str(), told.attempt),
        (held.request.holder.as_str(), 1)
    );
    assert!(!told.retry_after.is_zero());
}

pub async fn a_waiting_caller_changes_nothing(scene: Scene) {
    scene.granted("k").await;
    let before = scene.record("k").await;
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
    assert_eq!(scene.record("k").await, before);
}

pub async fn a_repeated_call_gets_its_own_reservation_back(scene: Scene) {
    let held = scene.granted("k").await;
    scene.later(secs(10));
    let again = scene.hold(&held.request).await;
    assert_eq!(again.token, held.token);
    assert_eq!(again.grant.attempt, 1);
    assert_eq!(again.grant.lease_remaining, LEASE);
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
    assert!(scene.complete(&again, outcome("done")).await.outcome_used);
}

pub async fn a_repeated_call_gets_it_back_after_the_lease_if_nobody_took_over(scene: Scene) {
    let held = scene.granted("k").await;
    scene.later(LEASE * 2);
    let again = scene.hold(&held.request).await;
    assert_eq!(
        (again.token, again.grant.lease_remaining),
        (held.token, LEASE)
    );
    assert_eq!(scene.state("k").await, Some(StateName::Running));
}

pub async fn a_repeated_taker_gets_its_recovery_back(scene: Scene) {
    let (_, second) = scene.taken_over("k").await;
    scene.later(secs(10));
    let ReserveVerdict::Recover(again) = scene.reserve(&second.request).await else {
        panic!("must be RECOVER")
    };
    assert_eq!(
        (again.grant.fence, again.grant.attempt),
        (second.token.fence, 2)
    );
    assert_eq!(again.grant.lease_remaining, LEASE);
    assert_eq!(scene.record("k").await.recoveries, 1);
}

pub async fn a_used_request_id_no_longer_gets_its_reservation_back(scene: Scene) {
    let held = scene.granted("k").await;
    scene.renew(&held, LEASE).await;
    assert_eq!(name_of(&scene.reserve(&held.request).await), "IN_PROGRESS");
    scene.lease_out();
    let taker = scene.hold(&held.request).await;
    assert!(taker.token.fence > held.token.fence);
    assert_eq!(scene.state("k").await, Some(StateName::Recovering));
    assert!(scene.record("k").await.tainted);
}

pub async fn the_request_id_of_a_completed_reservation_gets_the_outcome(scene: Scene) {
    let held = scene.completed("k").await;
    assert_eq!(name_of(&scene.reserve(&held.request).await), "REPLAY");
}

pub async fn the_request_id_of_a_released_reservation_is_never_granted(scene: Scene) {
    let held = scene.granted("k").await;
    assert!(scene.release(&held).await.released);
    let late = scene.reserve(&held.request).await;
    let ReserveVerdict::InProgress(told) = late else {
        panic!("{late:?}")
    };
    assert_eq!(
        (told.state, told.needs_recovery),
        (StateName::Released, false)
    );

    let second = scene.granted("k").await;
    assert_eq!(name_of(&scene.reserve(&held.request).await), "IN_PROGRESS");
    scene.lease_out();
    assert_eq!(name_of(&scene.reserve(&held.request).await), "IN_PROGRESS");
    assert_eq!(scene.record("k").await.fence, second.token.fence);
}

pub async fn a_released_key_is_granted_again_with_a_higher_fence(scene: Scene) {
    let first = scene.granted("k").await;
    scene.release(&first).await;
    let second = scene.granted("k").await;
    assert!(second.token.fence > first.token.fence);
    assert_eq!(second.token.generation, first.token.generation);
    assert_eq!(second.grant.attempt, 2);
    assert_eq!(second.grant.downstream_key, first.grant.downstream_key);
    assert!(!scene.record("k").await.tainted);
}

pub async fn one_of_many_racers_is_granted_a_released_key(scene: Scene) {
    let held = scene.granted("k").await;
    scene.release(&held).await;
    let calls = (0..30).map(|_| {
        let (store, request) = (Arc::clone(&scene.store), scene.ask("k"));
        tokio::spawn(async move { store.apply(Command::Reserve(Arc::new(request))).await })
    });
    let mut granted = 0;
    for answer in join_all(calls).await {
        let answer = answer.expect("no task panics").expect("the store answers");
        let Answer::Reserve(reserved) = answer else {
            panic!("{answer:?}")
        };
        granted += u32::from(name_of(&reserved.verdict) == "GRANTED");
    }
    assert_eq!(granted, 1);
}

pub async fn what_decides_about_a_record_is_kept_from_its_grant(scene: Scene) {
    let mut request = scene.ask("k");
    request.terms.retention = secs(100);
    let held = scene.hold(&request).await;
    scene.complete(&held, outcome("done")).await;
    let mut other = scene.ask("k");
    other.terms.retention = secs(1_000);
    scene.later(secs(100));
    assert_eq!(name_of(&scene.reserve(&other).await), "EXPIRED");
}
