//! Whether the effect may run again after RECOVER: the record's effect class decides, or a person.

use super::{
    EffectClass, ReexecuteVerdict, ReserveVerdict, Resolution, Scene, StateName, Terms, outcome,
    secs,
};
use crate::domain::decision::AuditAction;
use crate::testkit::scene::{LEASE, TICK};

fn name(verdict: &ReexecuteVerdict) -> &'static str {
    match verdict {
        ReexecuteVerdict::Granted(_) => "GRANTED",
        ReexecuteVerdict::TooEarly { .. } => "TOO_EARLY",
        ReexecuteVerdict::Parked { .. } => "PARKED",
        ReexecuteVerdict::Superseded { .. } => "SUPERSEDED",
    }
}

pub async fn receipt_repeatable_and_fenced_run_again_at_once(scene: Scene) {
    let mut scene = scene;
    for (class, key) in [
        (EffectClass::Receipt, "receipt"),
        (EffectClass::Repeatable, "repeatable"),
        (EffectClass::Fenced, "fenced"),
    ] {
        scene = scene.of_class(class);
        let (first, second) = scene.taken_over(key).await;
        let ReexecuteVerdict::Granted(grant) = scene.reexecute(&second).await else {
            panic!("{class:?} runs again at once")
        };
        assert_eq!((grant.fence, grant.attempt), (second.token.fence, 2));
        assert!(grant.fence > first.token.fence);
        assert_eq!(grant.downstream_key, first.grant.downstream_key);
        assert_eq!(scene.state(key).await, Some(StateName::Running));
    }
}

pub async fn opaque_parks_and_says_so_again(scene: Scene) {
    let scene = scene.of_class(EffectClass::Opaque);
    let (_, second) = scene.taken_over("k").await;
    let call = scene.ask_again(&second);
    assert_eq!(name(&scene.reexecute_as(call.clone()).await), "PARKED");
    assert_eq!(scene.state("k").await, Some(StateName::Parked));
    assert_eq!(name(&scene.reexecute_as(call).await), "PARKED");
    assert_eq!(scene.says("k").await, "PARKED");
    assert!(scene.audit("k").await.is_empty());
}

pub async fn a_keyed_effect_runs_again_only_while_it_surely_arrives_inside_the_window(
    scene: Scene,
) {
    // A new run may begin 15 min after its grant and be late by the settle time of 20 s.
    let scene = scene.of_class(EffectClass::Keyed);
    for (key, age, verdict) in [
        ("inside", secs(2_680) - TICK, "GRANTED"),
        ("boundary", secs(2_680), "PARKED"),
        ("outside", secs(90_000), "PARKED"),
    ] {
        scene.granted(key).await;
        scene.later(age);
        let taker = scene.hold(&scene.ask(key)).await;
        assert_eq!(name(&scene.reexecute(&taker).await), verdict, "{key}");
    }
}

pub async fn a_keyed_window_counts_from_the_first_attempt_on_a_clean_slate(scene: Scene) {
    let scene = scene.under(Terms {
        effect_class: EffectClass::Keyed,
        keyed_window: secs(100),
        max_total_lease: LEASE,
        ..Terms::default()
    });
    let held = scene.granted("k").await;
    scene.later(secs(90));
    scene.release(&held).await;
    scene.granted("k").await;
    scene.later(secs(50));
    let taker = scene.hold(&scene.ask("k")).await;
    assert_eq!(name(&scene.reexecute(&taker).await), "GRANTED");
    scene.later(secs(50));
    let taker = scene.hold(&scene.ask("k")).await;
    assert_eq!(name(&scene.reexecute(&taker).await), "PARKED");
}

