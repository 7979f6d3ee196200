//! What people see and do: Lookup, Expire, Resolve, the audit trail, namespaces.

use oncegate::proto::v1 as pb;
use pb::reserve_response::Verdict;
use pb::resolve_request::Resolution;

use super::*;

fn expire(name: &str, etag: &str, allow_rerun: bool) -> pb::ExpireRequest {
    pb::ExpireRequest {
        key: Some(key(name)),
        reason: "customer asked".to_owned(),
        allow_rerun,
        etag: etag.to_owned(),
    }
}

fn resolve(name: &str, etag: &str, resolution: Resolution) -> pb::ResolveRequest {
    pb::ResolveRequest {
        key: Some(key(name)),
        etag: etag.to_owned(),
        reason: "asked the terminal".to_owned(),
        resolution: Some(resolution),
    }
}

async fn park(stage: &Stage, name: &str) -> pb::Record {
    let grant = stage.grant(name).await;
    let park = pb::ParkRequest {
        key: Some(key(name)),
        token: grant.token,
        note: "lost".to_owned(),
    };
    assert!(answer(stage.server.gate().park(park).await).parked);
    stage.lookup(name).await
}

#[tokio::test]
async fn a_record_shows_everything_but_confers_nothing() {
    let stage = Stage::new().await;
    let request = pb::ReserveRequest {
        fingerprint: Some(pb::Fingerprint {
            scheme: "app:v1".to_owned(),
            digest: vec![7; 32],
        }),
        attributes: [("a".to_owned(), "b".to_owned())].into(),
        ..reserve("k")
    };
    let grant = granted(stage.reserve(request.clone()).await);
    let running = stage.lookup("k").await;
    assert_eq!(running.state(), pb::RecordState::Running);
    assert_eq!(running.key, Some(key("k")));
    assert_eq!(running.operation, "slot.claim");
    assert_eq!(running.fingerprint, request.fingerprint);
    assert_eq!(running.effect_class(), pb::EffectClass::Opaque);
    assert_eq!((running.fence, running.attempt), (grant.fence, 1));
    assert_eq!(running.holder, "pod-1");
    assert_eq!(running.lease_remaining, Some(seconds(LEASE.as_secs())));
    assert_eq!(running.attributes, request.attributes);
    assert_eq!(running.downstream_key, grant.downstream_key);
    assert_eq!(running.attempts.len(), 1, "the one that is held");
    assert_eq!(running.attempts[0].ended_as(), pb::AttemptEnd::Unspecified);
    assert!(running.outcome.is_none() && running.first_reserved_at.is_some());

    stage.complete("k", &grant.token, b"payload").await;
    let done = stage.lookup("k").await;
    assert_ne!(done.etag, running.etag);
    assert_eq!(done.outcome, Some(outcome(b"payload")));
    assert_eq!(done.effect_ids, ["slot-7"]);
    assert!(done.holder.is_empty() && done.lease_remaining.is_none());
    let since = |at: Option<prost_types::Timestamp>| at.expect("set").seconds;
    assert_eq!(
        since(done.retained_until) - since(done.completed_at),
        24 * 3600
    );

    let sparse = pb::LookupRequest {
        key: Some(key("k")),
        without_payload: true,
    };
    let sparse = answer(stage.server.gate().lookup(sparse).await).record;
    let left = sparse
        .and_then(|record| record.outcome)
        .expect("an outcome");
    assert!(left.payload.is_empty() && left.effect_id == "slot-7");
    let omitted = left.payload_omitted.expect("says so");
    assert_eq!((omitted.size_bytes, omitted.sha256.len()), (7, 32));
}

