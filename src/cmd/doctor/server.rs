//! The server, as a client finds it.

use std::error::Error;

use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::Check;
use crate::cmd::args::{ServerArgs, TenancyArgs};
use crate::cmd::client::Client;
use crate::cmd::exit::Exit;
use crate::cmd::failure::Failure;
use crate::proto::v1;

const SERVICE: &str = "oncegate.v1.GateService";

pub(super) async fn look(
    server: &ServerArgs,
    tenancy: &TenancyArgs,
) -> Result<Vec<Check>, Failure> {
    let client = match Client::connect(server).await {
        Ok(client) => client,
        Err(failure) if failure.exit == Exit::Unavailable => {
            let mut lines = failure.lines.into_iter();
            let found = lines.next().unwrap_or_default();
            let advice = lines.next().unwrap_or_default();
            return Ok(vec![Check::problem("server", found, advice)]);
        }
        Err(failure) => return Err(failure),
    };
    let reached = Check::ok("server", format!("answers at {}", server.endpoint));
    Ok(vec![
        reached,
        ready(&client, &server.endpoint).await,
        token(&client, tenancy).await,
    ])
}

async fn ready(client: &Client, endpoint: &str) -> Check {
    let request = Request::new(HealthCheckRequest {
        service: SERVICE.to_owned(),
    });
    let advice = "look into its log: most often its store is away or needs `oncegate migrate`";
    match HealthClient::new(client.channel()).check(request).await {
        Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => {
            Check::ok("ready", "it serves")
        }
        Ok(answer) => {
            let status = answer.get_ref().status().as_str_name();
            Check::problem("ready", status, advice)
        }
        // It has not answered: the connection broke off.
        Err(status) if status.source().is_some() && !endpoint.starts_with("https://") => {
            let advice = "if the server speaks TLS, write https://";
            Check::problem("ready", status.message(), advice)
        }
        Err(status) => Check::problem("ready", status.message(), advice),
    }
}

async fn token(client: &Client, tenancy: &TenancyArgs) -> Check {
    let request = v1::GetPolicyRequest {
        namespace: tenancy.namespace.clone(),
        environment: tenancy.environment.clone(),
    };
    let place = format!("{}/{}", tenancy.namespace, tenancy.environment);
    let request = client.request(request);
    let Err(status) = client.gate().get_policy(request).await else {
        return Check::ok("token", format!("accepted for {place}"));
    };
    let found = format!("{place}: {}", status.message());
    match status.code() {
        Code::Unauthenticated => {
            let advice = "set ONCEGATE_TOKEN, or name a file with --token-file";
            Check::problem("token", found, advice)
        }
        Code::PermissionDenied => {
            let advice = "use the token of this namespace and environment, or name others";
            Check::problem("token", found, advice)
        }
        // A server on its own store creates it when it is first named: that is no fault.
        Code::NotFound => {
            let create = format!("oncegate namespace create {}", tenancy.namespace);
            Check::ok(
                "token",
                format!("accepted; {place} is not there yet: `{create}`"),
            )
        }
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Check::problem("token", found, "look into the server's log"),
    }
}