pub async fn a_queryable_effect_settles_only_after_the_old_lease_and_the_settle_time(scene: Scene) {
    let scene = scene.of_class(EffectClass::Queryable);
    scene.granted("k").await;
    scene.lease_out();
    let request = scene.ask("k");
    let second = scene.hold(&request).await;
    let ReserveVerdict::Recover(recover) = scene.reserve(&request).await else {
        panic!("must be RECOVER")
    };
    assert!(!recover.settled);
    scene.later(secs(20));
    let early = scene.reexecute(&second).await;
    let ReexecuteVerdict::TooEarly {
        settle_remaining,
        look_again,
    } = early
    else {
        panic!("at the end of the settle time it is still too early: {early:?}")
    };
    assert_eq!((settle_remaining, look_again), (TICK, false));
    assert!(!scene.renew(&second, LEASE).await.settled);
    scene.later(TICK);
    assert!(scene.renew(&second, LEASE).await.settled);
    assert_eq!(name(&scene.reexecute(&second).await), "GRANTED");
}

pub async fn a_look_up_begun_before_the_answer_that_said_settled_does_not_count(scene: Scene) {
    let scene = scene.of_class(EffectClass::Queryable);
    scene.granted("k").await;
    scene.later(LEASE + secs(21));
    let recover = scene.recover("k").await;
    assert!(recover.settled);
    let second = super::holder_of("k", &scene, &recover.grant);
    let mut call = scene.ask_again(&second);
    call.settled_seen = false;
    let early = scene.reexecute_as(call.clone()).await;
    assert!(
        matches!(
            early,
            ReexecuteVerdict::TooEarly {
                look_again: true,
                ..
            }
        ),
        "{early:?}"
    );
    assert_eq!(scene.state("k").await, Some(StateName::Recovering));
    call.settled_seen = true;
    assert_eq!(name(&scene.reexecute_as(call).await), "GRANTED");
}

pub async fn a_crashed_second_run_must_settle_too(scene: Scene) {
    let scene = scene.of_class(EffectClass::Queryable);
    scene.granted("k").await;
    scene.later(LEASE + secs(21));
    let second = scene.hold(&scene.ask("k")).await;
    assert_eq!(name(&scene.reexecute(&second).await), "GRANTED");
    scene.lease_out();
    let third = scene.hold(&scene.ask("k")).await;
    assert_eq!(name(&scene.reexecute(&third).await), "TOO_EARLY");
    scene.later(secs(20) + TICK);
    assert_eq!(name(&scene.reexecute(&third).await), "GRANTED");
}

pub async fn a_recovery_that_crashes_does_not_settle_anew(scene: Scene) {
    let scene = scene.of_class(EffectClass::Queryable);
    scene.taken_over("k").await;
    scene.lease_out();
    assert!(scene.recover("k").await.settled);
}

pub async fn another_run_has_its_own_lease_and_can_be_taken_over(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (_, second) = scene.running_again("k").await;
    scene.later(LEASE - TICK);
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
    scene.later(TICK);
    let third = scene.recover("k").await;
    assert!(third.grant.fence > second.token.fence);
    assert_eq!(third.grant.attempt, 3);
}

pub async fn the_same_call_gets_its_run_back_until_the_token_is_used(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (_, second) = scene.taken_over("k").await;
    let call = scene.ask_again(&second);
    assert_eq!(name(&scene.reexecute_as(call.clone()).await), "GRANTED");
    assert_eq!(name(&scene.reexecute_as(call.clone()).await), "GRANTED");
    assert_eq!(name(&scene.reexecute(&second).await), "SUPERSEDED");
    assert_eq!(name(&scene.reexecute_as(call.clone()).await), "GRANTED");
    scene.renew(&second, LEASE).await;
    assert_eq!(name(&scene.reexecute_as(call).await), "SUPERSEDED");
    assert_eq!(scene.audit("k").await.len(), 1);
}

pub async fn a_first_grant_is_never_run_again_by_its_own_holder(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let held = scene.granted("k").await;
    assert_eq!(name(&scene.reexecute(&held).await), "SUPERSEDED");
    assert_eq!(scene.state("k").await, Some(StateName::Running));
}

