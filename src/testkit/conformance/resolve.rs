//! Resolve settles a parked record, under the whole etag that was seen.

use super::{
    EffectClass, Refusal, ReserveVerdict, Resolution, Scene, StateName, Terms, an_etag, outcome,
    secs,
};
use crate::domain::command::Resolve;
use crate::domain::decision::AuditAction;
use crate::domain::record::Etag;
use crate::testkit::scene::{key_of, terms};

fn resolve(etag: Etag, resolution: Resolution) -> Resolve {
    let (key, reason, actor) = (key_of("k"), "asked the bank".to_owned(), "kari".to_owned());
    Resolve {
        key,
        etag,
        reason,
        actor,
        resolution,
    }
}

pub async fn a_resolve_of_what_is_not_there_is_not_found(scene: Scene) {
    let refused = scene
        .resolve_as(resolve(an_etag(), Resolution::NothingHappened))
        .await;
    assert_eq!(refused, Err(Refusal::NotFound));
    assert_eq!(scene.find("k").await, None);
    assert!(scene.audit("k").await.is_empty());
}

pub async fn a_person_who_knows_that_it_happened_completes_a_parked_record(scene: Scene) {
    scene.parked("k").await;
    let happened = Resolution::Happened(outcome("found"));
    let shown = scene.resolve("k", happened).await.expect("it is parked");
    assert_eq!(shown.state_name(), StateName::Completed);
    let ReserveVerdict::Replay(replay) = scene.reserve(&scene.ask("k")).await else {
        panic!("must be REPLAY")
    };
    assert_eq!(replay.outcome, outcome("found"));
    let entries = scene.audit("k").await;
    let audit = &entries[0].audit;
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (audit.action, audit.actor.as_str()),
        (AuditAction::Resolve, "kari")
    );
    assert_eq!(
        (audit.before, audit.after),
        (StateName::Parked, StateName::Completed)
    );
}

pub async fn a_person_who_knows_that_nothing_happened_leaves_it_to_the_next(scene: Scene) {
    let scene = scene.under(Terms {
        max_recoveries: 1,
        ..terms()
    });
    scene.granted("k").await;
    for verdict in ["RECOVER", "PARKED"] {
        scene.lease_out();
        assert_eq!(scene.says("k").await, verdict);
    }
    let nothing = Resolution::NothingHappened;
    let shown = scene.resolve("k", nothing).await.expect("it is parked");
    assert_eq!(shown.state_name(), StateName::Recovering);
    assert_eq!((shown.hold(), shown.recoveries), (None, 0));
    assert!(scene.recover("k").await.reexecute_approved);
}

pub async fn a_resolved_first_grant_is_recovered_never_granted_as_new(scene: Scene) {
    scene.parked("k").await;
    scene
        .resolve("k", Resolution::NothingHappened)
        .await
        .expect("it is parked");
    let held = scene.hold(&scene.ask("k")).await;
    assert_eq!(scene.state("k").await, Some(StateName::Recovering));
    scene.release(&held).await;
    assert_eq!(scene.says("k").await, "RECOVER");
}

pub async fn a_resolve_is_repeated_with_the_same_answer_and_one_audit_line(scene: Scene) {
    scene.parked("k").await;
    let etag = scene.record("k").await.etag();
    let call = resolve(etag, Resolution::NothingHappened);
    let first = scene.resolve_as(call.clone()).await.expect("it is parked");
    let again = scene.resolve_as(call).await.expect("the same answer");
    assert_eq!(first, again);
    assert_eq!(scene.audit("k").await.len(), 1);
}

pub async fn a_second_person_who_found_something_else_is_refused(scene: Scene) {
    for (first, second) in [
        (
            Resolution::Happened(outcome("found")),
            Resolution::NothingHappened,
        ),
        (
            Resolution::NothingHappened,
            Resolution::Happened(outcome("found")),
        ),
        (
            Resolution::Happened(outcome("one")),
            Resolution::Happened(outcome("other")),
        ),
    ] {
        let key = format!("{first:?} {second:?}");
        scene.parked(&key).await;
        let etag = scene.record(&key).await.etag();
        let call = |resolution| Resolve {
            key: key_of(&key),
            ..resolve(etag, resolution)
        };
        scene.resolve_as(call(first)).await.expect("it is parked");
        let refused = scene.resolve_as(call(second)).await;
        assert_eq!(refused, Err(Refusal::EtagMismatch), "{key}");
    }
}

