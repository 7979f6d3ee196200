//! From the message back to the record. Whatever cannot be right is an error, never guessed.

use std::time::Duration;

use super::messages as message;
use super::{FORMAT, Parts};
use crate::domain::fingerprint::Fingerprint;
use crate::domain::outcome::{Outcome, OutcomeDigest, OutcomeStatus, PayloadOmitted};
use crate::domain::policy::{EffectClass, OutcomeMode, Terms};
use crate::domain::record::{
    Attempt, AttemptEnd, Completion, Etag, Fence, Generation, Hold, KeptOutcome, Record,
    RecordState, Reexecuted, Reopening, RequestId, Resolved, Tombstone, Version,
};
use crate::domain::time::Timestamp;

/// Puts a record together again; with the digest that its payload must have, if it has one.
///
/// # Errors
///
/// What cannot be right.
pub(in crate::store) fn into_record(
    detail: message::Detail,
    parts: Parts,
) -> Result<(Record, Option<[u8; 32]>), String> {
    if detail.format != FORMAT {
        return Err(format!(
            "format {} is not known to this version",
            detail.format
        ));
    }
    let base = parts.first_reserved_at;
    let payload_sha256 = match &detail.state {
        Some(message::State::Completed(done)) => Some(bytes32("payload", &done.payload_sha256)?),
        Some(_) | None => None,
    };
    let fingerprint = detail.fingerprint.map(|stored| {
        Fingerprint::parse(&stored.scheme, &stored.digest).map_err(|error| error.to_string())
    });
    let state = state(base, detail.state.ok_or("no state")?, parts.payload)?;
    let record = Record {
        key: parts.key,
        generation: parts.generation,
        fence: parts.fence,
        version: parts.version,
        rerun: detail.rerun,
        operation: parts.operation,
        fingerprint: fingerprint.transpose()?,
        terms: terms(&detail.terms.ok_or("no terms")?)?,
        attributes: detail.attributes,
        tainted: detail.tainted,
        recoveries: detail.recoveries,
        attempt: detail.attempt,
        holder: detail.holder,
        trace_id: detail.trace_id,
        first_reserved_at: base,
        reserved_at: at(base, detail.reserved_at),
        exposed_at: at(base, detail.exposed_at),
        settle_until: detail
            .settle_until
            .map_or(Timestamp::EPOCH, |offset| at(base, offset)),
        reexecution_approved: detail.reexecution_approved,
        resolved: detail.resolved.as_ref().map(resolved).transpose()?,
        released_fence: detail.released_fence.map(Fence::new),
        released_requests: detail
            .released_requests
            .iter()
            .map(|id| request_id(id))
            .collect::<Result<_, _>>()?,
        kept: detail.kept.map(kept).transpose()?,
        effect_ids: detail.effect_ids,
        attempts: detail
            .attempts
            .into_iter()
            .map(|stored| attempt(base, stored))
            .collect::<Result<_, _>>()?,
        state,
    };
    Ok((record, payload_sha256))
}

fn state(base: Timestamp, state: message::State, payload: Vec<u8>) -> Result<RecordState, String> {
    Ok(match state {
        message::State::Running(held) => RecordState::Running(hold(base, &held)?),
        message::State::Recovering(recovering) => {
            let held = recovering.hold.map(|held| hold(base, &held)).transpose()?;
            RecordState::Recovering(held)
        }
        message::State::ReleasedAt(offset) => RecordState::Released {
            at: at(base, offset),
        },
        message::State::Completed(done) => {
            let mut outcome = outcome(done.outcome.ok_or("no outcome")?)?;
            outcome.payload = payload;
            RecordState::Completed(Completion {
                outcome,
                fence: Fence::new(done.fence),
                attempt: done.attempt,
                completed_at: at(base, done.completed_at),
                retained_until: at(base, done.retained_until),
            })
        }
        message::State::Parked(parked) => RecordState::Parked {
            since: at(base, parked.since),
            note: parked.note,
        },
        message::State::Expired(left) => RecordState::Expired(tombstone(base, left)?),
    })
}

fn terms(stored: &message::Terms) -> Result<Terms, String> {
    Ok(Terms {
        effect_class: match stored.effect_class {
            1 => EffectClass::Opaque,
            2 => EffectClass::Receipt,
            3 => EffectClass::Keyed,
            4 => EffectClass::Fenced,
            5 => EffectClass::Queryable,
            6 => EffectClass::Repeatable,
            other => return Err(format!("effect class {other} is not known")),
        },
        keyed_window: Duration::from_micros(stored.keyed_window),
        settle_max_pause: Duration::from_micros(stored.settle_max_pause),
        settle_max_delay: Duration::from_micros(stored.settle_max_delay),
        max_total_lease: Duration::from_micros(stored.max_total_lease),
        retention: Duration::from_micros(stored.retention),
        tombstone_retention: Duration::from_micros(stored.tombstone_retention),
        payload_bytes_max: stored.payload_bytes_max,
        outcome_mode: if stored.digest_only {
            OutcomeMode::DigestOnly
        } else {
            OutcomeMode::Full
        },
        max_recoveries: stored.max_recoveries,
    })
}

