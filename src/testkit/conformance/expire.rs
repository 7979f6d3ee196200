//! Expire ends a completed record's protection, under the generation that was seen.

use super::{
    CompleteVerdict, Refusal, ReserveVerdict, Scene, StateName, Terms, an_etag, outcome, secs,
};
use crate::domain::command::Expire;
use crate::domain::decision::AuditAction;
use crate::domain::record::{Etag, Record, RecordState, Reopening};
use crate::testkit::scene::{TICK, key_of, terms};

fn reopening(record: &Record) -> Reopening {
    match &record.state {
        RecordState::Expired(tombstone) => tombstone.reopening,
        other @ (RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Released { .. }
        | RecordState::Completed(_)
        | RecordState::Parked { .. }) => panic!("must be EXPIRED, not {other:?}"),
    }
}

fn expire(etag: Etag, allow_rerun: bool) -> Expire {
    let (key, reason, actor) = (key_of("k"), "wrong customer".to_owned(), "kari".to_owned());
    Expire {
        key,
        reason,
        allow_rerun,
        etag,
        actor,
    }
}

async fn in_progress(scene: &Scene) -> super::InProgress {
    match scene.reserve(&scene.ask("k")).await {
        ReserveVerdict::InProgress(told) => told,
        other => panic!("not IN_PROGRESS but {other:?}"),
    }
}

pub async fn an_expired_record_keeps_a_tombstone_and_is_never_run_again(scene: Scene) {
    let held = scene.completed("k").await;
    scene.later(secs(5));
    let shown = scene.expire("k", false).await.expect("it is completed");
    assert_eq!(shown.state_name(), StateName::Expired);
    let verdict = scene.reserve(&scene.ask("k")).await;
    let ReserveVerdict::Expired {
        completed_at,
        expired_at,
        ..
    } = verdict
    else {
        panic!("must be EXPIRED, not {verdict:?}")
    };
    assert_eq!(
        (expired_at, expired_at.since(completed_at)),
        (scene.clock.now(), secs(5))
    );
    let again = scene.complete(&held, outcome("done")).await;
    assert_eq!(again.verdict, CompleteVerdict::AlreadyRecorded);
    scene.later(secs(30 * 86_400));
    assert_eq!(scene.says("k").await, "EXPIRED");
}

pub async fn an_expire_is_repeated_with_the_same_answer_and_one_audit_line(scene: Scene) {
    scene.completed("k").await;
    let etag = scene.record("k").await.etag();
    let first = scene
        .expire_as(expire(etag, false))
        .await
        .expect("it is completed");
    let again = scene
        .expire_as(expire(etag, false))
        .await
        .expect("the same answer");
    assert_eq!(first, again);
    let entries = scene.audit("k").await;
    assert_eq!(entries.len(), 1);
    let audit = &entries[0].audit;
    assert_eq!(
        (audit.action, audit.actor.as_str()),
        (AuditAction::Expire, "kari")
    );
    assert_eq!(
        (audit.reason.as_str(), audit.at),
        ("wrong customer", scene.clock.now())
    );
    assert_eq!(
        (audit.before, audit.after),
        (StateName::Completed, StateName::Expired)
    );
}

pub async fn the_reopening_time_is_set_by_the_next_reserve_and_counts_from_it(scene: Scene) {
    let old = scene.completed("k").await;
    let shown = scene.expire("k", true).await.expect("it is completed");
    assert_eq!(reopening(&shown), Reopening::Unset);
    scene.later(secs(1_000));
    let told = in_progress(&scene).await;
    assert_eq!(
        (told.state, told.needs_recovery),
        (StateName::Expired, false)
    );
    assert_eq!(told.retry_after, secs(60));
    let opens = scene.clock.now().plus(secs(60));
    assert_eq!(reopening(&scene.record("k").await), Reopening::At(opens));
    scene.later(secs(60) - TICK);
    assert_eq!(in_progress(&scene).await.retry_after, TICK);
    scene.later(TICK);
    let new = scene.granted("k").await;
    assert!(new.token.generation > old.token.generation);
    assert!(new.token.fence > old.token.fence);
    assert_eq!(new.grant.attempt, 1);
    assert_eq!(new.grant.downstream_key, key_of("k").downstream_key(1));
}

pub async fn the_reopening_time_is_set_by_a_repeated_expire_once(scene: Scene) {
    scene.completed("k").await;
    let etag = scene.record("k").await.etag();
    let mut shown = Vec::new();
    for _ in 0..4 {
        shown.push(
            scene
                .expire_as(expire(etag, true))
                .await
                .expect("it is completed"),
        );
        scene.later(secs(1));
    }
    assert_eq!(reopening(&shown[0]), Reopening::Unset);
    assert!(matches!(reopening(&shown[1]), Reopening::At(_)));
    assert_eq!(shown[1], shown[2]);
    assert_eq!(shown[1], shown[3]);
    assert_eq!(scene.audit("k").await.len(), 1);
    assert_eq!(scene.record("k").await, *shown[1]);
}

