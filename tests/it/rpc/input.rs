//! Bad input: refused with the field's path and its limit, and nothing is stored.

use oncegate::domain::key::RecordKey;
use oncegate::proto::v1 as pb;

use super::*;

pub(super) fn assert_invalid(told: &Refusal, field: &str, limit: &str, case: &str) {
    assert_eq!(told.code, Code::InvalidArgument, "{case}: {told:?}");
    assert_eq!(told.reason, "INVALID_FIELD", "{case}: {told:?}");
    assert_eq!(told.metadata["field"], field, "{case}");
    assert_eq!(told.fields[0].0, field, "{case}");
    assert!(told.fields[0].1.contains(limit), "{case}: {told:?}");
    assert!(told.message.contains(field), "{case}: {told:?}");
}

type Change = Box<dyn Fn(&mut pb::ReserveRequest)>;

fn in_key(change: impl Fn(&mut pb::RecordKey) + 'static) -> Change {
    Box::new(move |request| change(request.key.as_mut().expect("set")))
}

pub(super) fn long(length: usize) -> String {
    "x".repeat(length)
}

fn bad_keys() -> Vec<(&'static str, &'static str, Change)> {
    vec![
        ("key", "required", Box::new(|r| r.key = None)),
        ("key.namespace", "1..=63", in_key(|k| k.namespace.clear())),
        (
            "key.namespace",
            "1..=63",
            in_key(|k| k.namespace = long(64)),
        ),
        (
            "key.namespace",
            "a-z",
            in_key(|k| "Terminal".clone_into(&mut k.namespace)),
        ),
        (
            "key.namespace",
            "a-z",
            in_key(|k| "t t".clone_into(&mut k.namespace)),
        ),
        (
            "key.environment",
            "1..=63",
            in_key(|k| k.environment.clear()),
        ),
        (
            "key.environment",
            "a-z",
            in_key(|k| "live\0".clone_into(&mut k.environment)),
        ),
        ("key.account", "0..=255", in_key(|k| k.account = long(256))),
        (
            "key.account",
            "control",
            in_key(|k| "a\nb".clone_into(&mut k.account)),
        ),
        ("key.key", "1..=255", in_key(|k| k.key.clear())),
        (
            "key.key",
            "blank",
            in_key(|k| " \u{3000} ".clone_into(&mut k.key)),
        ),
        ("key.key", "1..=255", in_key(|k| k.key = long(256))),
        (
            "key.key",
            "control",
            in_key(|k| "a\0b".clone_into(&mut k.key)),
        ),
        (
            "key.key",
            "control",
            in_key(|k| "a\u{7f}b".clone_into(&mut k.key)),
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn bad_rest() -> Vec<(&'static str, &'static str, Change)> {
    let span = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    let print = |scheme: &str, length| {
        Some(pb::Fingerprint {
            scheme: scheme.to_owned(),
            digest: vec![0; length],
        })
    };
    let (md5, empty) = (print("md5", 32), print("", 32));
    let (short, long_digest) = (print("app:x", 31), print("raw-sha256-v1", 33));
    let many = || (0..17).map(|n| (format!("n{n}"), String::new())).collect();
    vec![
        ("operation", "1..=127", Box::new(|r| r.operation.clear())),
        (
            "operation",
            "1..=127",
            Box::new(|r| r.operation = long(128)),
        ),
        (
            "operation",
            "control",
            Box::new(|r| "a\tb".clone_into(&mut r.operation)),
        ),
        ("holder", "0..=255", Box::new(|r| r.holder = long(256))),
        (
            "request_id",
            "16 bytes, is 15",
            Box::new(|r| r.request_id = vec![0; 15]),
        ),
        (
            "request_id",
            "16 bytes, is 17",
            Box::new(|r| r.request_id = vec![0; 17]),
        ),
        (
            "request_id",
            "must be random",
            Box::new(|r| r.request_id = vec![0; 16]),
        ),
        (
            "operation",
            "must not be blank",
            Box::new(|r| " ".clone_into(&mut r.operation)),
        ),
        (
            "fingerprint.scheme",
            "raw-sha256",
            Box::new(move |r| r.fingerprint.clone_from(&md5)),
        ),
        (
            "fingerprint.scheme",
            "1..=127",
            Box::new(move |r| r.fingerprint.clone_from(&empty)),
        ),
        (
            "fingerprint.digest",
            "32 bytes, is 31",
            Box::new(move |r| r.fingerprint.clone_from(&short)),
        ),
        (
            "fingerprint.digest",
            "32 bytes, is 33",
            Box::new(move |r| r.fingerprint.clone_from(&long_digest)),
        ),
        (
            "lease",
            "negative",
            Box::new(move |r| r.lease = span(-1, 0)),
        ),
        (
            "lease",
            "negative",
            Box::new(move |r| r.lease = span(0, -1)),
        ),
        (
            "lease",
            "malformed",
            Box::new(move |r| r.lease = span(1, -1)),
        ),
        (
            "lease",
            "malformed",
            Box::new(move |r| r.lease = span(0, 1_000_000_000)),
        ),
        (
            "lease",
            "at most",
            Box::new(move |r| r.lease = span(i64::MAX, 0)),
        ),
        ("wait", "negative", Box::new(move |r| r.wait = span(-1, -1))),
        (
            "effect_class",
            "99 is not",
            Box::new(|r| r.effect_class = 99),
        ),
        (
            "effect_class",
            "-1 is not",
            Box::new(|r| r.effect_class = -1),
        ),
        (
            "effect_class",
            "keyed_window",
            Box::new(|r| r.effect_class = pb::EffectClass::Keyed.into()),
        ),
        (
            "effect_class",
            "settle",
            Box::new(|r| r.effect_class = pb::EffectClass::Queryable.into()),
        ),
        (
            "attributes",
            "0..=16",
            Box::new(move |r| r.attributes = many()),
        ),
        (
            "attributes",
            "1..=127",
            Box::new(|r| r.attributes = [(long(128), String::new())].into()),
        ),
        (
            "attributes",
            "0..=127",
            Box::new(|r| r.attributes = [("n".to_owned(), long(128))].into()),
        ),
        (
            "attributes",
            "1..=127",
            Box::new(|r| r.attributes = [(String::new(), long(1))].into()),
        ),
    ]
}

#[tokio::test]
async fn a_bad_field_of_reserve_is_named_with_its_limit_and_nothing_is_stored() {
    let stage = Stage::new().await;
    for (at, (field, limit, change)) in bad_keys().into_iter().chain(bad_rest()).enumerate() {
        let mut request = reserve("k");
        change(&mut request);
        let told = refusal(stage.server.gate().reserve(request).await);
        assert_invalid(&told, field, limit, &format!("case {at}"));
    }
    let stored = RecordKey::parse("terminal", "live", "acct", "k").expect("valid");
    let read = stage.store.read(vec![stored]).await.expect("a reading");
    assert!(matches!(read.records[..], [Ok(None)]));
}

#[tokio::test]
async fn a_bad_field_of_complete_is_named_and_no_size_is_refused() {
    let stage = Stage::new().await;
    let grant = stage.grant("k").await;
    let omitted = |size_bytes, length| {
        Some(pb::PayloadOmitted {
            reason: "too large".to_owned(),
            size_bytes,
            sha256: vec![0; length],
        })
    };
    let with = |change: &dyn Fn(&mut pb::Outcome)| {
        let mut request = complete("k", &grant.token, b"x");
        change(request.outcome.as_mut().expect("set"));
        request
    };
    let none = pb::CompleteRequest {
        outcome: None,
        ..complete("k", &grant.token, b"")
    };
    let negative = pb::CompleteRequest {
        retention: Some(prost_types::Duration {
            seconds: -1,
            nanos: 0,
        }),
        ..complete("k", &grant.token, b"")
    };
    for (request, field, limit) in [
        (none, "outcome", "required"),
        (negative, "retention", "negative"),
        (with(&|o| o.status = 0), "outcome.status", "SUCCEEDED"),
        (with(&|o| o.status = 3), "outcome.status", "3 is not"),
        (
            with(&|o| o.payload_omitted = omitted(-1, 32)),
            "outcome.payload_omitted.size_bytes",
            "negative",
        ),
        (
            with(&|o| o.payload_omitted = omitted(1, 31)),
            "outcome.payload_omitted.sha256",
            "32 bytes, is 31",
        ),
    ] {
        let told = refusal(stage.server.gate().complete(request).await);
        assert_invalid(&told, field, limit, field);
    }
    let large = with(&|o| {
        o.payload = vec![0; 2 * 1024 * 1024];
        o.effect_id = long(256);
        o.content_type = long(256);
        o.metadata = vec![pb::Metadata {
            name: "n".to_owned(),
            value: long(9000),
        }];
    });
    let done = answer(stage.server.gate().complete(large).await);
    assert!(done.outcome_used);
    let kept = stage.lookup("k").await.outcome.expect("an outcome");
    assert!(kept.payload.is_empty() && kept.metadata.is_empty() && kept.effect_id.is_empty());
    let reason = kept.payload_omitted.expect("says so").reason;
    for part in ["payload", "metadata", "effect_id", "content_type"] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[tokio::test]
async fn a_token_that_is_not_this_records_is_refused_the_same_for_all_causes() {
    let stage = Stage::new().await;
    let own = stage.grant("k").await.token;
    let others = stage.grant("other").await.token;
    let mut flipped = own.clone().into_bytes();
    flipped[10] ^= 1;
    let flipped = String::from_utf8(flipped).expect("still text");
    let mut messages = Vec::new();
    for token in [
        "",
        "x",
        &own[1..],
        &own[..own.len() - 1],
        &flipped,
        &others,
        &long(10_000),
    ] {
        let told = refusal(
            stage
                .server
                .gate()
                .complete(complete("k", token, b"x"))
                .await,
        );
        assert_eq!(
            (told.code, told.reason.as_str()),
            (Code::InvalidArgument, "TOKEN_INVALID")
        );
        assert_eq!(told.metadata["field"], "token");
        assert_eq!(told.fields[0].0, "token");
        messages.push(told.message);
        let renew = pb::RenewRequest {
            key: Some(key("k")),
            token: token.to_owned(),
            lease: None,
        };
        assert_eq!(
            refusal(stage.server.gate().renew(renew).await).reason,
            "TOKEN_INVALID"
        );
    }
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(stage.lookup("k").await.state(), pb::RecordState::Running);
}