fn resolved(stored: &message::Resolved) -> Result<Resolved, String> {
    let happened = if stored.happened.is_empty() {
        None
    } else {
        Some(OutcomeDigest(bytes32("outcome", &stored.happened)?))
    };
    let etag = Etag {
        generation: Generation::new(stored.generation),
        fence: Fence::new(stored.fence),
        version: Version::new(stored.version),
    };
    Ok(Resolved { etag, happened })
}

fn hold(base: Timestamp, stored: &message::Hold) -> Result<Hold, String> {
    let granted = !stored.reexecute_request_id.is_empty();
    let reexecuted = granted.then(|| {
        let request_id = request_id(&stored.reexecute_request_id)?;
        Ok::<_, String>(Reexecuted {
            request_id,
            used: stored.reexecute_used,
        })
    });
    Ok(Hold {
        request_id: request_id(&stored.request_id)?,
        lease_expires_at: at(base, stored.lease_expires_at),
        started_at: at(base, stored.started_at),
        used: stored.used,
        reexecuted: reexecuted.transpose()?,
    })
}

fn kept(stored: message::Kept) -> Result<KeptOutcome, String> {
    Ok(KeptOutcome {
        outcome: outcome(stored.outcome.ok_or("no kept outcome")?)?,
        fence: Fence::new(stored.fence),
        retention: stored.retention.map(Duration::from_micros),
    })
}

fn outcome(stored: message::Outcome) -> Result<Outcome, String> {
    if !stored.metadata.len().is_multiple_of(2) {
        return Err("a metadata name without a value".to_owned());
    }
    let omitted = stored.omitted.map(|omitted| {
        Ok::<_, String>(PayloadOmitted {
            reason: omitted.reason,
            size_bytes: omitted.size_bytes,
            sha256: bytes32("omitted payload", &omitted.sha256)?,
        })
    });
    let mut texts = stored.metadata.into_iter();
    let mut metadata = Vec::new();
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        metadata.push((name, value));
    }
    Ok(Outcome {
        status: status(stored.failed),
        payload: stored.payload,
        content_type: stored.content_type,
        effect_id: stored.effect_id,
        metadata,
        omitted: omitted.transpose()?,
        digest: OutcomeDigest(bytes32("outcome", &stored.digest)?),
    })
}

fn tombstone(base: Timestamp, stored: message::Tombstone) -> Result<Tombstone, String> {
    Ok(Tombstone {
        status: status(stored.failed),
        effect_id: stored.effect_id,
        outcome_digest: OutcomeDigest(bytes32("outcome", &stored.outcome_digest)?),
        completed_at: at(base, stored.completed_at),
        retained_until: at(base, stored.retained_until),
        expired_at: at(base, stored.expired_at),
        reason: stored.reason,
        until: at(base, stored.until),
        reopening: match (stored.reopens, stored.reopens_at) {
            (false, _) => Reopening::Never,
            (true, None) => Reopening::Unset,
            (true, Some(offset)) => Reopening::At(at(base, offset)),
        },
    })
}

fn attempt(base: Timestamp, stored: message::Attempt) -> Result<Attempt, String> {
    let end = match stored.ended_as {
        0 => None,
        1 => Some(AttemptEnd::Completed),
        2 => Some(AttemptEnd::Released),
        3 => Some(AttemptEnd::LeaseRanOut),
        4 => Some(AttemptEnd::Superseded),
        5 => Some(AttemptEnd::Parked),
        other => return Err(format!("attempt end {other} is not known")),
    };
    let late_outcomes = stored
        .late_outcomes
        .into_iter()
        .map(outcome)
        .collect::<Result<_, _>>()?;
    let recorded = if stored.recorded.is_empty() {
        None
    } else {
        Some(OutcomeDigest(bytes32("outcome", &stored.recorded)?))
    };
    Ok(Attempt {
        attempt: stored.number,
        fence: Fence::new(stored.fence),
        rerun: stored.rerun,
        holder: stored.holder,
        trace_id: stored.trace_id,
        reserved_at: at(base, stored.reserved_at),
        ended: end.map(|end| (at(base, stored.ended_at), end)),
        note: stored.note,
        recorded,
        late_outcomes,
    })
}

fn status(failed: bool) -> OutcomeStatus {
    if failed {
        OutcomeStatus::Failed
    } else {
        OutcomeStatus::Succeeded
    }
}

fn request_id(bytes: &[u8]) -> Result<RequestId, String> {
    let bytes = <[u8; 16]>::try_from(bytes);
    bytes
        .map(RequestId::from_bytes)
        .map_err(|_wrong_length| "a request id of other length".into())
}

fn bytes32(what: &str, bytes: &[u8]) -> Result<[u8; 32], String> {
    let wrong = |_wrong_length| format!("the {what}'s digest is {} bytes long", bytes.len());
    <[u8; 32]>::try_from(bytes).map_err(wrong)
}

fn at(base: Timestamp, offset: i64) -> Timestamp {
    Timestamp::from_micros(base.as_micros().saturating_add(offset))
}
