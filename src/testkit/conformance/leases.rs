//! A lease ends exactly at its end, never gets shorter, and has a cap. Nothing but politeness rests
//! on it: what it ends is the holder's exclusiveness, never the question what happened.

use super::{EffectClass, ReserveVerdict, Scene, StateName, Terms, effect, name_of, outcome, secs};
use crate::testkit::scene::{LEASE, TICK, terms};

pub async fn a_lease_ends_exactly_at_its_deadline(scene: Scene) {
    let held = scene.granted("k").await;
    scene.later(LEASE - TICK);
    let ReserveVerdict::InProgress(told) = scene.reserve(&scene.ask("k")).await else {
        panic!("one tick before the end it is held")
    };
    assert_eq!((told.lease_remaining, told.needs_recovery), (TICK, false));
    scene.later(TICK);
    let taker = scene.hold(&scene.ask("k")).await;
    assert!(taker.token.fence > held.token.fence);
    assert_eq!(scene.state("k").await, Some(StateName::Recovering));
}

pub async fn a_takeover_recovers_and_taints(scene: Scene) {
    let mut request = scene.ask("k");
    request
        .attributes
        .insert("order".to_owned(), "10422".to_owned());
    let first = scene.hold(&request).await;
    scene.lease_out();
    let recover = scene.recover("k").await;
    assert_eq!(recover.grant.attempt, 2);
    assert_eq!(recover.grant.generation, first.token.generation);
    assert_eq!(recover.grant.downstream_key, first.grant.downstream_key);
    assert_eq!(recover.effect_class, EffectClass::Opaque);
    assert_eq!(
        recover.attributes.get("order").map(String::as_str),
        Some("10422")
    );
    assert!(!recover.reexecute_approved);
    let fences: Vec<_> = recover
        .attempts
        .iter()
        .map(|attempt| attempt.fence)
        .collect();
    assert_eq!(fences, [first.token.fence, recover.grant.fence]);
    assert!(scene.record("k").await.tainted);
}

pub async fn a_running_record_is_never_granted_by_time_alone(scene: Scene) {
    scene.granted("k").await;
    for days in [1, 30, 400] {
        scene.later(secs(days * 86_400));
        scene.sweep().await;
        assert_eq!(scene.says("k").await, "RECOVER");
    }
}

pub async fn a_caller_that_cannot_recover_leaves_a_stranded_record_alone(scene: Scene) {
    scene.granted("k").await;
    scene.lease_out();
    let before = scene.record("k").await;
    let mut request = scene.ask("k");
    request.can_recover = false;
    let ReserveVerdict::InProgress(told) = scene.reserve(&request).await else {
        panic!("must be IN_PROGRESS")
    };
    assert_eq!(
        (told.state, told.needs_recovery),
        (StateName::Running, true)
    );
    assert_eq!(told.lease_remaining, secs(0));
    assert_eq!(scene.record("k").await, before);
}

pub async fn a_holder_that_nobody_took_over_from_still_completes(scene: Scene) {
    let held = scene.granted("k").await;
    scene.later(LEASE * 10);
    let completed = scene.complete(&held, outcome("done")).await;
    assert!(completed.outcome_used);
    assert_eq!(scene.says("k").await, "REPLAY");
}

pub async fn a_renewal_extends_the_lease_from_now(scene: Scene) {
    let held = scene.granted("k").await;
    scene.later(secs(20));
    let renewed = scene.renew(&held, secs(60)).await;
    assert_eq!((renewed.held, renewed.lease_remaining), (true, secs(60)));
    assert_eq!(renewed.state, Some(StateName::Running));
    scene.later(secs(60) - TICK);
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
    scene.later(TICK);
    assert_eq!(scene.says("k").await, "RECOVER");
}

pub async fn a_renewal_never_shortens_a_lease(scene: Scene) {
    let held = scene.granted("k").await;
    let renewed = scene.renew(&held, secs(1)).await;
    assert_eq!((renewed.held, renewed.lease_remaining), (true, LEASE));
}

pub async fn a_lapsed_lease_is_held_again_if_nobody_took_over(scene: Scene) {
    let held = scene.granted("k").await;
    scene.later(LEASE * 2);
    let renewed = scene.renew(&held, LEASE).await;
    assert_eq!((renewed.held, renewed.lease_remaining), (true, LEASE));
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
}

pub async fn a_lease_is_renewed_up_to_its_cap_and_stays_held_there(scene: Scene) {
    let scene = scene.under(Terms {
        max_total_lease: secs(60),
        ..terms()
    });
    let held = scene.granted("k").await;
    scene.later(secs(25));
    assert_eq!(scene.renew(&held, secs(30)).await.lease_remaining, secs(30));
    scene.later(secs(25));
    assert_eq!(scene.renew(&held, secs(30)).await.lease_remaining, secs(10));
    scene.later(secs(10));
    let at_cap = scene.renew(&held, secs(30)).await;
    assert_eq!((at_cap.held, at_cap.lease_remaining), (true, secs(0)));
    assert_eq!(scene.says("k").await, "RECOVER");
}

