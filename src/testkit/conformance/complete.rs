//! An outcome is recorded once and for good, and replayed byte for byte.

use super::{
    Answer, Command, CompleteVerdict, EffectClass, ReserveVerdict, Scene, StateName, Terms, effect,
    outcome, secs,
};
use crate::domain::command::Complete;
use crate::domain::outcome::{Outcome, OutcomeStatus};
use crate::domain::policy::OutcomeMode;
use crate::testkit::scene::{Held, terms};

async fn replayed(scene: &Scene, key: &str) -> Outcome {
    match scene.reserve(&scene.ask(key)).await {
        ReserveVerdict::Replay(replay) => replay.outcome,
        other => panic!("not REPLAY but {other:?}"),
    }
}

fn with_payload(payload: Vec<u8>) -> Outcome {
    let kind = "application/octet-stream".to_owned();
    Outcome::reported(
        OutcomeStatus::Succeeded,
        payload,
        kind,
        String::new(),
        Vec::new(),
        None,
    )
}

pub async fn the_current_holders_outcome_is_recorded_and_replayed(scene: Scene) {
    let held = scene.granted("k").await;
    scene.later(secs(3));
    let completed = scene.complete(&held, effect("done", "inv-1")).await;
    assert_eq!(completed.verdict, CompleteVerdict::Recorded);
    assert_eq!(completed.state, Some(StateName::Completed));
    assert_eq!(completed.completed_at, Some(scene.clock.now()));
    assert!(completed.outcome_used && !completed.diverges);
    scene.later(secs(5));
    let ReserveVerdict::Replay(replay) = scene.reserve(&scene.ask("k")).await else {
        panic!("must be REPLAY")
    };
    assert_eq!(replay.outcome, effect("done", "inv-1"));
    assert_eq!((replay.attempt, replay.fence), (1, held.token.fence));
    assert_eq!(Some(replay.completed_at), completed.completed_at);
}

pub async fn a_failure_for_good_is_replayed_like_a_success(scene: Scene) {
    let held = scene.granted("k").await;
    let text = outcome("refused");
    let refused = Outcome::reported(
        OutcomeStatus::Failed,
        text.payload,
        text.content_type,
        text.effect_id,
        text.metadata,
        None,
    );
    scene.complete(&held, refused.clone()).await;
    assert_eq!(replayed(&scene, "k").await, refused);
}

pub async fn an_equal_outcome_repeated_is_already_recorded(scene: Scene) {
    let held = scene.completed("k").await;
    let before = scene.record("k").await;
    scene.later(secs(9));
    let again = scene.complete(&held, outcome("done")).await;
    assert_eq!(again.verdict, CompleteVerdict::AlreadyRecorded);
    assert!(!again.diverges);
    assert_eq!(scene.record("k").await.state, before.state);
}

pub async fn an_equal_outcome_by_a_superseded_holder_is_already_recorded(scene: Scene) {
    let (first, second) = scene.taken_over("k").await;
    scene.complete(&second, outcome("done")).await;
    let again = scene.complete(&first, outcome("done")).await;
    assert_eq!(
        (again.verdict, again.diverges),
        (CompleteVerdict::AlreadyRecorded, false)
    );
}

pub async fn another_outcome_by_the_current_holder_is_divergent_and_the_first_stays(scene: Scene) {
    let held = scene.completed("k").await;
    let other = scene.complete(&held, outcome("other")).await;
    assert_eq!(other.verdict, CompleteVerdict::Divergent);
    assert_eq!(other.stored, Some(outcome("done")));
    assert!(other.diverges && !other.outcome_used);
    assert_eq!(replayed(&scene, "k").await, outcome("done"));
    let kept = scene.record("k").await.attempts;
    assert_eq!(
        kept.last().map(|attempt| attempt.late_outcomes.clone()),
        Some(vec![outcome("other")])
    );
}