#[tokio::test]
async fn an_expired_key_stays_closed_or_reopens_after_the_cache_bound() {
    let stage = Stage::new().await;
    for (name, allow_rerun) in [("closed", false), ("reopens", true)] {
        let grant = stage.grant(name).await;
        stage.complete(name, &grant.token, b"x").await;
        let etag = stage.lookup(name).await.etag;
        let request = expire(name, &etag, allow_rerun);
        let expired = answer(stage.server.gate().expire(request.clone()).await);
        let repeated = answer(stage.server.gate().expire(request).await);
        assert_eq!(expired, repeated, "the same etag gets the same answer");
        assert_eq!(expired.reopens_in, allow_rerun.then(|| seconds(60)));
        let record = expired.record.expect("the record");
        assert_eq!(record.state(), pb::RecordState::Expired);
        assert_eq!(record.expired_reason, "customer asked");
        assert_eq!(record.reopens_at.is_some(), allow_rerun);
        assert!(record.expired_at.is_some() && record.outcome.is_none());
        let now = stage.reserve(reserve(name)).await;
        if !allow_rerun {
            assert!(matches!(now, Verdict::Expired(_)), "{now:?}");
            continue;
        }
        assert!(matches!(now, Verdict::InProgress(_)), "{now:?}");
        stage.clock.advance(Duration::from_mins(1));
        let again = granted(stage.reserve(reserve(name)).await);
        assert!(again.fence > grant.fence && again.downstream_key != grant.downstream_key);
    }
}

#[tokio::test]
async fn a_person_settles_a_parked_record_either_way_and_it_is_audited() {
    let stage = Stage::new().await;
    let mut support = stage.server.support();
    let parked = park(&stage, "happened").await;
    assert!(parked.parked_at.is_some() && parked.parked_note == "lost");
    let happened = Resolution::Happened(outcome(b"found"));
    let request = resolve("happened", &parked.etag, happened);
    let settled = answer(support.resolve(request).await)
        .record
        .expect("a record");
    assert_eq!(settled.state(), pb::RecordState::Completed);
    assert_eq!(settled.outcome, Some(outcome(b"found")));

    let parked = park(&stage, "nothing").await;
    let nothing = Resolution::NothingHappened(pb::NothingHappened {});
    let request = resolve("nothing", &parked.etag, nothing);
    answer(support.resolve(request).await);
    let recover = recovered(stage.reserve(reserve("nothing")).await);
    assert!(recover.reexecute_approved);
    let token = recover.reservation.expect("a reservation").token;
    let again = pb::ReexecuteRequest {
        key: Some(key("nothing")),
        token,
        ..pb::ReexecuteRequest::default()
    };
    answer(stage.server.gate().reexecute(again).await);

    let mut page = pb::ListAuditRequest {
        key: Some(key("nothing")),
        page_size: 1,
        page_token: String::new(),
    };
    let first = answer(support.list_audit(page.clone()).await);
    page.page_token = first.next_page_token;
    let second = answer(support.list_audit(page).await);
    assert_eq!(second.next_page_token, "");
    let (one, two) = (&first.entries[0], &second.entries[0]);
    assert_eq!(one.action(), pb::AuditAction::Resolve);
    assert_eq!(two.action(), pb::AuditAction::Reexecute);
    assert_eq!(one.state_before(), pb::RecordState::Parked);
    assert_eq!(one.state_after(), pb::RecordState::Recovering);
    assert_eq!(one.reason, "asked the terminal");
    assert!(one.id < two.id && one.at.is_some() && !one.actor.is_empty());
}

#[tokio::test]
async fn what_is_not_there_or_not_so_is_refused_with_its_reason() {
    let stage = Stage::new().await;
    let (mut gate, mut support) = (stage.server.gate(), stage.server.support());
    let grant = stage.grant("running").await;
    let running = stage.lookup("running").await;
    let etag = running.etag.as_str();

    let absent = pb::LookupRequest {
        key: Some(key("absent")),
        without_payload: false,
    };
    let told = refusal(gate.lookup(absent).await);
    assert_eq!(
        (told.code, told.reason.as_str()),
        (Code::NotFound, "RECORD_NOT_FOUND")
    );
    assert_eq!(told.metadata["namespace"], "terminal");
    assert_eq!(told.metadata["environment"], "live");
    let told = refusal(gate.expire(expire("absent", etag, false)).await);
    assert_eq!(told.reason, "RECORD_NOT_FOUND");

    let told = refusal(gate.expire(expire("running", etag, false)).await);
    assert_eq!(told.code, Code::FailedPrecondition);
    assert_eq!(
        (told.reason.as_str(), &*told.metadata["state"]),
        ("NOT_EXPIRABLE", "RUNNING")
    );

    let nothing = || Resolution::NothingHappened(pb::NothingHappened {});
    let told = refusal(support.resolve(resolve("running", etag, nothing())).await);
    assert_eq!(told.code, Code::FailedPrecondition);
    assert_eq!(
        (told.reason.as_str(), &*told.metadata["state"]),
        ("NOT_RESOLVABLE", "RUNNING")
    );

    stage.complete("running", &grant.token, b"x").await;
    let told = refusal(support.resolve(resolve("running", etag, nothing())).await);
    assert_eq!(
        (told.code, told.reason.as_str()),
        (Code::Aborted, "ETAG_MISMATCH")
    );
    assert_eq!(told.metadata["resource"], "record");
}

