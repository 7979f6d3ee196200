//! Every verdict, with everything that it says.

use oncegate::proto::v1 as pb;
use pb::complete_response::Verdict as Completed;
use pb::reexecute_response::Verdict as Again;
use pb::reserve_response::Verdict;

use super::*;

fn lease_out(stage: &Stage) {
    stage.clock.advance(LEASE);
}

fn held(name: &str, token: &str) -> pb::ReexecuteRequest {
    pb::ReexecuteRequest {
        key: Some(key(name)),
        token: token.to_owned(),
        ..pb::ReexecuteRequest::default()
    }
}

#[tokio::test]
async fn a_grant_tells_its_token_fence_lease_and_downstream_key() {
    let stage = Stage::new().await;
    let request = reserve("k");
    let grant = granted(stage.reserve(request.clone()).await);
    assert!(grant.fence > 0 && !grant.token.is_empty() && grant.downstream_key.starts_with("og_"));
    assert_eq!(grant.attempt, 1);
    assert_eq!(grant.lease_remaining, Some(seconds(LEASE.as_secs())));
    assert_eq!(grant.durability(), pb::Durability::SingleNode);
    let same = granted(stage.reserve(request).await);
    assert_eq!(
        same, grant,
        "the same request id gets its own reservation back"
    );
}

#[tokio::test]
async fn a_second_caller_is_told_who_is_at_work() {
    let stage = Stage::new().await;
    stage.grant("k").await;
    let Verdict::InProgress(busy) = stage.reserve(reserve("k")).await else {
        panic!("somebody holds it");
    };
    assert_eq!((busy.holder.as_str(), busy.attempt), ("pod-1", 1));
    assert_eq!(busy.state(), pb::RecordState::Running);
    assert_eq!(busy.lease_remaining, Some(seconds(LEASE.as_secs())));
    assert!(busy.retry_after.is_some() && !busy.needs_recovery);
}

#[tokio::test]
async fn a_replay_is_byte_for_byte_what_was_completed() {
    let stage = Stage::new().await;
    let grant = stage.grant("k").await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let metadata = [(":status", "201"), ("x", "1"), ("x", "2")];
    let mut request = complete("k", &grant.token, &every_byte);
    let sent = request.outcome.as_mut().expect("set");
    sent.metadata = metadata
        .map(|(name, value)| pb::Metadata {
            name: name.to_owned(),
            value: value.to_owned(),
        })
        .into();
    let sent = sent.clone();
    answer(stage.server.gate().complete(request).await);
    let Verdict::Replay(replay) = stage.reserve(reserve("k")).await else {
        panic!("it has happened");
    };
    assert_eq!(replay.outcome, Some(sent));
    assert_eq!((replay.attempt, replay.fence), (1, grant.fence));
    assert!(replay.completed_at.is_some());
    assert_eq!(replay.durability(), pb::Durability::SingleNode);
}

#[tokio::test]
async fn a_mismatch_names_what_differs_and_shows_no_payload() {
    let stage = Stage::new().await;
    let print = |byte| pb::Fingerprint {
        scheme: "raw-sha256-v1".to_owned(),
        digest: vec![byte; 32],
    };
    let with = |byte, operation: &str| pb::ReserveRequest {
        fingerprint: Some(print(byte)),
        operation: operation.to_owned(),
        ..reserve("k")
    };
    granted(stage.reserve(with(1, "slot.claim")).await);
    for (request, want) in [
        (with(2, "slot.claim"), pb::mismatch::Field::Fingerprint),
        (with(1, "slot.free"), pb::mismatch::Field::Operation),
        (with(2, "slot.free"), pb::mismatch::Field::Operation),
    ] {
        let Verdict::Mismatch(mismatch) = stage.reserve(request).await else {
            panic!("it was used for something else");
        };
        assert_eq!(mismatch.field(), want);
        assert_eq!(mismatch.stored_operation, "slot.claim");
        assert!(mismatch.first_reserved_at.is_some());
    }
    let without = answer(stage.server.gate().reserve(reserve("k")).await);
    assert!(without.fingerprint_not_compared);
}

#[tokio::test]
async fn recover_tells_who_tried_before_and_what_the_other_side_can_do() {
    let stage = Stage::new().await;
    let request = pb::ReserveRequest {
        attributes: [("container".to_owned(), "MSKU1".to_owned())].into(),
        effect_class: pb::EffectClass::Fenced.into(),
        ..reserve("k")
    };
    let first = granted(stage.reserve(request).await);
    lease_out(&stage);
    let blind = pb::ReserveRequest {
        can_recover: false,
        ..reserve("k")
    };
    let Verdict::InProgress(stranded) = stage.reserve(blind).await else {
        panic!("a caller that cannot recover gets nothing");
    };
    assert!(stranded.needs_recovery);
    let recover = recovered(stage.reserve(reserve("k")).await);
    assert_eq!(recover.effect_class(), pb::EffectClass::Fenced);
    assert_eq!(recover.attributes["container"], "MSKU1");
    let reservation = recover.reservation.expect("a reservation");
    assert!(reservation.fence > first.fence);
    assert_eq!(reservation.attempt, 2);
    assert_eq!(reservation.downstream_key, first.downstream_key);
    let ended = &recover.attempts[0];
    assert_eq!(ended.ended_as(), pb::AttemptEnd::LeaseRanOut);
    assert_eq!((ended.fence, ended.attempt), (first.fence, 1));
    assert!(ended.reserved_at.is_some() && ended.ended_at.is_some());
}