pub async fn another_outcome_by_a_superseded_holder_is_superseded_and_kept(scene: Scene) {
    let (first, second) = scene.taken_over("k").await;
    scene.complete(&second, outcome("done")).await;
    let late = scene.complete(&first, outcome("other")).await;
    assert_eq!(late.verdict, CompleteVerdict::Superseded);
    assert!(late.diverges && !late.outcome_used);
    assert_eq!(late.stored, Some(outcome("done")));
    assert_eq!(replayed(&scene, "k").await, outcome("done"));
    let attempts = scene.record("k").await.attempts;
    let own = attempts
        .iter()
        .find(|attempt| attempt.fence == first.token.fence);
    assert_eq!(
        own.map(|attempt| attempt.late_outcomes.clone()),
        Some(vec![outcome("other")])
    );
}

pub async fn a_completed_outcome_never_changes_in_its_generation(scene: Scene) {
    let (first, second) = scene.taken_over("k").await;
    scene.complete(&second, outcome("done")).await;
    for held in [&first, &second] {
        scene.complete(held, effect("other", "id-1")).await;
        scene.release(held).await;
        scene.park(held).await;
        scene.renew(held, secs(30)).await;
        scene.reexecute(held).await;
        assert_eq!(replayed(&scene, "k").await, outcome("done"));
    }
}

pub async fn of_two_outcomes_sent_at_once_one_is_recorded(scene: Scene) {
    let held = scene.granted("k").await;
    let calls = (0..20).map(|number| {
        let (key, token) = (held.key.clone(), held.token);
        let outcome = outcome(&format!("outcome-{number}"));
        let command = Command::Complete(Box::new(Complete {
            key,
            token,
            outcome,
            retention: None,
        }));
        let store = std::sync::Arc::clone(&scene.store);
        tokio::spawn(async move { store.apply(command).await })
    });
    let mut recorded = 0;
    for answer in futures::future::join_all(calls).await {
        let answer = answer.expect("no task panics").expect("the store answers");
        let Answer::Complete(completed) = answer else {
            panic!("{answer:?}")
        };
        match completed.verdict {
            CompleteVerdict::Recorded => recorded += 1,
            CompleteVerdict::Divergent => {}
            other @ (CompleteVerdict::AlreadyRecorded | CompleteVerdict::Superseded) => {
                panic!("a loser was told {other:?}")
            }
        }
    }
    assert_eq!(recorded, 1);
}

pub async fn any_bytes_come_back_as_they_were(scene: Scene) {
    let every_byte: Vec<u8> = (0..=255).collect();
    for (number, payload) in [
        Vec::new(),
        vec![0],
        vec![0xff, 0, 0xfe],
        every_byte,
        b"{\"a\":\"\\u0000\"}".to_vec(),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k-{number}");
        let held = scene.granted(&key).await;
        scene.complete(&held, with_payload(payload.clone())).await;
        let replay = replayed(&scene, &key).await;
        assert_eq!((replay.payload, replay.omitted), (payload, None));
    }
}

pub async fn metadata_comes_back_in_its_order_with_repeated_names(scene: Scene) {
    let held = scene.granted("k").await;
    let pairs = [
        ("set", "b"),
        ("set", "a"),
        ("nul", "x\0y"),
        ("empty", ""),
        ("æøå", "订单-1"),
    ];
    let pairs: Vec<_> = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let kind = "text/plain".to_owned();
    let sent = Outcome::reported(
        OutcomeStatus::Succeeded,
        vec![1],
        kind,
        String::new(),
        pairs,
        None,
    );
    scene.complete(&held, sent.clone()).await;
    assert_eq!(replayed(&scene, "k").await, sent);
}

