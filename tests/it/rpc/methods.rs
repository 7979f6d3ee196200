//! Every method of every service, called with one key and told by its code and reason.

use oncegate::proto::v1 as pb;
use oncegate::testkit::server::TestServer;
use tonic::Request;

use super::*;

pub(super) const METHODS: [&str; 17] = [
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

pub(super) fn bearing<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let header = format!("Bearer {token}").parse().expect("a header");
    request.metadata_mut().insert("authorization", header);
    request
}

#[expect(clippy::too_many_lines, reason = "one arm for each method")]
/// Makes one call with a key in terminal/live and gives its code and reason; a batch's is its item's.
pub(super) async fn call(
    server: &TestServer,
    token: &str,
    method: &str,
    reservation: &str,
) -> (Code, String) {
    let (mut gate, mut support, mut admin) = (server.gate(), server.support(), server.admin());
    let key = Some(key("k"));
    let token_text = reservation.to_owned();
    let (namespace, environment) = ("terminal".to_owned(), "live".to_owned());
    macro_rules! ask {
        ($client:ident.$method:ident, $message:expr) => {
            status($client.$method(bearing(token, $message)).await)
        };
    }
    match method {
        "Reserve" => ask!(gate.reserve, reserve("k")),
        "Complete" => ask!(gate.complete, complete("k", reservation, b"")),
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
                requests: vec![complete("k", reservation, b"")],
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
