//! What people do to records: Expire, Resolve, and the audit trail.

use super::field::note;
use super::key::key;
use super::outcome::reported;
use super::record::state_number;
use super::time::timestamp;
use crate::domain::command::Resolution;
use crate::domain::decision::AuditAction;
use crate::domain::error::InvalidField;
use crate::domain::key::RecordKey;
use crate::domain::record::Etag;
use crate::port::store::AuditEntry;
use crate::proto::v1 as pb;

/// An Expire as it was asked.
#[derive(Debug)]
pub struct ExpireCall {
    /// The identity.
    pub key: RecordKey,
    /// The record as it was seen.
    pub etag: Etag,
    /// Why.
    pub reason: String,
    /// The key may be used again.
    pub allow_rerun: bool,
}

/// An Expire as it was asked.
///
/// # Errors
///
/// Names the field that is missing, malformed or over its limit.
pub fn expire_call(request: pb::ExpireRequest) -> Result<ExpireCall, InvalidField> {
    Ok(ExpireCall {
        key: key(request.key)?,
        reason: note("reason", request.reason, 1)?,
        etag: Etag::parse("etag", &request.etag)?,
        allow_rerun: request.allow_rerun,
    })
}

/// A Resolve as it was asked.
#[derive(Debug)]
pub struct ResolveCall {
    /// The identity.
    pub key: RecordKey,
    /// The record as it was seen.
    pub etag: Etag,
    /// Why.
    pub reason: String,
    /// What was found out.
    pub resolution: Resolution,
}

/// A Resolve as it was asked.
///
/// # Errors
///
/// Names the field that is missing, malformed or over its limit.
pub fn resolve_call(request: pb::ResolveRequest) -> Result<ResolveCall, InvalidField> {
    use pb::resolve_request::Resolution as Given;
    let key = key(request.key)?;
    let etag = Etag::parse("etag", &request.etag)?;
    let reason = note("reason", request.reason, 1)?;
    let resolution = match request.resolution {
        None => return Err(InvalidField::new("resolution", "is required")),
        Some(Given::Happened(outcome)) => {
            Resolution::Happened(reported("happened", Some(outcome))?)
        }
        Some(Given::NothingHappened(pb::NothingHappened {})) => Resolution::NothingHappened,
    };
    Ok(ResolveCall {
        key,
        etag,
        reason,
        resolution,
    })
}

/// The id that a page of the audit trail begins after.
///
/// # Errors
///
/// It is not a page token of this service.
pub fn audit_after(page_token: &str) -> Result<i64, InvalidField> {
    if page_token.is_empty() {
        return Ok(0);
    }
    page_token
        .parse()
        .ok()
        .filter(|id| *id > 0)
        .ok_or_else(|| InvalidField::new("page_token", "must be a next_page_token"))
}

/// A line of the audit trail as a message.
pub fn audit_message(entry: AuditEntry) -> pb::AuditEntry {
    let AuditEntry { id, audit } = entry;
    let action = match audit.action {
        AuditAction::Expire => pb::AuditAction::Expire,
        AuditAction::Resolve => pb::AuditAction::Resolve,
        AuditAction::Reexecute => pb::AuditAction::Reexecute,
    };
    pb::AuditEntry {
        id,
        at: Some(timestamp(audit.at)),
        actor: audit.actor,
        action: action.into(),
        reason: audit.reason,
        fence: audit.fence.get(),
        state_before: state_number(Some(audit.before)),
        state_after: state_number(Some(audit.after)),
    }
}
