//! `GateService`: what programs ask.

use std::time::Duration;

use tonic::{Request, Response, Status};

use super::answer_room::{AnswerRoom, complete_result, reserve_result};
use super::convert::key::key;
use super::convert::policy::policy_message;
use super::convert::record::{expire_response, record_message};
use super::convert::reserve::{reserve_call, reserve_response};
use super::convert::{holder, support};
use super::handle::{Handler, call, told};
use super::status::{Asked, status};
use crate::domain::error::InvalidField;
use crate::domain::key::check_name;
use crate::domain::limits;
use crate::proto::v1 as pb;
use crate::service::batch::each_on_its_own;
use crate::service::error::ServiceError;
use crate::service::wait::WaitingRoom;
use pb::gate_service_server::GateService;

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl GateService for Handler {
    /// In the call's own future and not in an owner task: a caller that hangs up stops waiting. The
    /// store finishes what it was asked all the same.
    async fn reserve(&self, request: Request<pb::ReserveRequest>) -> Answer<pb::ReserveResponse> {
        let asked = Asked::record("Reserve", request.get_ref().key.as_ref());
        let (_, mut extensions, request) = request.into_parts();
        let answer = async {
            let call = call(&mut extensions)?;
            let reserve = reserve_call(request)?;
            let room = extensions.get::<WaitingRoom>();
            self.gate.reserve(&call, reserve, room).await
        };
        match answer.await {
            Ok(answer) => Ok(Response::new(reserve_response(answer))),
            Err(error) => Err(status(&error, &asked)),
        }
    }

    async fn complete(
        &self,
        request: Request<pb::CompleteRequest>,
    ) -> Answer<pb::CompleteResponse> {
        let asked = Asked::record("Complete", request.get_ref().key.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let complete = holder::complete_call(request)?;
            let completed = gate
                .complete(&call, complete.held, complete.outcome, complete.retention)
                .await?;
            Ok(holder::complete_response(completed))
        })
        .await
    }

    async fn lookup(&self, request: Request<pb::LookupRequest>) -> Answer<pb::LookupResponse> {
        let asked = Asked::record("Lookup", request.get_ref().key.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let found = gate.lookup(&call, key(request.key)?).await?;
            let record = record_message(found, request.without_payload);
            Ok(pb::LookupResponse {
                record: Some(record),
            })
        })
        .await
    }

    async fn expire(&self, request: Request<pb::ExpireRequest>) -> Answer<pb::ExpireResponse> {
        let asked = Asked::record("Expire", request.get_ref().key.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let expire = support::expire_call(request)?;
            let found = gate
                .expire(
                    &call,
                    expire.key,
                    expire.etag,
                    expire.reason,
                    expire.allow_rerun,
                )
                .await?;
            Ok(expire_response(found))
        })
        .await
    }

    async fn renew(&self, request: Request<pb::RenewRequest>) -> Answer<pb::RenewResponse> {
        let asked = Asked::record("Renew", request.get_ref().key.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let (held, lease) = holder::renew_call(request)?;
            let renewed = gate.renew(&call, held, lease).await?;
            Ok(holder::renew_response(&renewed))
        })
        .await
    }

    async fn release(&self, request: Request<pb::ReleaseRequest>) -> Answer<pb::ReleaseResponse> {
        let asked = Asked::record("Release", request.get_ref().key.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let (held, reason) = holder::release_call(request)?;
            let released = gate.release(&call, held, reason).await?;
            Ok(holder::release_response(&released))
        })
        .await
    }

    async fn reexecute(
        &self,
        request: Request<pb::ReexecuteRequest>,
    ) -> Answer<pb::ReexecuteResponse> {
        let asked = Asked::record("Reexecute", request.get_ref().key.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let again = holder::reexecute_call(request)?;
            let answer = gate
                .reexecute(
                    &call,
                    again.held,
                    again.lease,
                    again.request_id,
                    again.settled_seen,
                )
                .await?;
            Ok(holder::reexecute_response(answer))
        })
        .await
    }

    async fn park(&self, request: Request<pb::ParkRequest>) -> Answer<pb::ParkResponse> {
        let asked = Asked::record("Park", request.get_ref().key.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let (held, note) = holder::park_call(request)?;
            Ok(holder::park_response(&gate.park(&call, held, note).await?))
        })
        .await
    }

    async fn batch_reserve(
        &self,
        request: Request<pb::BatchReserveRequest>,
    ) -> Answer<pb::BatchReserveResponse> {
        let asked = Asked::record("BatchReserve", None);
        self.owned(request, asked, async |gate, call, request| {
            let room = AnswerRoom::new(batch_size(request.requests.len())?);
            let parse = |item| {
                let mut reserve = reserve_call(item)?;
                reserve.wait = Duration::ZERO;
                Ok(reserve)
            };
            let items = request.requests.into_iter().map(parse).collect();
            let (gate, call, room) = (&gate, &call, &room);
            let results = each_on_its_own(
                items,
                |reserve| &reserve.key,
                async |reserve| {
                    // None of them waits.
                    let answer = gate.reserve(call, reserve, None).await?;
                    room.reserved(reserve_response(answer))
                },
            )
            .await;
            Ok(pb::BatchReserveResponse {
                results: results.into_iter().map(reserve_result).collect(),
            })
        })
        .await
    }

    async fn batch_complete(
        &self,
        request: Request<pb::BatchCompleteRequest>,
    ) -> Answer<pb::BatchCompleteResponse> {
        let asked = Asked::record("BatchComplete", None);
        self.owned(request, asked, async |gate, call, request| {
            let room = AnswerRoom::new(batch_size(request.requests.len())?);
            let parse = |item| Ok(holder::complete_call(item)?);
            let items = request.requests.into_iter().map(parse).collect();
            let (gate, call, room) = (&gate, &call, &room);
            let results = each_on_its_own(
                items,
                |complete: &holder::CompleteCall| &complete.held.key,
                async |complete| {
                    let completed = gate
                        .complete(call, complete.held, complete.outcome, complete.retention)
                        .await?;
                    Ok(room.completed(holder::complete_response(completed)))
                },
            )
            .await;
            Ok(pb::BatchCompleteResponse {
                results: results
                    .into_iter()
                    .map(|result| {
                        complete_result(result.map_err(|error| told(error, &call.caller)))
                    })
                    .collect(),
            })
        })
        .await
    }

    async fn get_policy(
        &self,
        request: Request<pb::GetPolicyRequest>,
    ) -> Answer<pb::GetPolicyResponse> {
        let asked = Asked {
            method: "GetPolicy",
            namespace: request.get_ref().namespace.clone(),
            environment: request.get_ref().environment.clone(),
        };
        self.owned(request, asked, async |gate, call, request| {
            check_name("namespace", &request.namespace)?;
            check_name("environment", &request.environment)?;
            let found = gate
                .policy(&call, &request.namespace, &request.environment)
                .await?;
            Ok(pb::GetPolicyResponse {
                policy: Some(policy_message(&found.policy, found.version)),
            })
        })
        .await
    }
}

fn batch_size(items: usize) -> Result<usize, ServiceError> {
    let max = limits::BATCH_ITEMS_MAX;
    if items == 0 || items > max {
        let problem = format!("must be 1..={max} items, is {items}");
        return Err(InvalidField::new("requests", problem).into());
    }
    Ok(items)
}
