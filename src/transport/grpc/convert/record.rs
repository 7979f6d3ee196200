//! Records, as support sees them.

use super::key::{fingerprint_message, key_message};
use super::outcome::{leave_payload_out, outcome_message};
use super::policy::effect_class_number;
use super::time::{span, timestamp};
use crate::domain::record::{Attempt, AttemptEnd, Record, RecordState, Reopening, StateName};
use crate::proto::v1 as pb;
use crate::service::lookup::Found;

/// How sure the store is of what it said. All stores of today flush on one node.
pub(super) const DURABILITY: pb::Durability = pb::Durability::SingleNode;

/// What the tombstone says where retention ended by itself.
const BY_RETENTION: &str = "retention";

/// A state as its number; zero: there is no record.
pub fn state_number(state: Option<StateName>) -> i32 {
    state.map_or(0, |state| i32::from(state.code()))
}

/// A record as a message.
pub fn record_message(found: Found, without_payload: bool) -> pb::Record {
    let Found { record, now } = found;
    let hold = record.hold();
    let mut message = pb::Record {
        key: Some(key_message(&record.key)),
        state: state_number(Some(record.state_name())),
        fingerprint: record.fingerprint.as_ref().map(fingerprint_message),
        effect_class: effect_class_number(record.terms.effect_class),
        fence: record.fence.get(),
        attempt: record.attempt,
        holder: hold.map_or_else(String::new, |_| record.holder.clone()),
        lease_remaining: hold.map(|hold| span(hold.lease_remaining(now))),
        first_reserved_at: Some(timestamp(record.first_reserved_at)),
        attempts: record
            .all_attempts()
            .into_iter()
            .map(attempt_message)
            .collect(),
        etag: record.etag().to_string(),
        downstream_key: record.key.downstream_key(record.rerun),
        ..pb::Record::default()
    };
    add_what_its_state_knows(&mut message, &record);
    message.operation = record.operation;
    message.attributes = record.attributes;
    message.effect_ids = record.effect_ids;
    if without_payload {
        let late = message
            .attempts
            .iter_mut()
            .flat_map(|attempt| &mut attempt.late_outcomes);
        for outcome in message.outcome.iter_mut().chain(late) {
            leave_payload_out(outcome, "payload: not asked for");
        }
    }
    message
}

fn add_what_its_state_knows(message: &mut pb::Record, record: &Record) {
    match &record.state {
        RecordState::Running(_) | RecordState::Recovering(_) | RecordState::Released { .. } => {}
        RecordState::Completed(completion) => {
            message.outcome = Some(outcome_message(completion.outcome.clone()));
            message.completed_at = Some(timestamp(completion.completed_at));
            message.retained_until = Some(timestamp(completion.retained_until));
        }
        RecordState::Parked { since, note } => {
            message.parked_at = Some(timestamp(*since));
            message.parked_note.clone_from(note);
        }
        RecordState::Expired(tombstone) => {
            message.completed_at = Some(timestamp(tombstone.completed_at));
            message.retained_until = Some(timestamp(tombstone.retained_until));
            message.expired_at = Some(timestamp(tombstone.expired_at));
            if tombstone.reason != BY_RETENTION {
                message.expired_reason.clone_from(&tombstone.reason);
            }
            if let Reopening::At(at) = tombstone.reopening {
                message.reopens_at = Some(timestamp(at));
            }
        }
    }
}

/// An Expire's answer as a message.
pub fn expire_response(found: Found) -> pb::ExpireResponse {
    let reopens_in = match &found.record.state {
        RecordState::Expired(tombstone) => match tombstone.reopening {
            Reopening::At(at) => Some(span(at.since(found.now))),
            Reopening::Never | Reopening::Unset => None,
        },
        RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Released { .. }
        | RecordState::Completed(_)
        | RecordState::Parked { .. } => None,
    };
    pb::ExpireResponse {
        record: Some(record_message(found, false)),
        reopens_in,
    }
}

pub(super) fn attempt_message(attempt: Attempt) -> pb::Attempt {
    let ended_as = match attempt.ended.map(|(_, end)| end) {
        None => pb::AttemptEnd::Unspecified,
        Some(AttemptEnd::Completed) => pb::AttemptEnd::Completed,
        Some(AttemptEnd::Released) => pb::AttemptEnd::Released,
        Some(AttemptEnd::LeaseRanOut) => pb::AttemptEnd::LeaseRanOut,
        Some(AttemptEnd::Superseded) => pb::AttemptEnd::Superseded,
        Some(AttemptEnd::Parked) => pb::AttemptEnd::Parked,
    };
    // A late outcome is whole in the record for as long as it may still be used.
    let late = attempt
        .late_outcomes
        .iter()
        .map(|outcome| outcome_message(outcome.as_evidence()));
    pb::Attempt {
        attempt: attempt.attempt,
        fence: attempt.fence.get(),
        reserved_at: Some(timestamp(attempt.reserved_at)),
        ended_at: attempt.ended.map(|(at, _)| timestamp(at)),
        ended_as: ended_as.into(),
        late_outcomes: late.collect(),
        rerun: i32::try_from(attempt.rerun).unwrap_or(i32::MAX),
        holder: attempt.holder,
        trace_id: attempt.trace_id,
        note: attempt.note,
    }
}
