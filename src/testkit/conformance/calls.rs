//! What callers do to a store: hang up, crowd, come in any order, come at midnight.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;

use super::{Command, CompleteVerdict, Scene, StateName, name_of, outcome, secs};
use crate::domain::command::Complete;

pub async fn a_dropped_reserve_loses_nothing(scene: Scene) {
    for round in 0..50 {
        let request = scene.ask(&format!("k-{round}"));
        let call = scene
            .store
            .apply(Command::Reserve(Arc::new(request.clone())));
        // Polled once and dropped, as when the caller hangs up.
        drop(call.now_or_never());
        let held = scene.hold(&request).await;
        assert_eq!(held.grant.attempt, 1);
        assert!(scene.complete(&held, outcome("done")).await.outcome_used);
    }
}

pub async fn a_dropped_complete_loses_nothing(scene: Scene) {
    for round in 0..50 {
        let key = format!("k-{round}");
        let held = scene.granted(&key).await;
        let command = Complete {
            key: held.key.clone(),
            token: held.token,
            outcome: outcome("done"),
            retention: None,
        };
        drop(
            scene
                .store
                .apply(Command::Complete(Box::new(command)))
                .now_or_never(),
        );
        let again = scene.complete(&held, outcome("done")).await.verdict;
        let known = [CompleteVerdict::Recorded, CompleteVerdict::AlreadyRecorded];
        assert!(known.contains(&again), "{again:?}");
        assert_eq!(scene.state(&key).await, Some(StateName::Completed));
    }
}

pub async fn callers_over_the_same_keys_in_any_order_all_get_an_answer(scene: Scene) {
    let keys: Vec<String> = (0..40).map(|number| format!("k-{number}")).collect();
    let mut calls = Vec::new();
    for caller in 0..10 {
        for step in 0..keys.len() {
            // Each caller walks the keys from another start, every other one backwards.
            let step = if caller % 2 == 0 {
                step
            } else {
                keys.len() - 1 - step
            };
            let request = scene.ask(&keys[(step + caller * 7) % keys.len()]);
            let store = Arc::clone(&scene.store);
            let command = Command::Reserve(Arc::new(request));
            calls.push(tokio::spawn(async move { store.apply(command).await }));
        }
    }
    let mut granted = 0;
    for answer in join_all(calls).await {
        let answer = answer
            .expect("no task panics")
            .expect("nobody is told of an error");
        let super::Answer::Reserve(reserved) = answer else {
            panic!("{answer:?}")
        };
        match name_of(&reserved.verdict) {
            "GRANTED" => granted += 1,
            other => assert_eq!(other, "IN_PROGRESS"),
        }
    }
    assert_eq!(granted, keys.len());
}

pub async fn a_key_is_granted_once_across_midnight_and_months(scene: Scene) {
    let day = 86_400;
    let midnight = day - scene.clock.now().as_micros().unsigned_abs() / 1_000_000 % day;
    scene.later(secs(midnight - 1));
    scene.granted("k").await;
    scene.later(secs(2));
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
    scene.later(secs(31 * day));
    assert_eq!(scene.says("k").await, "RECOVER");
}

pub async fn every_command_repeated_gets_its_answer_again(scene: Scene) {
    let held = scene.granted("k").await;
    assert_eq!(scene.hold(&held.request).await.token, held.token);
    let renewed = scene.renew(&held, held.request.lease).await;
    assert_eq!(scene.renew(&held, held.request.lease).await, renewed);
    let parked = scene.park(&held).await;
    assert_eq!(scene.park(&held).await, parked);
    let other = scene.granted("other").await;
    let released = scene.release(&other).await;
    assert_eq!(scene.release(&other).await, released);
}
