//! Another request under the same key is refused before anything else about the record is told.

use super::{
    EffectClass, MismatchField, ReserveVerdict, Resolution, Scene, Terms, name_of, outcome, secs,
};
use crate::domain::command::Reserve;
use crate::domain::fingerprint::Fingerprint;
use crate::testkit::scene::{fingerprint, terms};

fn other_fingerprint(scene: &Scene, key: &str) -> Reserve {
    Reserve {
        fingerprint: Some(fingerprint(2)),
        ..scene.ask(key)
    }
}

fn other_operation(scene: &Scene, key: &str) -> Reserve {
    Reserve {
        operation: "sms.send".to_owned(),
        ..scene.ask(key)
    }
}

/// Asks with each field changed and checks that the record does not notice.
async fn refuses(scene: &Scene, key: &str) {
    let before = scene.record(key).await;
    for (request, field) in [
        (other_fingerprint(scene, key), MismatchField::Fingerprint),
        (other_operation(scene, key), MismatchField::Operation),
    ] {
        let verdict = scene.reserve(&request).await;
        let ReserveVerdict::Mismatch(mismatch) = verdict else {
            panic!("{key} must refuse another {field:?}, not {verdict:?}")
        };
        assert_eq!(mismatch.field, field);
        assert_eq!(mismatch.stored_operation, "invoice.create");
        assert_eq!(mismatch.first_reserved_at, before.first_reserved_at);
    }
    assert_eq!(scene.record(key).await, before);
}

pub async fn a_running_record_refuses_another_request(scene: Scene) {
    scene.granted("running").await;
    refuses(&scene, "running").await;
    scene.lease_out();
    refuses(&scene, "running").await;
    assert_eq!(scene.says("running").await, "RECOVER");
}

pub async fn a_recovering_record_refuses_another_request(scene: Scene) {
    let (_, second) = scene.taken_over("owned").await;
    refuses(&scene, "owned").await;
    scene.release(&second).await;
    refuses(&scene, "owned").await;
}

pub async fn a_completed_record_refuses_another_request_and_still_replays(scene: Scene) {
    scene.completed("completed").await;
    for _ in 0..2 {
        refuses(&scene, "completed").await;
        assert_eq!(scene.says("completed").await, "REPLAY");
    }
}

pub async fn a_parked_record_refuses_another_request(scene: Scene) {
    scene.parked("parked").await;
    refuses(&scene, "parked").await;
    scene
        .resolve("parked", Resolution::NothingHappened)
        .await
        .expect("it is parked");
    refuses(&scene, "parked").await;
}

pub async fn a_record_settled_by_a_person_refuses_another_request(scene: Scene) {
    scene.parked("k").await;
    let happened = Resolution::Happened(outcome("found"));
    scene.resolve("k", happened).await.expect("it is parked");
    refuses(&scene, "k").await;
}

pub async fn a_tombstone_refuses_another_request_swept_or_not(scene: Scene) {
    let scene = scene.under(Terms {
        retention: secs(100),
        ..terms()
    });
    scene.completed("k").await;
    scene.later(secs(100));
    refuses(&scene, "k").await;
    scene.sweep().await;
    refuses(&scene, "k").await;
    assert_eq!(scene.says("k").await, "EXPIRED");
}

pub async fn a_running_again_record_refuses_another_request(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    scene.running_again("k").await;
    refuses(&scene, "k").await;
}

pub async fn mismatch_comes_before_a_request_id_and_before_recovery(scene: Scene) {
    let held = scene.granted("k").await;
    let own = Reserve {
        fingerprint: Some(fingerprint(2)),
        ..held.request.clone()
    };
    assert_eq!(name_of(&scene.reserve(&own).await), "MISMATCH");
    scene.lease_out();
    let mut cannot = other_operation(&scene, "k");
    cannot.can_recover = false;
    assert_eq!(name_of(&scene.reserve(&cannot).await), "MISMATCH");
}

pub async fn under_a_released_key_the_new_grant_stores_its_own(scene: Scene) {
    let held = scene.granted("k").await;
    scene.release(&held).await;
    let request = Reserve {
        fingerprint: Some(fingerprint(2)),
        ..other_operation(&scene, "k")
    };
    assert_eq!(name_of(&scene.reserve(&request).await), "GRANTED");
    assert_eq!(scene.says("k").await, "MISMATCH");
    let record = scene.record("k").await;
    assert_eq!(
        (record.operation.as_str(), record.fingerprint),
        ("sms.send", Some(fingerprint(2)))
    );
}

pub async fn under_a_reopened_key_the_new_grant_stores_its_own(scene: Scene) {
    scene.completed("k").await;
    for _ in 0..2 {
        scene.expire("k", true).await.expect("it is completed");
    }
    scene.later(secs(60));
    assert_eq!(
        name_of(&scene.reserve(&other_operation(&scene, "k")).await),
        "GRANTED"
    );
    assert_eq!(scene.says("k").await, "MISMATCH");
}

pub async fn a_released_recovery_still_refuses_another_request(scene: Scene) {
    let (_, second) = scene.taken_over("k").await;
    scene.release(&second).await;
    refuses(&scene, "k").await;
}

pub async fn what_cannot_be_compared_is_said_and_the_state_decides(scene: Scene) {
    let other_scheme = Fingerprint::parse("json-sha256-v1", &[1; 32]).expect("valid");
    let own_scheme = Fingerprint::parse("app:legacy", &[1; 32]).expect("valid");
    scene.completed("with").await;
    let mut bare = scene.ask("without");
    bare.fingerprint = None;
    let held = scene.hold(&bare).await;
    scene.complete(&held, outcome("done")).await;
    for (key, fingerprint, not_compared) in [
        ("with", None, true),
        ("with", Some(other_scheme), true),
        ("with", Some(own_scheme), true),
        ("with", Some(fingerprint(1)), false),
        ("without", Some(fingerprint(1)), true),
        ("without", None, false),
    ] {
        let answer = scene
            .reserved(&Reserve {
                fingerprint,
                ..scene.ask(key)
            })
            .await;
        assert_eq!(name_of(&answer.verdict), "REPLAY");
        assert_eq!(answer.fingerprint_not_compared, not_compared, "{key}");
    }
}

pub async fn an_operation_is_compared_where_fingerprints_cannot_be(scene: Scene) {
    scene.completed("k").await;
    let request = Reserve {
        fingerprint: None,
        ..other_operation(&scene, "k")
    };
    assert_eq!(name_of(&scene.reserve(&request).await), "MISMATCH");
}
