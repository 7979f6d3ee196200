//! Bad input of those who operate: reasons, etags, pages, policies.

use oncegate::proto::v1 as pb;

use super::input::{assert_invalid, long};
use super::*;

#[tokio::test]
async fn reasons_notes_etags_and_pages_have_their_limits() {
    let stage = Stage::new().await;
    let (mut gate, mut support) = (stage.server.gate(), stage.server.support());
    let grant = stage.grant("k").await;
    let etag = stage.lookup("k").await.etag;
    for (reason, bad_etag, field, limit) in [
        (String::new(), None, "reason", "1..=1024"),
        ("  ".to_owned(), None, "reason", "blank"),
        (long(1025), None, "reason", "1..=1024"),
        ("a\0b".to_owned(), None, "reason", "control"),
        ("why".to_owned(), Some(""), "etag", "etag"),
        ("why".to_owned(), Some("1.2"), "etag", "etag"),
        ("why".to_owned(), Some("1.2.3.4"), "etag", "etag"),
        ("why".to_owned(), Some("x.y.z"), "etag", "etag"),
    ] {
        let etag = bad_etag.unwrap_or(&etag).to_owned();
        let expire = pb::ExpireRequest {
            key: Some(key("k")),
            reason: reason.clone(),
            allow_rerun: false,
            etag: etag.clone(),
        };
        assert_invalid(&refusal(gate.expire(expire).await), field, limit, &reason);
        let resolve = pb::ResolveRequest {
            key: Some(key("k")),
            etag,
            reason: reason.clone(),
            resolution: Some(pb::resolve_request::Resolution::NothingHappened(
                pb::NothingHappened {},
            )),
        };
        assert_invalid(
            &refusal(support.resolve(resolve).await),
            field,
            limit,
            &reason,
        );
    }
    let unset = pb::ResolveRequest {
        key: Some(key("k")),
        etag,
        reason: "why".to_owned(),
        resolution: None,
    };
    assert_invalid(
        &refusal(support.resolve(unset).await),
        "resolution",
        "required",
        "",
    );
    let park = pb::ParkRequest {
        key: Some(key("k")),
        token: grant.token,
        note: long(1025),
    };
    assert_invalid(&refusal(gate.park(park).await), "note", "0..=1024", "");
}

#[tokio::test]
async fn a_page_has_a_size_and_a_token_of_this_service() {
    let stage = Stage::new().await;
    let mut support = stage.server.support();
    for (page_size, page_token, field) in [
        (-1, "", "page_size"),
        (1, "x", "page_token"),
        (1, "-5", "page_token"),
    ] {
        let list = pb::ListAuditRequest {
            key: Some(key("k")),
            page_size,
            page_token: page_token.to_owned(),
        };
        assert_invalid(
            &refusal(support.list_audit(list).await),
            field,
            "must",
            field,
        );
    }
}

#[tokio::test]
async fn a_bad_policy_is_named_by_its_path_and_not_stored() {
    let stage = Stage::new().await;
    let mut admin = stage.server.admin();
    let policy = |change: &dyn Fn(&mut pb::NamespacePolicy)| {
        let mut policy = pb::NamespacePolicy::default();
        change(&mut policy);
        policy
    };
    let span = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    for (policy, field, limit) in [
        (
            policy(&|p| p.default_lease = span(-1)),
            "default_lease",
            "negative",
        ),
        (
            policy(&|p| p.default_lease = span(16 * 60)),
            "default_lease",
            "must be",
        ),
        (policy(&|p| p.effect_class = 7), "effect_class", "7 is not"),
        (policy(&|p| p.effect_class = 3), "keyed_window", "required"),
        (
            policy(&|p| p.effect_class = 5),
            "settle_max_pause",
            "required",
        ),
        (policy(&|p| p.fingerprint = 9), "fingerprint", "9 is not"),
        (policy(&|p| p.outcome_mode = 9), "outcome_mode", "9 is not"),
        (
            policy(&|p| p.payload_bytes_max = -1),
            "payload_bytes_max",
            "negative",
        ),
        (
            policy(&|p| p.mismatch_http_status = 500),
            "mismatch_http_status",
            "409 or 422",
        ),
        (
            policy(&|p| p.mismatch_http_status = 100_000),
            "mismatch_http_status",
            "large",
        ),
        (
            policy(&|p| p.max_recoveries = -1),
            "max_recoveries",
            "negative",
        ),
    ] {
        let namespace = pb::Namespace {
            name: "n".to_owned(),
            environments: vec![pb::Environment {
                name: "live".to_owned(),
                policy: Some(policy),
                signal_thresholds: None,
            }],
            ..pb::Namespace::default()
        };
        let request = pb::CreateNamespaceRequest {
            namespace: Some(namespace),
        };
        let told = refusal(admin.create_namespace(request).await);
        let path = format!("namespace.environments[0].policy.{field}");
        assert_invalid(&told, &path, limit, field);
    }
    assert_eq!(stage.store.namespace("n").await.expect("a reading"), None);
}