pub async fn a_payload_up_to_the_limit_is_kept_and_a_longer_one_left_out(scene: Scene) {
    let scene = scene.under(Terms {
        payload_bytes_max: 1000,
        ..terms()
    });
    for (size, kept) in [
        (999, true),
        (1000, true),
        (1001, false),
        (20 * 1024 * 1024, false),
    ] {
        let key = format!("k-{size}");
        let held = scene.granted(&key).await;
        let sent = with_payload(vec![7; size]);
        let completed = scene.complete(&held, sent.clone()).await;
        assert_eq!(completed.verdict, CompleteVerdict::Recorded);
        let replay = replayed(&scene, &key).await;
        assert_eq!(replay.payload.len(), if kept { size } else { 0 });
        let omitted = replay.omitted.map(|omitted| omitted.size_bytes);
        assert_eq!(omitted, (!kept).then(|| u64::try_from(size).expect("fits")));
        let again = scene.complete(&held, sent).await;
        assert_eq!(again.verdict, CompleteVerdict::AlreadyRecorded);
    }
}

pub async fn two_payloads_over_the_limit_are_still_told_apart(scene: Scene) {
    let scene = scene.under(Terms {
        payload_bytes_max: 10,
        ..terms()
    });
    let held = scene.granted("k").await;
    scene.complete(&held, with_payload(vec![1; 11])).await;
    let other = scene.complete(&held, with_payload(vec![2; 11])).await;
    assert_eq!(other.verdict, CompleteVerdict::Divergent);
}

pub async fn metadata_and_effect_id_over_their_limits_are_left_out_and_named(scene: Scene) {
    let held = scene.granted("k").await;
    let mut sent = effect("done", &"e".repeat(256));
    sent.metadata = vec![("n".to_owned(), "m".repeat(8 * 1024))];
    sent.content_type = "t".repeat(256);
    let completed = scene.complete(&held, sent).await;
    assert_eq!(completed.verdict, CompleteVerdict::Recorded);
    let replay = replayed(&scene, "k").await;
    assert_eq!(replay.payload, b"done");
    assert_eq!(
        (replay.effect_id.as_str(), replay.content_type.as_str()),
        ("", "")
    );
    assert!(replay.metadata.is_empty());
    let reason = replay
        .omitted
        .expect("it is said that something is missing")
        .reason;
    for left_out in ["metadata", "effect_id", "content_type"] {
        assert!(reason.contains(left_out), "{reason}");
    }
}

pub async fn a_record_of_digests_keeps_no_payload(scene: Scene) {
    let scene = scene.under(Terms {
        outcome_mode: OutcomeMode::DigestOnly,
        ..terms()
    });
    let held = scene.granted("k").await;
    scene
        .complete(&held, effect("a secret link", "inv-1"))
        .await;
    let replay = replayed(&scene, "k").await;
    assert!(replay.payload.is_empty());
    assert!(replay.omitted.is_some());
    assert_eq!(replay.effect_id, "inv-1");
    let again = scene
        .complete(&held, effect("a secret link", "inv-1"))
        .await;
    assert_eq!(again.verdict, CompleteVerdict::AlreadyRecorded);
}

pub async fn the_outcome_found_by_a_recovery_is_replayed_with_its_attempt(scene: Scene) {
    let scene = scene.of_class(EffectClass::Opaque);
    let (_, second): (Held, Held) = scene.taken_over("k").await;
    let completed = scene.complete(&second, effect("found", "inv-1")).await;
    assert_eq!(completed.verdict, CompleteVerdict::Recorded);
    let ReserveVerdict::Replay(replay) = scene.reserve(&scene.ask("k")).await else {
        panic!("must be REPLAY")
    };
    assert_eq!((replay.attempt, replay.fence), (2, second.token.fence));
}

pub async fn a_completion_without_a_record_is_superseded(scene: Scene) {
    let held = scene.granted("k").await;
    let elsewhere = Held {
        key: crate::testkit::scene::key_of("never-reserved"),
        ..held
    };
    let completed = scene.complete(&elsewhere, outcome("done")).await;
    assert_eq!(
        (completed.verdict, completed.state),
        (CompleteVerdict::Superseded, None)
    );
    assert!(!completed.outcome_used);
    assert_eq!(scene.find("never-reserved").await, None);
}
