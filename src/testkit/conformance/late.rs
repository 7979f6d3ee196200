//! What comes too late is used where nobody has decided yet, and is else kept as evidence.

use super::{
    CompleteVerdict, EffectClass, ReserveVerdict, Resolution, Scene, StateName, effect, outcome,
    secs,
};
use crate::domain::limits;
use crate::domain::outcome::Outcome;
use crate::testkit::scene::{Held, LEASE};

async fn replayed(scene: &Scene, key: &str) -> Outcome {
    match scene.reserve(&scene.ask(key)).await {
        ReserveVerdict::Replay(replay) => replay.outcome,
        other => panic!("not REPLAY but {other:?}"),
    }
}

pub async fn a_late_outcome_is_used_while_somebody_else_finds_out(scene: Scene) {
    let (first, second) = scene.taken_over("k").await;
    let late = scene.complete(&first, outcome("late")).await;
    assert_eq!(
        (late.verdict, late.outcome_used),
        (CompleteVerdict::Superseded, true)
    );
    assert_eq!(late.state, Some(StateName::Completed));
    assert_eq!(replayed(&scene, "k").await, outcome("late"));
    assert!(!scene.renew(&second, LEASE).await.held);
    let other = scene.complete(&second, outcome("other")).await;
    assert_eq!(
        (other.verdict, other.diverges),
        (CompleteVerdict::Divergent, true)
    );
}

pub async fn a_late_outcome_is_used_when_nobody_finds_out(scene: Scene) {
    let (first, second) = scene.taken_over("k").await;
    scene.release(&second).await;
    let late = scene.complete(&first, outcome("late")).await;
    assert_eq!(
        (late.verdict, late.outcome_used),
        (CompleteVerdict::Superseded, true)
    );
    assert_eq!(replayed(&scene, "k").await, outcome("late"));
}

pub async fn a_late_outcome_of_a_released_reservation_is_used(scene: Scene) {
    let held = scene.granted("k").await;
    scene.release(&held).await;
    let late = scene.complete(&held, outcome("late")).await;
    assert!(late.outcome_used);
    assert_eq!(replayed(&scene, "k").await, outcome("late"));
}

pub async fn a_late_outcome_of_a_parked_record_is_used(scene: Scene) {
    let (first, second) = scene.taken_over("superseded").await;
    scene.park(&second).await;
    let late = scene.complete(&first, outcome("late")).await;
    assert_eq!(
        (late.verdict, late.outcome_used),
        (CompleteVerdict::Superseded, true)
    );
    assert_eq!(replayed(&scene, "superseded").await, outcome("late"));

    let own = scene.parked("own").await;
    let late = scene.complete(&own, outcome("late")).await;
    assert!(late.outcome_used);
    assert_eq!(replayed(&scene, "own").await, outcome("late"));
}

pub async fn a_late_outcome_does_not_stop_another_run(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (first, second) = scene.running_again("k").await;
    let late = scene.complete(&first, outcome("late")).await;
    assert_eq!(
        (late.verdict, late.outcome_used),
        (CompleteVerdict::Superseded, false)
    );
    assert_eq!(late.state, Some(StateName::Running));
    let own = scene.complete(&second, outcome("done")).await;
    assert_eq!(
        (own.verdict, own.outcome_used),
        (CompleteVerdict::Recorded, true)
    );
    assert_eq!(replayed(&scene, "k").await, outcome("done"));
}

pub async fn a_kept_outcome_becomes_the_outcome_at_the_takeover(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (first, second) = scene.running_again("k").await;
    let whole = outcome(&"x".repeat(10_000));
    scene.complete(&first, whole.clone()).await;
    scene.lease_out();
    assert_eq!(replayed(&scene, "k").await, whole);
    let late = scene.complete(&second, outcome("done")).await;
    assert!(!late.outcome_used && late.diverges);
}

pub async fn a_kept_outcome_becomes_the_outcome_at_the_release(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (first, second) = scene.running_again("k").await;
    scene.complete(&first, outcome("late")).await;
    let released = scene.release(&second).await;
    assert_eq!(released.state, Some(StateName::Completed));
    assert_eq!(replayed(&scene, "k").await, outcome("late"));
}

