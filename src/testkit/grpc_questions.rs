//! Commands as the requests that ask for them.

use crate::domain::command::{
    Complete, Expire, Park, Reexecute, Release, Renew, Reserve, Resolution, Resolve,
};
use crate::domain::limits;
use crate::domain::outcome::Outcome;
use crate::proto::v1 as pb;
use crate::transport::grpc::convert::key::key_message;
use crate::transport::grpc::convert::outcome::{leave_payload_out, outcome_message};
use crate::transport::grpc::convert::policy::effect_class_number;
use crate::transport::grpc::convert::time::span;

pub(super) fn reserve(c: &Reserve) -> pb::ReserveRequest {
    let fingerprint = c.fingerprint.as_ref().map(|own| pb::Fingerprint {
        scheme: own.scheme().to_owned(),
        digest: own.digest().to_vec(),
    });
    pb::ReserveRequest {
        key: Some(key_message(&c.key)),
        operation: c.operation.clone(),
        fingerprint,
        request_id: c.request_id.as_bytes().to_vec(),
        lease: Some(span(c.lease)),
        wait: None,
        holder: c.holder.clone(),
        attributes: c.attributes.clone(),
        can_recover: c.can_recover,
        effect_class: effect_class_number(c.terms.effect_class),
    }
}

pub(super) fn complete(c: &Complete, token: String) -> pb::CompleteRequest {
    pb::CompleteRequest {
        key: Some(key_message(&c.key)),
        token,
        outcome: Some(report(&c.outcome)),
        retention: c.retention.map(span),
    }
}

/// As a client library sends it: without a payload that no namespace would keep.
fn report(outcome: &Outcome) -> pb::Outcome {
    let mut message = outcome_message(outcome.clone());
    if u64::try_from(message.payload.len()).is_ok_and(|size| size > limits::PAYLOAD_BYTES_CAP) {
        leave_payload_out(&mut message, "payload over what any namespace keeps");
    }
    message
}

pub(super) fn renew(c: &Renew, token: String) -> pb::RenewRequest {
    pb::RenewRequest {
        key: Some(key_message(&c.key)),
        token,
        lease: Some(span(c.lease)),
    }
}

pub(super) fn release(c: &Release, token: String) -> pb::ReleaseRequest {
    pb::ReleaseRequest {
        key: Some(key_message(&c.key)),
        token,
        reason: c.reason.clone(),
    }
}

pub(super) fn park(c: &Park, token: String) -> pb::ParkRequest {
    pb::ParkRequest {
        key: Some(key_message(&c.key)),
        token,
        note: c.note.clone(),
    }
}

pub(super) fn reexecute(c: &Reexecute, token: String) -> pb::ReexecuteRequest {
    pb::ReexecuteRequest {
        key: Some(key_message(&c.key)),
        token,
        lease: Some(span(c.lease)),
        request_id: c.request_id.as_bytes().to_vec(),
        settled_seen: c.settled_seen,
    }
}

pub(super) fn expire(c: &Expire) -> pb::ExpireRequest {
    pb::ExpireRequest {
        key: Some(key_message(&c.key)),
        reason: c.reason.clone(),
        allow_rerun: c.allow_rerun,
        etag: c.etag.to_string(),
    }
}

pub(super) fn resolve(c: &Resolve) -> pb::ResolveRequest {
    use pb::resolve_request::Resolution as Message;
    let resolution = match &c.resolution {
        Resolution::Happened(outcome) => Message::Happened(report(outcome)),
        Resolution::NothingHappened => Message::NothingHappened(pb::NothingHappened {}),
    };
    pb::ResolveRequest {
        key: Some(key_message(&c.key)),
        etag: c.etag.to_string(),
        reason: c.reason.clone(),
        resolution: Some(resolution),
    }
}