#[tokio::test]
async fn a_parked_and_an_expired_key_say_since_when() {
    let stage = Stage::new().await;
    let grant = stage.grant("parked").await;
    let park = pb::ParkRequest {
        key: Some(key("parked")),
        token: grant.token,
        note: "nobody\ncan tell".to_owned(),
    };
    let parked = answer(stage.server.gate().park(park.clone()).await);
    assert!(parked.parked && parked.state() == pb::RecordState::Parked);
    assert!(
        answer(stage.server.gate().park(park).await).parked,
        "repeated"
    );
    let Verdict::Parked(parked) = stage.reserve(reserve("parked")).await else {
        panic!("a person decides");
    };
    assert!(parked.since.is_some() && parked.note == "nobody\ncan tell");

    let grant = stage.grant("old").await;
    stage.complete("old", &grant.token, b"x").await;
    stage.clock.advance(DAY);
    let Verdict::Expired(expired) = stage.reserve(reserve("old")).await else {
        panic!("retention is over");
    };
    assert_eq!(expired.status(), pb::OutcomeStatus::Succeeded);
    assert_eq!(expired.effect_id, "slot-7");
    let since = |at: Option<prost_types::Timestamp>| at.expect("set").seconds;
    assert_eq!(
        since(expired.expired_at) - since(expired.completed_at),
        24 * 3600
    );
}

#[tokio::test]
async fn complete_has_four_verdicts() {
    let stage = Stage::new().await;
    let old = stage.grant("k").await;
    lease_out(&stage);
    let recover = recovered(stage.reserve(reserve("k")).await);
    let token = recover.reservation.expect("a reservation").token;

    let first = stage.complete("k", &token, b"one").await;
    assert_eq!(first.verdict(), Completed::Recorded);
    assert!(first.outcome_used && first.completed_at.is_some() && first.stored.is_none());
    assert_eq!(first.state(), pb::RecordState::Completed);
    assert_eq!(first.durability(), pb::Durability::SingleNode);
    let again = stage.complete("k", &token, b"one").await;
    assert_eq!(again.verdict(), Completed::AlreadyRecorded);
    let other = stage.complete("k", &token, b"two").await;
    assert_eq!(other.verdict(), Completed::Divergent);
    assert_eq!(other.stored.expect("the first wins").payload, b"one");
    assert!(!other.outcome_used);
    let stale = stage.complete("k", &old.token, b"three").await;
    assert_eq!(stale.verdict(), Completed::Superseded);
}

#[tokio::test]
async fn a_lease_can_be_renewed_and_given_back_until_the_token_is_stale() {
    let stage = Stage::new().await;
    let grant = stage.grant("k").await;
    let mut gate = stage.server.gate();
    let renew = pb::RenewRequest {
        key: Some(key("k")),
        token: grant.token.clone(),
        lease: Some(seconds(60)),
    };
    let renewed = answer(gate.renew(renew.clone()).await);
    assert!(renewed.held && renewed.lease_remaining == Some(seconds(60)));
    let release = pb::ReleaseRequest {
        key: Some(key("k")),
        token: grant.token,
        reason: "not sent".to_owned(),
    };
    let released = answer(gate.release(release.clone()).await);
    assert!(released.released && released.state() == pb::RecordState::Released);
    assert!(
        answer(gate.release(release.clone()).await).released,
        "repeated"
    );
    stage.grant("k").await;
    assert!(
        !answer(gate.release(release).await).released,
        "somebody else has it"
    );
    let lost = answer(gate.renew(renew).await);
    assert!(!lost.held && lost.state() == pb::RecordState::Running);
}

#[tokio::test]
async fn reexecute_answers_by_the_effect_class() {
    let stage = Stage::new().await;
    for (class, want) in [
        (pb::EffectClass::Repeatable, "granted"),
        (pb::EffectClass::Opaque, "parked"),
    ] {
        let name = class.as_str_name();
        let request = pb::ReserveRequest {
            effect_class: class.into(),
            ..reserve(name)
        };
        let first = granted(stage.reserve(request).await);
        lease_out(&stage);
        let recover = recovered(stage.reserve(reserve(name)).await);
        let token = recover.reservation.expect("a reservation").token;
        let mut gate = stage.server.gate();
        let superseded = answer(gate.reexecute(held(name, &first.token)).await);
        assert!(matches!(superseded.verdict, Some(Again::Superseded(_))));
        match answer(gate.reexecute(held(name, &token)).await).verdict {
            Some(Again::Granted(again)) => {
                assert_eq!(want, "granted");
                assert_eq!(again.attempt, 2, "Reexecute keeps the attempt");
                let done = stage.complete(name, &again.token, b"x").await;
                assert_eq!(done.verdict(), Completed::Recorded);
            }
            Some(Again::Parked(parked)) => assert!(want == "parked" && parked.since.is_some()),
            other => panic!("{name}: {other:?}"),
        }
    }
}