pub async fn a_stale_token_is_never_run_again(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (first, second) = scene.taken_over("k").await;
    assert_eq!(name(&scene.reexecute(&first).await), "SUPERSEDED");
    scene.release(&second).await;
    assert_eq!(name(&scene.reexecute(&second).await), "SUPERSEDED");
    assert_eq!(scene.state("k").await, Some(StateName::Recovering));
    scene.complete(&first, outcome("late")).await;
    let told = scene.reexecute(&second).await;
    assert_eq!(
        told,
        ReexecuteVerdict::Superseded {
            state: Some(StateName::Completed)
        }
    );
}

pub async fn a_recovery_whose_token_asked_to_run_again_is_used(scene: Scene) {
    let scene = scene.of_class(EffectClass::Queryable);
    let (_, second) = scene.taken_over("k").await;
    assert_eq!(name(&scene.reexecute(&second).await), "TOO_EARLY");
    assert_eq!(
        super::name_of(&scene.reserve(&second.request).await),
        "IN_PROGRESS"
    );
}

pub async fn a_person_approves_one_run_in_every_class(scene: Scene) {
    let mut scene = scene;
    for class in [
        EffectClass::Opaque,
        EffectClass::Receipt,
        EffectClass::Keyed,
        EffectClass::Fenced,
        EffectClass::Queryable,
        EffectClass::Repeatable,
    ] {
        scene = scene.of_class(class);
        let key = format!("{class:?}");
        let held = scene.granted(&key).await;
        scene.later(secs(90_000));
        assert!(scene.park(&held).await.parked);
        scene
            .resolve(&key, Resolution::NothingHappened)
            .await
            .expect("it is parked");
        let recover = scene.recover(&key).await;
        assert!(recover.reexecute_approved);
        let second = super::holder_of(&key, &scene, &recover.grant);
        assert_eq!(
            name(&scene.reexecute(&second).await),
            "GRANTED",
            "{class:?}"
        );
        let entries = scene.audit(&key).await;
        let actions: Vec<_> = entries.iter().map(|entry| entry.audit.action).collect();
        assert_eq!(actions, [AuditAction::Resolve, AuditAction::Reexecute]);
    }
}

pub async fn an_approval_is_used_up_by_one_run(scene: Scene) {
    let scene = scene.of_class(EffectClass::Opaque);
    scene.parked("k").await;
    scene
        .resolve("k", Resolution::NothingHappened)
        .await
        .expect("it is parked");
    let second = scene.hold(&scene.ask("k")).await;
    assert_eq!(name(&scene.reexecute(&second).await), "GRANTED");
    scene.lease_out();
    let recover = scene.recover("k").await;
    assert!(!recover.reexecute_approved);
    let third = super::holder_of("k", &scene, &recover.grant);
    assert_eq!(name(&scene.reexecute(&third).await), "PARKED");
}

pub async fn an_approval_waits_for_the_one_that_uses_it(scene: Scene) {
    let scene = scene.of_class(EffectClass::Opaque);
    scene.parked("k").await;
    scene
        .resolve("k", Resolution::NothingHappened)
        .await
        .expect("it is parked");
    scene.recover("k").await;
    scene.lease_out();
    let third = scene.recover("k").await;
    assert!(third.reexecute_approved);
    let third = super::holder_of("k", &scene, &third.grant);
    assert_eq!(name(&scene.reexecute(&third).await), "GRANTED");
}

pub async fn every_run_granted_again_is_in_the_audit_trail(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (_, second) = scene.running_again("k").await;
    scene.lease_out();
    let third = scene.hold(&scene.ask("k")).await;
    scene.reexecute(&third).await;
    let entries = scene.audit("k").await;
    let fences: Vec<_> = entries.iter().map(|entry| entry.audit.fence).collect();
    assert_eq!(fences, [second.token.fence, third.token.fence]);
    for entry in &entries {
        let audit = &entry.audit;
        assert_eq!(
            (audit.action, audit.actor.as_str()),
            (AuditAction::Reexecute, "worker-1")
        );
        assert_eq!(
            (audit.before, audit.after),
            (StateName::Recovering, StateName::Running)
        );
    }
    assert!(entries[0].id < entries[1].id);
}
