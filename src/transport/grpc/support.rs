//! `SupportService`: what people ask about records.

use tonic::{Request, Response, Status};

use super::convert::key::key;
use super::convert::page;
use super::convert::record::record_message;
use super::convert::support::{audit_after, audit_message, resolve_call};
use super::handle::Handler;
use super::status::Asked;
use crate::proto::v1 as pb;
use pb::support_service_server::SupportService;

#[tonic::async_trait]
impl SupportService for Handler {
    async fn resolve(
        &self,
        request: Request<pb::ResolveRequest>,
    ) -> Result<Response<pb::ResolveResponse>, Status> {
        let asked = Asked::record("Resolve", request.get_ref().key.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let resolve = resolve_call(request)?;
            let found = gate
                .resolve(
                    &call,
                    resolve.key,
                    resolve.etag,
                    resolve.reason,
                    resolve.resolution,
                )
                .await?;
            Ok(pb::ResolveResponse {
                record: Some(record_message(found, false)),
            })
        })
        .await
    }

    async fn list_audit(
        &self,
        request: Request<pb::ListAuditRequest>,
    ) -> Result<Response<pb::ListAuditResponse>, Status> {
        let asked = Asked::record("ListAudit", request.get_ref().key.as_ref());
        self.owned(request, asked, async |gate, call, request| {
            let key = key(request.key)?;
            let size = page(request.page_size)?;
            let after = audit_after(&request.page_token)?;
            let mut entries = gate.audit(&call, key, after, size + 1).await?;
            let more = entries.len() > usize::try_from(size).unwrap_or(usize::MAX);
            if more {
                entries.pop();
            }
            let last = entries.last().filter(|_| more);
            Ok(pb::ListAuditResponse {
                next_page_token: last.map_or_else(String::new, |entry| entry.id.to_string()),
                entries: entries.into_iter().map(audit_message).collect(),
            })
        })
        .await
    }
}