pub async fn a_resolve_under_an_earlier_etag_changes_nothing(scene: Scene) {
    let held = scene.granted("k").await;
    let running = scene.record("k").await.etag();
    scene.park(&held).await;
    let parked = scene.record("k").await.etag();
    assert_ne!(running, parked);
    let nothing = || Resolution::NothingHappened;
    let refused = scene.resolve_as(resolve(running, nothing())).await;
    assert_eq!(refused, Err(Refusal::EtagMismatch));
    scene
        .resolve_as(resolve(parked, nothing()))
        .await
        .expect("it is parked");
    let second = scene.hold(&scene.ask("k")).await;
    scene.park(&second).await;
    let before = scene.record("k").await;
    let refused = scene.resolve_as(resolve(running, nothing())).await;
    assert_eq!(refused, Err(Refusal::EtagMismatch));
    assert_eq!(scene.record("k").await, before);
}

pub async fn what_is_not_parked_cannot_be_resolved(scene: Scene) {
    scene.granted("running").await;
    scene.taken_over("recovering").await;
    let released = scene.granted("released").await;
    scene.release(&released).await;
    scene.completed("completed").await;
    scene.completed("expired").await;
    scene
        .expire("expired", false)
        .await
        .expect("it is completed");
    for (key, state) in [
        ("running", StateName::Running),
        ("recovering", StateName::Recovering),
        ("released", StateName::Released),
        ("completed", StateName::Completed),
        ("expired", StateName::Expired),
    ] {
        let before = scene.record(key).await;
        let refused = scene.resolve(key, Resolution::Happened(outcome("x"))).await;
        assert_eq!(refused, Err(Refusal::WrongState(state)));
        assert_eq!(scene.record(key).await, before);
    }
}

pub async fn an_etag_never_takes_an_earlier_value_again(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let mut seen = Vec::new();
    let held = scene.granted("k").await;
    seen.push(scene.record("k").await.etag());
    scene.renew(&held, secs(60)).await;
    seen.push(scene.record("k").await.etag());
    for _ in 0..3 {
        scene.later(secs(60));
        let taker = scene.hold(&scene.ask("k")).await;
        seen.push(scene.record("k").await.etag());
        scene.reexecute(&taker).await;
        seen.push(scene.record("k").await.etag());
        scene.park(&taker).await;
        seen.push(scene.record("k").await.etag());
        scene
            .resolve("k", Resolution::NothingHappened)
            .await
            .expect("it is parked");
        seen.push(scene.record("k").await.etag());
    }
    let texts: std::collections::BTreeSet<_> = seen.iter().map(Etag::to_string).collect();
    assert_eq!(texts.len(), seen.len());
}

pub async fn the_audit_trail_is_read_in_pages_in_its_order(scene: Scene) {
    let mut last = None;
    for _ in 0..5 {
        let held = match last {
            None => scene.granted("k").await,
            Some(_) => scene.hold(&scene.ask("k")).await,
        };
        scene.park(&held).await;
        scene
            .resolve("k", Resolution::NothingHappened)
            .await
            .expect("it is parked");
        last = Some(held);
    }
    let whole = scene.audit("k").await;
    assert_eq!(whole.len(), 5);
    assert!(whole.windows(2).all(|pair| pair[0].id < pair[1].id));
    let mut paged = Vec::new();
    let mut after = 0;
    loop {
        let page = scene
            .store
            .audit(key_of("k"), after, 2)
            .await
            .expect("it is read");
        let Some(entry) = page.last() else { break };
        assert!(page.len() <= 2);
        after = entry.id;
        paged.extend(page);
    }
    assert_eq!(paged, whole);
    assert!(scene.audit("another").await.is_empty());
}
