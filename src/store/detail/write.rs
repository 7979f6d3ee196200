//! From a record to its message.

use sha2::{Digest, Sha256};

use super::FORMAT;
use super::messages as message;
use crate::domain::outcome::{Outcome, OutcomeStatus};
use crate::domain::policy::{EffectClass, OutcomeMode, Terms};
use crate::domain::record::{
    Attempt, AttemptEnd, Completion, Fence, Hold, Record, RecordState, Reopening, Resolved,
    Tombstone,
};
use crate::domain::time::{Timestamp, micros};

/// Makes the message of a record.
pub(in crate::store) fn of(record: &Record) -> message::Detail {
    let base = record.first_reserved_at;
    let settles = record.settle_until != Timestamp::EPOCH;
    message::Detail {
        format: FORMAT,
        rerun: record.rerun,
        fingerprint: record
            .fingerprint
            .as_ref()
            .map(|fingerprint| message::Fingerprint {
                scheme: fingerprint.scheme().to_owned(),
                digest: fingerprint.digest().to_vec(),
            }),
        terms: Some(terms(&record.terms)),
        attributes: record.attributes.clone(),
        tainted: record.tainted,
        recoveries: record.recoveries,
        attempt: record.attempt,
        holder: record.holder.clone(),
        trace_id: record.trace_id.clone(),
        reserved_at: offset(base, record.reserved_at),
        exposed_at: offset(base, record.exposed_at),
        settle_until: settles.then(|| offset(base, record.settle_until)),
        reexecution_approved: record.reexecution_approved,
        resolved: record.resolved.as_ref().map(resolved),
        released_fence: record.released_fence.map(Fence::get),
        released_requests: record
            .released_requests
            .iter()
            .map(|id| id.as_bytes().into())
            .collect(),
        kept: record.kept.as_ref().map(|kept| message::Kept {
            outcome: Some(outcome(&kept.outcome, true)),
            fence: kept.fence.get(),
            retention: kept.retention.map(span),
        }),
        effect_ids: record.effect_ids.clone(),
        attempts: record
            .attempts
            .iter()
            .map(|ended| attempt(base, ended))
            .collect(),
        state: Some(state(base, &record.state)),
    }
}

fn state(base: Timestamp, state: &RecordState) -> message::State {
    match state {
        RecordState::Running(held) => message::State::Running(hold(base, held)),
        RecordState::Recovering(held) => {
            let hold = held.as_ref().map(|held| hold(base, held));
            message::State::Recovering(message::Recovering { hold })
        }
        RecordState::Released { at } => message::State::ReleasedAt(offset(base, *at)),
        RecordState::Completed(done) => message::State::Completed(completion(base, done)),
        RecordState::Parked { since, note } => message::State::Parked(message::Parked {
            since: offset(base, *since),
            note: note.clone(),
        }),
        RecordState::Expired(left) => message::State::Expired(tombstone(base, left)),
    }
}

fn terms(terms: &Terms) -> message::Terms {
    message::Terms {
        effect_class: match terms.effect_class {
            EffectClass::Opaque => 1,
            EffectClass::Receipt => 2,
            EffectClass::Keyed => 3,
            EffectClass::Fenced => 4,
            EffectClass::Queryable => 5,
            EffectClass::Repeatable => 6,
        },
        keyed_window: span(terms.keyed_window),
        settle_max_pause: span(terms.settle_max_pause),
        settle_max_delay: span(terms.settle_max_delay),
        max_total_lease: span(terms.max_total_lease),
        retention: span(terms.retention),
        tombstone_retention: span(terms.tombstone_retention),
        payload_bytes_max: terms.payload_bytes_max,
        digest_only: terms.outcome_mode == OutcomeMode::DigestOnly,
        max_recoveries: terms.max_recoveries,
    }
}

fn resolved(resolved: &Resolved) -> message::Resolved {
    let happened = resolved.happened;
    message::Resolved {
        generation: resolved.etag.generation.get(),
        fence: resolved.etag.fence.get(),
        version: resolved.etag.version.get(),
        happened: happened.map_or_else(Vec::new, |digest| digest.0.to_vec()),
    }
}

