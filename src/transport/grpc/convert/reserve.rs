//! Reserve: the request, and each of its verdicts.

use super::field::{attributes, known, request_id};
use super::key::{fingerprint, key};
use super::outcome::{outcome_message, status_number};
use super::policy::{effect_class, effect_class_number};
use super::record::{attempt_message, state_number};
use super::time::{duration, span, timestamp};
use crate::domain::command::{
    Grant, InProgress, Mismatch, MismatchField, Recover, Replay, ReserveVerdict,
};
use crate::domain::error::InvalidField;
use crate::domain::key::check_text;
use crate::domain::limits;
use crate::proto::v1 as pb;
use crate::service::reserve::{ReserveAnswer, ReserveCall};
use pb::reserve_response::Verdict;

/// A Reserve as it was asked.
///
/// # Errors
///
/// Names the first field that is missing, malformed or over its limit.
pub fn reserve_call(request: pb::ReserveRequest) -> Result<ReserveCall, InvalidField> {
    let key = key(request.key)?;
    check_text(
        "operation",
        &request.operation,
        1,
        limits::OPERATION_BYTES_MAX,
    )?;
    let fingerprint = fingerprint(request.fingerprint.as_ref())?;
    let request_id = request_id(&request.request_id)?;
    let lease = duration("lease", request.lease)?;
    let wait = duration("wait", request.wait)?.unwrap_or_default();
    check_text("holder", &request.holder, 0, limits::HOLDER_BYTES_MAX)?;
    Ok(ReserveCall {
        key,
        operation: request.operation,
        fingerprint,
        request_id,
        lease,
        wait,
        holder: request.holder,
        attributes: attributes(request.attributes)?,
        can_recover: request.can_recover,
        effect_class: effect_class(known("effect_class", request.effect_class)?),
    })
}

/// A Reserve's answer as a message.
pub fn reserve_response(answer: ReserveAnswer) -> pb::ReserveResponse {
    let ReserveAnswer { reserved, token } = answer;
    let verdict = match reserved.verdict {
        ReserveVerdict::Granted(grant) => Verdict::Granted(reservation(grant, token)),
        ReserveVerdict::Replay(replay) => Verdict::Replay(replay_message(replay)),
        ReserveVerdict::InProgress(busy) => Verdict::InProgress(in_progress(busy)),
        ReserveVerdict::Recover(recover) => Verdict::Recover(recover_message(*recover, token)),
        ReserveVerdict::Mismatch(mismatch) => Verdict::Mismatch(mismatch_message(mismatch)),
        ReserveVerdict::Parked { since, note } => Verdict::Parked(pb::Parked {
            since: Some(timestamp(since)),
            note,
        }),
        ReserveVerdict::Expired {
            completed_at,
            expired_at,
            status,
            effect_id,
        } => Verdict::Expired(pb::Expired {
            completed_at: Some(timestamp(completed_at)),
            expired_at: Some(timestamp(expired_at)),
            status: status_number(status),
            effect_id,
        }),
    };
    pb::ReserveResponse {
        verdict: Some(verdict),
        fingerprint_not_compared: reserved.fingerprint_not_compared,
    }
}

pub(super) fn reservation(grant: Grant, token: String) -> pb::Reservation {
    pb::Reservation {
        token,
        fence: grant.fence.get(),
        attempt: grant.attempt,
        lease_remaining: Some(span(grant.lease_remaining)),
        downstream_key: grant.downstream_key,
        durability: super::record::DURABILITY.into(),
    }
}

fn replay_message(replay: Replay) -> pb::Replay {
    pb::Replay {
        outcome: Some(outcome_message(replay.outcome)),
        completed_at: Some(timestamp(replay.completed_at)),
        attempt: replay.attempt,
        fence: replay.fence.get(),
        durability: super::record::DURABILITY.into(),
    }
}

fn in_progress(busy: InProgress) -> pb::InProgress {
    pb::InProgress {
        retry_after: Some(span(busy.retry_after)),
        lease_remaining: Some(span(busy.lease_remaining)),
        holder: busy.holder,
        attempt: busy.attempt,
        needs_recovery: busy.needs_recovery,
        state: state_number(Some(busy.state)),
    }
}

fn recover_message(recover: Recover, token: String) -> pb::Recover {
    pb::Recover {
        reservation: Some(reservation(recover.grant, token)),
        effect_class: effect_class_number(recover.effect_class),
        settle_remaining: Some(span(recover.settle_remaining)),
        attributes: recover.attributes,
        attempts: recover.attempts.into_iter().map(attempt_message).collect(),
        settled: recover.settled,
        reexecute_approved: recover.reexecute_approved,
    }
}

fn mismatch_message(mismatch: Mismatch) -> pb::Mismatch {
    let field = match mismatch.field {
        MismatchField::Operation => pb::mismatch::Field::Operation,
        MismatchField::Fingerprint => pb::mismatch::Field::Fingerprint,
    };
    pb::Mismatch {
        field: field.into(),
        stored_operation: mismatch.stored_operation,
        first_reserved_at: Some(timestamp(mismatch.first_reserved_at)),
    }
}