pub async fn a_first_lease_over_the_cap_is_cut_to_it(scene: Scene) {
    let scene = scene.under(Terms {
        max_total_lease: secs(60),
        ..terms()
    });
    let mut request = scene.ask("k");
    request.lease = secs(600);
    assert_eq!(scene.hold(&request).await.grant.lease_remaining, secs(60));
}

pub async fn the_cap_counts_anew_from_a_takeover_and_from_another_run(scene: Scene) {
    let scene = scene.under(Terms {
        effect_class: EffectClass::Repeatable,
        max_total_lease: secs(40),
        ..terms()
    });
    let (_, second) = scene.taken_over("k").await;
    scene.later(secs(25));
    assert_eq!(
        scene.renew(&second, secs(30)).await.lease_remaining,
        secs(15)
    );
    scene.reexecute(&second).await;
    assert_eq!(
        scene.renew(&second, secs(40)).await.lease_remaining,
        secs(40)
    );
    scene.later(secs(40));
    assert_eq!(
        scene.renew(&second, secs(40)).await.lease_remaining,
        secs(0)
    );
}

pub async fn a_superseded_holder_is_told_at_its_next_renewal(scene: Scene) {
    let (first, second) = scene.taken_over("k").await;
    let before = scene.record("k").await;
    let renewed = scene.renew(&first, LEASE).await;
    assert_eq!((renewed.held, renewed.lease_remaining), (false, secs(0)));
    assert_eq!(renewed.state, Some(StateName::Recovering));
    assert_eq!(scene.record("k").await, before);
    assert!(scene.renew(&second, LEASE).await.held);
}

pub async fn a_renewal_without_a_live_claim_is_not_held(scene: Scene) {
    let released = scene.granted("released").await;
    scene.release(&released).await;
    let completed = scene.completed("completed").await;
    let parked = scene.parked("parked").await;
    let (_, unowned) = scene.taken_over("unowned").await;
    scene.release(&unowned).await;
    for (held, state) in [
        (released, StateName::Released),
        (completed, StateName::Completed),
        (parked, StateName::Parked),
        (unowned, StateName::Recovering),
    ] {
        let renewed = scene.renew(&held, LEASE).await;
        assert_eq!((renewed.held, renewed.state), (false, Some(state)));
    }
}

pub async fn an_unowned_record_is_taken_by_the_next_that_can_recover(scene: Scene) {
    let (_, second) = scene.taken_over("k").await;
    scene.release(&second).await;
    let mut cannot = scene.ask("k");
    cannot.can_recover = false;
    let ReserveVerdict::InProgress(told) = scene.reserve(&cannot).await else {
        panic!("must be IN_PROGRESS")
    };
    assert_eq!((told.needs_recovery, told.holder.as_str()), (true, ""));
    let third = scene.recover("k").await;
    assert!(third.grant.fence > second.token.fence);
    assert_eq!(third.grant.attempt, 3);
}

pub async fn the_takeover_after_max_recoveries_parks(scene: Scene) {
    let scene = scene.under(Terms {
        max_recoveries: 2,
        ..terms()
    });
    scene.granted("k").await;
    for _ in 0..2 {
        scene.lease_out();
        assert_eq!(scene.says("k").await, "RECOVER");
    }
    scene.lease_out();
    assert_eq!(scene.says("k").await, "PARKED");
    assert_eq!(scene.state("k").await, Some(StateName::Parked));
    assert_eq!(scene.record("k").await.attempt, 3);
}

pub async fn fences_and_attempts_rise_with_every_grant_and_takeover(scene: Scene) {
    let mut last = scene.granted("k").await;
    for attempt in 2..6 {
        scene.lease_out();
        let next = scene.hold(&scene.ask("k")).await;
        assert!(next.token.fence > last.token.fence);
        assert_eq!(next.token.generation, last.token.generation);
        assert_eq!(next.grant.attempt, attempt);
        last = next;
    }
}

pub async fn the_first_and_the_newest_nineteen_attempts_are_kept(scene: Scene) {
    let scene = scene.under(Terms {
        max_recoveries: 100,
        ..terms()
    });
    scene.granted("k").await;
    for _ in 0..30 {
        scene.lease_out();
        assert_eq!(scene.says("k").await, "RECOVER");
    }
    let numbers: Vec<_> = scene
        .record("k")
        .await
        .all_attempts()
        .iter()
        .map(|attempt| attempt.attempt)
        .collect();
    let newest = 13..=31;
    assert_eq!(
        numbers,
        std::iter::once(1).chain(newest).collect::<Vec<_>>()
    );
}

pub async fn sixteen_effect_ids_are_kept(scene: Scene) {
    let held = scene.completed("k").await;
    for number in 0..20 {
        let late = scene
            .complete(&held, effect("other", &format!("id-{number}")))
            .await;
        assert!(!late.outcome_used);
        assert!(late.diverges);
    }
    assert_eq!(scene.record("k").await.effect_ids.len(), 16);
    assert_eq!(name_of(&scene.reserve(&scene.ask("k")).await), "REPLAY");
}