fn hold(base: Timestamp, hold: &Hold) -> message::Hold {
    let reexecuted = hold.reexecuted.as_ref();
    message::Hold {
        request_id: hold.request_id.as_bytes().to_vec(),
        lease_expires_at: offset(base, hold.lease_expires_at),
        started_at: offset(base, hold.started_at),
        used: hold.used,
        reexecute_request_id: reexecuted
            .map(|granted| granted.request_id.as_bytes().to_vec())
            .unwrap_or_default(),
        reexecute_used: reexecuted.is_some_and(|granted| granted.used),
    }
}

/// A completed record's payload has a column of its own.
fn outcome(outcome: &Outcome, with_payload: bool) -> message::Outcome {
    let metadata = outcome
        .metadata
        .iter()
        .flat_map(|(name, value)| [name.clone(), value.clone()]);
    message::Outcome {
        failed: outcome.status == OutcomeStatus::Failed,
        payload: if with_payload {
            outcome.payload.clone()
        } else {
            Vec::new()
        },
        content_type: outcome.content_type.clone(),
        effect_id: outcome.effect_id.clone(),
        metadata: metadata.collect(),
        omitted: outcome.omitted.as_ref().map(|omitted| message::Omitted {
            reason: omitted.reason.clone(),
            size_bytes: omitted.size_bytes,
            sha256: omitted.sha256.to_vec(),
        }),
        digest: outcome.digest.0.to_vec(),
    }
}

fn completion(base: Timestamp, done: &Completion) -> message::Completion {
    message::Completion {
        outcome: Some(outcome(&done.outcome, false)),
        payload_sha256: Sha256::digest(&done.outcome.payload).to_vec(),
        fence: done.fence.get(),
        attempt: done.attempt,
        completed_at: offset(base, done.completed_at),
        retained_until: offset(base, done.retained_until),
    }
}

fn tombstone(base: Timestamp, left: &Tombstone) -> message::Tombstone {
    let reopens_at = match left.reopening {
        Reopening::At(at) => Some(offset(base, at)),
        Reopening::Never | Reopening::Unset => None,
    };
    message::Tombstone {
        failed: left.status == OutcomeStatus::Failed,
        effect_id: left.effect_id.clone(),
        outcome_digest: left.outcome_digest.0.to_vec(),
        completed_at: offset(base, left.completed_at),
        retained_until: offset(base, left.retained_until),
        expired_at: offset(base, left.expired_at),
        reason: left.reason.clone(),
        until: offset(base, left.until),
        reopens: left.reopening != Reopening::Never,
        reopens_at,
    }
}

fn attempt(base: Timestamp, attempt: &Attempt) -> message::Attempt {
    let (ended_at, ended_as) = attempt.ended.map_or((0, 0), |(at, end)| {
        let code = match end {
            AttemptEnd::Completed => 1,
            AttemptEnd::Released => 2,
            AttemptEnd::LeaseRanOut => 3,
            AttemptEnd::Superseded => 4,
            AttemptEnd::Parked => 5,
        };
        (offset(base, at), code)
    });
    message::Attempt {
        number: attempt.attempt,
        fence: attempt.fence.get(),
        rerun: attempt.rerun,
        holder: attempt.holder.clone(),
        trace_id: attempt.trace_id.clone(),
        reserved_at: offset(base, attempt.reserved_at),
        ended_at,
        ended_as,
        note: attempt.note.clone(),
        recorded: attempt
            .recorded
            .map_or_else(Vec::new, |digest| digest.0.to_vec()),
        late_outcomes: attempt
            .late_outcomes
            .iter()
            .map(|late| outcome(late, true))
            .collect(),
    }
}

fn offset(base: Timestamp, at: Timestamp) -> i64 {
    at.as_micros().saturating_sub(base.as_micros())
}

fn span(span: std::time::Duration) -> u64 {
    u64::try_from(micros(span)).unwrap_or(0)
}