pub async fn a_kept_outcome_becomes_the_outcome_at_the_parking(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (first, second) = scene.running_again("k").await;
    scene.complete(&first, outcome("late")).await;
    assert_eq!(scene.park(&second).await.state, Some(StateName::Completed));
    assert_eq!(replayed(&scene, "k").await, outcome("late"));
}

pub async fn a_kept_outcome_of_a_released_reservation_survives_the_next_release(scene: Scene) {
    let first = scene.granted("k").await;
    scene.release(&first).await;
    let second = scene.granted("k").await;
    assert!(!scene.complete(&first, outcome("late")).await.outcome_used);
    assert_eq!(
        scene.release(&second).await.state,
        Some(StateName::Completed)
    );
    assert_eq!(replayed(&scene, "k").await, outcome("late"));
}

pub async fn a_kept_outcome_waits_for_a_caller_that_can_recover(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (first, _) = scene.running_again("k").await;
    scene.complete(&first, outcome("late")).await;
    scene.lease_out();
    let mut request = scene.ask("k");
    request.can_recover = false;
    let told = scene.reserve(&request).await;
    assert!(matches!(told, ReserveVerdict::InProgress(told) if told.needs_recovery));
    assert_eq!(replayed(&scene, "k").await, outcome("late"));
}

pub async fn another_effect_id_rings_the_alarm(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (first, second) = scene.running_again("k").await;
    let late = scene.complete(&first, effect("done", "inv-1")).await;
    assert!(!late.diverges);
    let own = scene.complete(&second, effect("done", "inv-2")).await;
    assert!(own.diverges);
    assert_eq!(scene.record("k").await.effect_ids, ["inv-1", "inv-2"]);
}

pub async fn an_outcome_that_differs_from_a_kept_one_rings_the_alarm(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (first, second) = scene.running_again("k").await;
    scene.complete(&first, outcome("late")).await;
    let own = scene.complete(&second, outcome("done")).await;
    assert_eq!(
        (own.verdict, own.diverges),
        (CompleteVerdict::Recorded, true)
    );

    let (first, second) = scene.running_again("same").await;
    scene.complete(&first, outcome("done")).await;
    let own = scene.complete(&second, outcome("done")).await;
    assert_eq!(
        (own.verdict, own.diverges),
        (CompleteVerdict::Recorded, false)
    );
}

pub async fn two_different_late_outcomes_ring_the_alarm_and_the_first_is_kept(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (first, second) = scene.running_again("k").await;
    assert!(!scene.complete(&first, outcome("late")).await.diverges);
    assert!(!scene.complete(&first, outcome("late")).await.diverges);
    assert!(scene.complete(&first, outcome("other")).await.diverges);
    scene.release(&second).await;
    assert_eq!(replayed(&scene, "k").await, outcome("late"));
}

pub async fn an_outcome_of_another_generation_is_never_used(scene: Scene) {
    let old = scene.completed("k").await;
    scene.expire("k", true).await.expect("it is completed");
    scene.expire("k", true).await.expect("the same answer");
    scene.later(secs(60));
    let new = scene.granted("k").await;
    assert!(new.token.generation > old.token.generation);
    for text in ["done", "other"] {
        let late = scene.complete(&old, outcome(text)).await;
        assert_eq!(
            (late.verdict, late.outcome_used),
            (CompleteVerdict::Superseded, false)
        );
    }
    assert_eq!(scene.record("k").await.kept, None);
    scene.release(&new).await;
    assert!(!scene.complete(&old, outcome("done")).await.outcome_used);
    assert_eq!(scene.says("k").await, "GRANTED");
}

pub async fn a_tombstone_still_knows_its_outcome(scene: Scene) {
    let held = scene.completed("k").await;
    scene.expire("k", false).await.expect("it is completed");
    let again = scene.complete(&held, outcome("done")).await;
    assert_eq!(again.verdict, CompleteVerdict::AlreadyRecorded);
    assert_eq!(again.state, Some(StateName::Expired));
    let other = scene.complete(&held, outcome("other")).await;
    assert_eq!(
        (other.verdict, other.diverges),
        (CompleteVerdict::Divergent, true)
    );
    assert_eq!(other.stored, None);
    assert_eq!(scene.says("k").await, "EXPIRED");
}