pub async fn a_key_that_reopens_is_never_told_expired(scene: Scene) {
    scene.completed("k").await;
    scene.expire("k", true).await.expect("it is completed");
    for _ in 0..60 {
        assert_eq!(scene.says("k").await, "IN_PROGRESS");
        scene.later(secs(1));
    }
    assert_eq!(scene.says("k").await, "GRANTED");
}

pub async fn an_expired_record_may_be_allowed_another_run_later(scene: Scene) {
    let scene = scene.under(Terms {
        retention: secs(100),
        ..terms()
    });
    scene.completed("k").await;
    scene.later(secs(100));
    assert_eq!(scene.says("k").await, "EXPIRED");
    scene.expire("k", true).await.expect("it is expired");
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
    scene.later(secs(60));
    let held = scene.granted("k").await;
    assert_eq!(held.grant.downstream_key, key_of("k").downstream_key(1));
    let before: Vec<_> = scene
        .audit("k")
        .await
        .iter()
        .map(|entry| entry.audit.before)
        .collect();
    assert_eq!(before, [StateName::Expired]);
}

pub async fn an_allowed_run_outlives_the_tombstone(scene: Scene) {
    let scene = scene.under(Terms {
        retention: secs(100),
        tombstone_retention: secs(0),
        ..terms()
    });
    for (key, waits) in [("at once", 0), ("long after", 10_000)] {
        scene.completed(key).await;
        scene.expire(key, true).await.expect("it is completed");
        scene.later(secs(waits));
        scene.sweep().await;
        // The time of opening is not set yet: caches may still be filled until it is.
        assert_eq!(scene.says(key).await, "IN_PROGRESS", "{key}");
        scene.later(secs(60));
        let held = scene.granted(key).await;
        assert_eq!(
            held.grant.downstream_key,
            key_of(key).downstream_key(1),
            "{key}"
        );
    }
}

pub async fn every_allowed_run_has_its_own_downstream_key(scene: Scene) {
    let mut keys = Vec::new();
    for _ in 0..3 {
        let held = scene.granted("k").await;
        keys.push(held.grant.downstream_key.clone());
        scene.complete(&held, outcome("done")).await;
        for _ in 0..2 {
            scene.expire("k", true).await.expect("it is completed");
        }
        scene.later(secs(60));
    }
    let want: Vec<_> = (0..3)
        .map(|rerun| key_of("k").downstream_key(rerun))
        .collect();
    assert_eq!(keys, want);
}

pub async fn what_is_not_completed_cannot_be_expired(scene: Scene) {
    scene.granted("running").await;
    let (_, second) = scene.taken_over("unowned").await;
    scene.release(&second).await;
    scene.taken_over("owned").await;
    let released = scene.granted("released").await;
    scene.release(&released).await;
    scene.parked("parked").await;
    for (key, state) in [
        ("running", StateName::Running),
        ("owned", StateName::Recovering),
        ("unowned", StateName::Recovering),
        ("released", StateName::Released),
        ("parked", StateName::Parked),
    ] {
        let before = scene.record(key).await;
        for allow_rerun in [false, true] {
            assert_eq!(
                scene.expire(key, allow_rerun).await,
                Err(Refusal::WrongState(state))
            );
        }
        assert_eq!(scene.record(key).await, before);
        assert!(scene.audit(key).await.is_empty());
    }
}

pub async fn an_expire_of_what_is_not_there_is_not_found(scene: Scene) {
    let refused = scene.expire_as(expire(an_etag(), true)).await;
    assert_eq!(refused, Err(Refusal::NotFound));
    assert_eq!(scene.find("k").await, None);
    assert!(scene.audit("k").await.is_empty());
}

pub async fn an_expire_of_another_generation_changes_nothing(scene: Scene) {
    scene.completed("k").await;
    let old = scene.record("k").await.etag();
    for _ in 0..2 {
        scene.expire("k", true).await.expect("it is completed");
    }
    scene.later(secs(60));
    scene.completed("k").await;
    let before = scene.record("k").await;
    assert_eq!(
        scene.expire_as(expire(old, true)).await,
        Err(Refusal::EtagMismatch)
    );
    assert_eq!(scene.record("k").await, before);
    assert_eq!(scene.says("k").await, "REPLAY");
}