#[tokio::test]
async fn namespaces_are_created_read_listed_and_changed_by_their_etag() {
    let stage = Stage::new().await;
    let mut admin = stage.server.admin();
    let named = |name: &str| pb::CreateNamespaceRequest {
        namespace: Some(pb::Namespace {
            name: name.to_owned(),
            ..pb::Namespace::default()
        }),
    };
    for name in ["b", "a", "c"] {
        let created = answer(admin.create_namespace(named(name)).await);
        let again = answer(admin.create_namespace(named(name)).await);
        assert_eq!(created, again);
        let namespace = created.namespace.expect("a namespace");
        let names: Vec<_> = namespace.environments.iter().map(|e| &e.name).collect();
        assert_eq!(names, ["live", "test"]);
    }
    let mut page = pb::ListNamespacesRequest {
        page_size: 2,
        page_token: String::new(),
    };
    let first = answer(admin.list_namespaces(page.clone()).await);
    page.page_token.clone_from(&first.next_page_token);
    let second = answer(admin.list_namespaces(page).await);
    let listed = first.namespaces.iter().chain(&second.namespaces);
    assert_eq!(
        listed.map(|n| n.name.as_str()).collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    assert_eq!(second.next_page_token, "");
}

#[tokio::test]
async fn a_changed_policy_holds_at_once_and_an_old_etag_changes_nothing() {
    let stage = Stage::new().await;
    let mut admin = stage.server.admin();
    let created = pb::CreateNamespaceRequest {
        namespace: Some(pb::Namespace {
            name: "a".to_owned(),
            ..pb::Namespace::default()
        }),
    };
    answer(admin.create_namespace(created).await);
    let get = pb::GetNamespaceRequest {
        name: "a".to_owned(),
    };
    let mut namespace = answer(admin.get_namespace(get).await)
        .namespace
        .expect("it");
    let policy = namespace.environments[0]
        .policy
        .as_mut()
        .expect("filled in");
    policy.retention = Some(seconds(3600));
    policy.tombstone_retention = Some(seconds(0));
    policy.fingerprint = pb::FingerprintMode::Required.into();
    let update = pb::UpdateNamespaceRequest {
        namespace: Some(namespace.clone()),
    };
    let updated = answer(admin.update_namespace(update.clone()).await)
        .namespace
        .expect("it");
    assert_ne!(updated.etag, namespace.etag);
    let told = refusal(admin.update_namespace(update).await);
    assert_eq!(
        (told.code, told.reason.as_str()),
        (Code::Aborted, "ETAG_MISMATCH")
    );
    assert_eq!(told.metadata["resource"], "namespace");

    let get = pb::GetPolicyRequest {
        namespace: "a".to_owned(),
        environment: "live".to_owned(),
    };
    let policy = answer(stage.server.gate().get_policy(get).await)
        .policy
        .expect("it");
    assert_eq!(policy.retention, Some(seconds(3600)));
    assert_eq!(policy.tombstone_retention, Some(seconds(0)));
    assert_eq!(policy.default_lease, Some(seconds(30)));
    assert_eq!(policy.mismatch_http_status, 422);
    assert_eq!(policy.max_recoveries, 5);
    assert_eq!(policy.payload_bytes_max, 262_144);

    let mut key = key("k");
    key.namespace = "a".to_owned();
    let request = pb::ReserveRequest {
        key: Some(key),
        ..reserve("k")
    };
    let told = refusal(stage.server.gate().reserve(request).await);
    assert_eq!(
        (told.code, told.reason.as_str()),
        (Code::InvalidArgument, "FINGERPRINT_REQUIRED")
    );
    assert_eq!(told.fields[0].0, "fingerprint");
    assert_eq!(told.metadata["namespace"], "a");
}