pub async fn evidence_over_its_limit_is_kept_without_its_payload(scene: Scene) {
    let (first, second) = scene.taken_over("k").await;
    scene.complete(&second, outcome("done")).await;
    scene.complete(&first, outcome(&"x".repeat(5_000))).await;
    let attempts = scene.record("k").await.attempts;
    let own = attempts
        .iter()
        .find(|attempt| attempt.fence == first.token.fence);
    let late = &own.expect("the attempt is kept").late_outcomes[0];
    assert!(late.payload.is_empty());
    assert_eq!(
        late.omitted.as_ref().map(|omitted| omitted.size_bytes),
        Some(5_000)
    );
}

pub async fn an_outcome_that_meets_a_persons_decision_is_never_lost(scene: Scene) {
    let held = scene.parked("k").await;
    scene
        .resolve("k", Resolution::Happened(outcome("resolved")))
        .await
        .expect("it is parked");
    let late = scene.complete(&held, outcome("late")).await;
    assert_eq!(
        (late.verdict, late.diverges),
        (CompleteVerdict::Divergent, true)
    );
    assert_eq!(replayed(&scene, "k").await, outcome("resolved"));
    let attempts = scene.record("k").await.attempts;
    assert_eq!(attempts[0].late_outcomes, [outcome("late")]);
}

pub async fn an_outcome_after_a_person_said_nothing_happened_is_used(scene: Scene) {
    let held = scene.parked("k").await;
    scene
        .resolve("k", Resolution::NothingHappened)
        .await
        .expect("it is parked");
    assert!(scene.complete(&held, outcome("late")).await.outcome_used);
    assert_eq!(replayed(&scene, "k").await, outcome("late"));
}

/// The tokens of an earlier generation and of the one that a person opened.
async fn reopened(scene: &Scene) -> (Held, Held) {
    let old = scene.completed("k").await;
    scene.expire("k", true).await.expect("it is completed");
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
    scene.later(limits::CACHE_BOUND);
    (old, scene.granted("k").await)
}

async fn evidence(scene: &Scene, held: &Held) -> Vec<Outcome> {
    let attempts = scene.record("k").await.attempts;
    let own = attempts.iter().find(|own| own.fence == held.token.fence);
    own.map_or_else(Vec::new, |own| own.late_outcomes.clone())
}

pub async fn an_earlier_generations_own_outcome_is_no_news(scene: Scene) {
    let (old, new) = reopened(&scene).await;
    let again = scene.complete(&old, outcome("done")).await;
    assert_eq!(again.verdict, CompleteVerdict::Superseded);
    assert!(!again.outcome_used && !again.diverges);
    let done = scene.complete(&new, outcome("second")).await;
    assert_eq!(
        (done.verdict, done.diverges),
        (CompleteVerdict::Recorded, false)
    );
}

pub async fn another_outcome_of_an_earlier_generation_is_kept_and_rings_once(scene: Scene) {
    let (old, new) = reopened(&scene).await;
    for rings in [true, false] {
        let late = scene.complete(&old, outcome("another")).await;
        assert_eq!(late.verdict, CompleteVerdict::Superseded);
        assert_eq!((late.outcome_used, late.diverges), (false, rings));
    }
    assert_eq!(evidence(&scene, &old).await, [outcome("another")]);
    let done = scene.complete(&new, outcome("second")).await;
    assert_eq!(
        (done.verdict, done.diverges),
        (CompleteVerdict::Recorded, false)
    );
    assert_eq!(replayed(&scene, "k").await, outcome("second"));
}

pub async fn a_generation_of_which_nothing_is_left_still_leaves_its_evidence(scene: Scene) {
    let old = scene.completed("k").await;
    scene.later(secs(365 * 24 * 3_600));
    let new = scene.granted("k").await;
    for rings in [true, false] {
        let late = scene.complete(&old, outcome("late")).await;
        assert_eq!(late.verdict, CompleteVerdict::Superseded);
        assert_eq!((late.outcome_used, late.diverges), (false, rings));
    }
    assert_eq!(evidence(&scene, &old).await, [outcome("late")]);
    assert!(!scene.complete(&new, outcome("done")).await.diverges);
}
