//! Who may do what where, and what is looked at first.

use std::sync::Arc;

use oncegate::domain::caller::{Caller, Role};
use oncegate::port::clock::Clock;
use oncegate::proto::v1 as pb;
use oncegate::store::memory::MemoryStore;
use oncegate::testkit::server::{TestServer, options};
use oncegate::transport::layer::auth::{Credential, Credentials};
use sha2::{Digest, Sha256};
use tonic::Request;

use super::methods::{METHODS, bearing, call};
use super::*;

fn caller(role: Role, namespace: Option<&str>, environment: Option<&str>) -> Caller {
    Caller {
        name: format!("{role:?}"),
        role,
        namespace: namespace.map(str::to_owned),
        environment: environment.map(str::to_owned),
    }
}

async fn guarded(callers: Vec<(&str, Caller)>) -> TestServer {
    let credentials = callers.into_iter().map(|(token, caller)| Credential {
        sha256: Sha256::digest(token).into(),
        caller: Arc::new(caller),
    });
    let mut options = options();
    options.routes.credentials = Credentials::new(credentials.collect());
    TestServer::with(Arc::new(MemoryStore::new(Clock::Database)), options).await
}

const SETTER_UP: &str = "who sets the test up";

/// A genuine token of the record that all calls name.
async fn reservation(server: &TestServer) -> String {
    let reserved = server
        .gate()
        .reserve(bearing(SETTER_UP, reserve("k")))
        .await;
    match reserved.expect("an answer").into_inner().verdict {
        Some(Verdict::Granted(granted)) => granted.token,
        other => panic!("must be GRANTED, is {other:?}"),
    }
}

/// What each role may call, as the contract has it.
fn allowed(role: Role, method: &str) -> bool {
    let gate = METHODS[..8].contains(&method);
    let read = matches!(method, "Lookup" | "GetPolicy");
    let support = matches!(method, "Expire" | "Resolve" | "ListAudit");
    match role {
        Role::Admin => true,
        Role::Worker => gate || read,
        Role::Reader => read,
        Role::Support => read || support,
        Role::Unknown => false,
    }
}

#[tokio::test]
async fn each_role_may_call_its_own_methods_in_its_own_scope_alone() {
    for (_, role) in Role::ALL {
        let server = guarded(vec![
            (SETTER_UP, caller(Role::Admin, None, None)),
            ("everywhere", caller(role, None, None)),
            ("here", caller(role, Some("terminal"), Some("live"))),
            ("this-namespace", caller(role, Some("terminal"), None)),
            (
                "other-environment",
                caller(role, Some("terminal"), Some("test")),
            ),
            ("other-namespace", caller(role, Some("invoices"), None)),
        ])
        .await;
        let reservation = reservation(&server).await;
        for method in METHODS {
            let by_token = matches!(method, "Complete" | "BatchComplete");
            let of_namespace = matches!(
                method,
                "GetNamespace" | "CreateNamespace" | "UpdateNamespace"
            );
            let of_all = method == "ListNamespaces";
            for (token, in_scope) in [
                ("everywhere", true),
                ("this-namespace", !of_all),
                ("here", !of_all && !of_namespace),
                ("other-environment", false),
                ("other-namespace", false),
            ] {
                let (code, reason) = call(&server, token, method, &reservation).await;
                let permitted = code != Code::PermissionDenied;
                let want = by_token || in_scope && allowed(role, method);
                assert_eq!(
                    permitted, want,
                    "{role:?} {method} {token}: {code:?} {reason}"
                );
                assert!(permitted || reason == "NOT_PERMITTED", "{method}: {reason}");
                assert_ne!(reason, "TOKEN_INVALID", "{method}");
                assert_ne!(code, Code::Unauthenticated, "{method}");
            }
        }
    }
}

#[tokio::test]
async fn without_a_known_token_nothing_is_answered_but_health_and_reflection() {
    let server = guarded(vec![("a-token", caller(Role::Admin, None, None))]).await;
    for method in METHODS {
        for token in ["", "a-toke", "a-token2", "A-TOKEN"] {
            let got = call(&server, token, method, "not genuine").await;
            assert_eq!(
                got,
                (Code::Unauthenticated, "UNAUTHENTICATED".to_owned()),
                "{method}"
            );
        }
    }
    let told = refusal(server.gate().reserve(reserve("k")).await);
    assert_eq!((told.code, told.metadata.len()), (Code::Unauthenticated, 0));
    let mut basic = Request::new(reserve("k"));
    let header = "Basic a-token".parse().expect("a header");
    basic.metadata_mut().insert("authorization", header);
    assert_eq!(
        refusal(server.gate().reserve(basic).await).code,
        Code::Unauthenticated
    );

    let mut health = tonic_health::pb::health_client::HealthClient::new(server.channel());
    let check = tonic_health::pb::HealthCheckRequest::default();
    health.check(check).await.expect("health is free");
}

