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

use super::*;

const METHODS: [&str; 17] = [
    "Reserve",
    "Complete",
    "Renew",
    "Release",
    "Reexecute",
    "Park",
    "BatchReserve",
    "BatchComplete",
    "Lookup",
    "GetPolicy",
    "Expire",
    "Resolve",
    "ListAudit",
    "GetNamespace",
    "CreateNamespace",
    "UpdateNamespace",
    "ListNamespaces",
];

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
        caller,
    });
    let mut options = options();
    options.routes.credentials = Credentials::new(credentials.collect());
    TestServer::with(Arc::new(MemoryStore::new(Clock::Database)), options).await
}

fn bearing<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let header = format!("Bearer {token}").parse().expect("a header");
    request.metadata_mut().insert("authorization", header);
    request
}

#[expect(clippy::too_many_lines, reason = "one arm for each method")]
/// Makes one call with a key in terminal/live and gives its code and reason; a batch's is its item's.
async fn call(server: &TestServer, token: &str, method: &str) -> (Code, String) {
    let (mut gate, mut support, mut admin) = (server.gate(), server.support(), server.admin());
    let key = Some(key("k"));
    let token_text = "not a token".to_owned();
    let (namespace, environment) = ("terminal".to_owned(), "live".to_owned());
    macro_rules! ask {
        ($client:ident.$method:ident, $message:expr) => {
            status($client.$method(bearing(token, $message)).await)
        };
    }
    match method {
        "Reserve" => ask!(gate.reserve, reserve("k")),
        "Complete" => ask!(gate.complete, complete("k", "x", b"")),
        "Renew" => ask!(
            gate.renew,
            pb::RenewRequest {
                key,
                token: token_text,
                lease: None
            }
        ),
        "Release" => ask!(
            gate.release,
            pb::ReleaseRequest {
                key,
                token: token_text,
                reason: String::new()
            }
        ),
        "Reexecute" => ask!(
            gate.reexecute,
            pb::ReexecuteRequest {
                key,
                token: token_text,
                ..Default::default()
            }
        ),
        "Park" => ask!(
            gate.park,
            pb::ParkRequest {
                key,
                token: token_text,
                note: String::new()
            }
        ),
        "BatchReserve" => {
            let request = pb::BatchReserveRequest {
                requests: vec![reserve("k")],
            };
            match gate.batch_reserve(bearing(token, request)).await {
                Ok(answer) => match &answer.get_ref().results[0].result {
                    Some(pb::batch_reserve_result::Result::Error(error)) => item(error),
                    _ => (Code::Ok, String::new()),
                },
                Err(error) => status::<()>(Err(error)),
            }
        }
        "BatchComplete" => {
            let request = pb::BatchCompleteRequest {
                requests: vec![complete("k", "x", b"")],
            };
            match gate.batch_complete(bearing(token, request)).await {
                Ok(answer) => match &answer.get_ref().results[0].result {
                    Some(pb::batch_complete_result::Result::Error(error)) => item(error),
                    _ => (Code::Ok, String::new()),
                },
                Err(error) => status::<()>(Err(error)),
            }
        }
        "Lookup" => ask!(
            gate.lookup,
            pb::LookupRequest {
                key,
                without_payload: false
            }
        ),
        "GetPolicy" => ask!(
            gate.get_policy,
            pb::GetPolicyRequest {
                namespace,
                environment
            }
        ),
        "Expire" => ask!(
            gate.expire,
            pb::ExpireRequest {
                key,
                reason: "r".to_owned(),
                allow_rerun: false,
                etag: "1.1.1".to_owned()
            }
        ),
        "Resolve" => ask!(
            support.resolve,
            pb::ResolveRequest {
                key,
                etag: "1.1.1".to_owned(),
                reason: "r".to_owned(),
                resolution: Some(pb::resolve_request::Resolution::NothingHappened(
                    pb::NothingHappened {}
                ))
            }
        ),
        "ListAudit" => ask!(
            support.list_audit,
            pb::ListAuditRequest {
                key,
                ..Default::default()
            }
        ),
        "GetNamespace" => ask!(
            admin.get_namespace,
            pb::GetNamespaceRequest { name: namespace }
        ),
        "CreateNamespace" => ask!(
            admin.create_namespace,
            pb::CreateNamespaceRequest {
                namespace: Some(pb::Namespace {
                    name: namespace,
                    ..Default::default()
                })
            }
        ),
        "UpdateNamespace" => ask!(
            admin.update_namespace,
            pb::UpdateNamespaceRequest {
                namespace: Some(pb::Namespace {
                    name: namespace,
                    etag: "1".to_owned(),
                    environments: vec![pb::Environment {
                        name: environment,
                        ..Default::default()
                    }],
                    ..Default::default()
                })
            }
        ),
        "ListNamespaces" => ask!(admin.list_namespaces, pb::ListNamespacesRequest::default()),
        other => panic!("{other} is no method"),
    }
}

fn item(error: &pb::ItemError) -> (Code, String) {
    (Code::from_i32(error.code), error.reason.clone())
}

fn status<T>(response: Result<T, Status>) -> (Code, String) {
    match response {
        Ok(_) => (Code::Ok, String::new()),
        Err(status) => {
            let details = status.get_error_details();
            let reason = details.error_info().map(|info| info.reason.clone());
            (status.code(), reason.unwrap_or_default())
        }
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
    }
}

#[tokio::test]
async fn each_role_may_call_its_own_methods_in_its_own_scope_alone() {
    for (_, role) in Role::ALL {
        let server = guarded(vec![
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
        for method in METHODS {
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
                let (code, reason) = call(&server, token, method).await;
                let permitted = code != Code::PermissionDenied;
                let want = in_scope && allowed(role, method);
                assert_eq!(
                    permitted, want,
                    "{role:?} {method} {token}: {code:?} {reason}"
                );
                assert!(permitted || reason == "NOT_PERMITTED", "{method}: {reason}");
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
            let got = call(&server, token, method).await;
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