#[tokio::test]
async fn errors_come_in_the_order_of_authentication_input_authorisation_namespace_state() {
    let server = guarded(vec![
        ("reader", caller(Role::Reader, Some("other"), None)),
        ("worker", caller(Role::Worker, None, None)),
    ])
    .await;
    let bad_input = || pb::ReserveRequest {
        operation: String::new(),
        ..reserve("k")
    };
    let mut gate = server.gate();
    for (token, request, want) in [
        ("nobody", bad_input(), "UNAUTHENTICATED"),
        ("reader", bad_input(), "INVALID_FIELD"),
        ("reader", reserve("k"), "NOT_PERMITTED"),
    ] {
        assert_eq!(
            refusal(gate.reserve(bearing(token, request)).await).reason,
            want
        );
    }
    // A token that is not genuine is bad input, whoever sends it.
    for (token, want) in [
        ("nobody", "UNAUTHENTICATED"),
        ("reader", "TOKEN_INVALID"),
        ("worker", "TOKEN_INVALID"),
    ] {
        let (_, reason) = call(&server, token, "Renew", "not genuine").await;
        assert_eq!(reason, want);
    }
    let told = refusal(gate.reserve(bearing("reader", reserve("k"))).await);
    assert_eq!(told.metadata["method"], "Reserve");
    assert_eq!(told.metadata["namespace"], "terminal");
    assert_eq!(told.metadata["environment"], "live");
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_told_apart_from_a_missing_record() {
    let mut options = options();
    options.gate.namespaces_auto_create = false;
    let server = TestServer::with(Arc::new(MemoryStore::new(Clock::Database)), options).await;
    let told = refusal(server.gate().reserve(reserve("k")).await);
    assert_eq!(
        (told.code, told.reason.as_str()),
        (Code::NotFound, "NAMESPACE_NOT_FOUND")
    );
    assert_eq!(told.metadata["namespace"], "terminal");
    assert_eq!(told.metadata["environment"], "live");
}

/// Field case E4: a record belongs to its identity, not to the credential that made it.
#[tokio::test]
async fn another_credential_of_the_same_scope_meets_the_same_record() {
    let worker = || caller(Role::Worker, Some("terminal"), Some("live"));
    let server = guarded(vec![("before", worker()), ("rotated", worker())]).await;
    let mut gate = server.gate();
    let first = gate.reserve(bearing("before", reserve("k"))).await;
    let Some(Verdict::Granted(granted)) = first.expect("an answer").into_inner().verdict else {
        panic!("must be GRANTED")
    };
    let second = gate.reserve(bearing("rotated", reserve("k"))).await;
    let second = second.expect("an answer").into_inner().verdict;
    assert!(matches!(second, Some(Verdict::InProgress(_))), "{second:?}");
    let done = gate
        .complete(bearing("rotated", complete("k", &granted.token, b"B-14")))
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(done.verdict(), pb::complete_response::Verdict::Recorded);
    let again = gate.reserve(bearing("before", reserve("k"))).await;
    let again = again.expect("an answer").into_inner().verdict;
    assert!(matches!(again, Some(Verdict::Replay(_))), "{again:?}");
}

/// Rule 10: a credential that was withdrawn while the effect ran keeps nobody from reporting it.
#[tokio::test]
async fn a_genuine_token_completes_with_a_credential_that_is_not_known_any_more() {
    let server = guarded(vec![(SETTER_UP, caller(Role::Admin, None, None))]).await;
    let reservation = reservation(&server).await;
    let other_methods = METHODS
        .iter()
        .filter(|method| !method.ends_with("Complete"));
    for method in other_methods {
        let (code, _) = call(&server, "withdrawn", method, &reservation).await;
        assert_eq!(code, Code::Unauthenticated, "{method}");
    }
    let bare = server
        .gate()
        .complete(complete("k", &reservation, b"B-14"))
        .await;
    assert_eq!(refusal(bare).code, Code::Unauthenticated);
    for (item, want) in [
        (reservation.as_str(), Code::Ok),
        ("x", Code::Unauthenticated),
    ] {
        let (code, _) = call(&server, "withdrawn", "BatchComplete", item).await;
        assert_eq!(code, want, "{item}");
    }
    let again = bearing("withdrawn", complete("k", &reservation, b""));
    let again = server.gate().complete(again).await.expect("an answer");
    let verdict = again.into_inner().verdict();
    assert_eq!(verdict, pb::complete_response::Verdict::AlreadyRecorded);
    let unreadable = pb::CompleteRequest {
        outcome: None,
        ..complete("k", &reservation, b"")
    };
    let unreadable = server
        .gate()
        .complete(bearing("withdrawn", unreadable))
        .await;
    assert_eq!(refusal(unreadable).code, Code::Unauthenticated);
}

/// Whatever a stranger calls does not become a name among the metrics.
#[tokio::test]
async fn a_method_that_is_made_up_is_counted_without_its_name() {
    let server = guarded(vec![(SETTER_UP, caller(Role::Admin, None, None))]).await;
    for path in ["/junk.Service/m1", "/oncegate.v1.GateService/m2"] {
        let mut client = tonic::client::Grpc::new(server.channel());
        client.ready().await.expect("it is there");
        let codec = tonic_prost::ProstCodec::<pb::LookupRequest, pb::LookupResponse>::default();
        let path = path.parse().expect("a path");
        let request = Request::new(pb::LookupRequest::default());
        assert!(client.unary(request, path, codec).await.is_err());
    }
    let _told = server.gate().reserve(reserve("k")).await;
    let (_, metrics) = server.get("/metrics").await;
    assert!(metrics.contains("method=\"other\""), "{metrics}");
    assert!(metrics.contains("method=\"oncegate.v1.GateService/Reserve\""));
    assert!(
        !metrics.contains("junk") && !metrics.contains("m2\""),
        "{metrics}"
    );
}
