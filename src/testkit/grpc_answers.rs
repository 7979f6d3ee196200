//! Answers as they came over the wire, as a store would have given them.

use std::time::Duration;

use crate::domain::command::{
    CompleteVerdict, Completed, Grant, InProgress, Mismatch, MismatchField, ParkAnswer, Recover,
    ReexecuteVerdict, Released, Renewed, Replay, ReserveVerdict, Reserved,
};
use crate::domain::key::KeyDigest;
use crate::domain::outcome::{Outcome, OutcomeStatus, PayloadOmitted};
use crate::domain::policy::EffectClass;
use crate::domain::record::{Attempt, AttemptEnd, Fence, StateName};
use crate::domain::time::Timestamp;
use crate::domain::token::TokenSecrets;
use crate::proto::v1 as pb;
use pb::reexecute_response::Verdict as Again;
use pb::reserve_response::Verdict;

pub(super) fn reserved(
    told: pb::ReserveResponse,
    secrets: &TokenSecrets,
    identity: &KeyDigest,
) -> Reserved {
    let verdict = match told.verdict.expect("a verdict") {
        Verdict::Granted(own) => ReserveVerdict::Granted(grant(own, secrets, identity)),
        Verdict::Replay(told) => ReserveVerdict::Replay(Replay {
            outcome: outcome(told.outcome.expect("an outcome")),
            completed_at: at(told.completed_at),
            attempt: told.attempt,
            fence: Fence::new(told.fence),
        }),
        Verdict::InProgress(told) => ReserveVerdict::InProgress(InProgress {
            retry_after: span(told.retry_after),
            lease_remaining: span(told.lease_remaining),
            needs_recovery: told.needs_recovery,
            attempt: told.attempt,
            state: state(told.state).expect("a state"),
            holder: told.holder,
        }),
        Verdict::Recover(told) => {
            ReserveVerdict::Recover(Box::new(recover(told, secrets, identity)))
        }
        Verdict::Mismatch(told) => ReserveVerdict::Mismatch(mismatch(told)),
        Verdict::Parked(told) => ReserveVerdict::Parked {
            since: at(told.since),
            note: told.note,
        },
        Verdict::Expired(told) => ReserveVerdict::Expired {
            completed_at: at(told.completed_at),
            expired_at: at(told.expired_at),
            status: status(told.status()),
            effect_id: told.effect_id,
        },
    };
    Reserved {
        verdict,
        fingerprint_not_compared: told.fingerprint_not_compared,
    }
}

fn grant(told: pb::Reservation, secrets: &TokenSecrets, identity: &KeyDigest) -> Grant {
    let token = secrets
        .verify(identity, &told.token)
        .expect("its own token");
    assert_eq!(token.fence.get(), told.fence);
    Grant {
        generation: token.generation,
        fence: token.fence,
        attempt: told.attempt,
        lease_remaining: span(told.lease_remaining),
        downstream_key: told.downstream_key,
    }
}

fn recover(told: pb::Recover, secrets: &TokenSecrets, identity: &KeyDigest) -> Recover {
    Recover {
        effect_class: class(told.effect_class()),
        grant: grant(told.reservation.expect("a reservation"), secrets, identity),
        settle_remaining: span(told.settle_remaining),
        attributes: told.attributes,
        attempts: told.attempts.into_iter().map(attempt).collect(),
        settled: told.settled,
        reexecute_approved: told.reexecute_approved,
    }
}

fn mismatch(told: pb::Mismatch) -> Mismatch {
    let field = match told.field() {
        pb::mismatch::Field::Operation => MismatchField::Operation,
        pb::mismatch::Field::Fingerprint => MismatchField::Fingerprint,
        pb::mismatch::Field::Unspecified => panic!("a mismatch of nothing"),
    };
    Mismatch {
        field,
        stored_operation: told.stored_operation,
        first_reserved_at: at(told.first_reserved_at),
    }
}

/// `diverges` is not told to callers.
pub(super) fn completed(told: pb::CompleteResponse) -> Completed {
    use pb::complete_response::Verdict as Told;
    let verdict = match told.verdict() {
        Told::Recorded => CompleteVerdict::Recorded,
        Told::AlreadyRecorded => CompleteVerdict::AlreadyRecorded,
        Told::Divergent => CompleteVerdict::Divergent,
        Told::Superseded => CompleteVerdict::Superseded,
        Told::Unspecified => panic!("no verdict"),
    };
    Completed {
        verdict,
        state: state(told.state),
        stored: told.stored.map(outcome),
        completed_at: told.completed_at.map(|told| at(Some(told))),
        outcome_used: told.outcome_used,
        diverges: false,
    }
}

pub(super) fn renewed(told: &pb::RenewResponse) -> Renewed {
    Renewed {
        held: told.held,
        lease_remaining: span(told.lease_remaining),
        settled: told.settled,
        state: state(told.state),
    }
}

pub(super) fn released(told: pb::ReleaseResponse) -> Released {
    Released {
        released: told.released,
        state: state(told.state),
    }
}

pub(super) fn parked(told: pb::ParkResponse) -> ParkAnswer {
    ParkAnswer {
        parked: told.parked,
        state: state(told.state),
    }
}

pub(super) fn reexecuted(
    told: pb::ReexecuteResponse,
    secrets: &TokenSecrets,
    identity: &KeyDigest,
) -> ReexecuteVerdict {
    match told.verdict.expect("a verdict") {
        Again::Granted(told) => ReexecuteVerdict::Granted(grant(told, secrets, identity)),
        Again::TooEarly(told) => ReexecuteVerdict::TooEarly {
            settle_remaining: span(told.settle_remaining),
            look_again: told.look_again,
        },
        Again::Parked(told) => ReexecuteVerdict::Parked {
            since: at(told.since),
            note: told.note,
        },
        Again::Superseded(told) => ReexecuteVerdict::Superseded {
            state: state(told.state),
        },
    }
}

fn outcome(told: pb::Outcome) -> Outcome {
    let status = status(told.status());
    let omitted = told.payload_omitted.map(|omitted| PayloadOmitted {
        reason: omitted.reason,
        size_bytes: omitted.size_bytes.unsigned_abs(),
        sha256: omitted.sha256.try_into().expect("32 bytes"),
    });
    let metadata = told
        .metadata
        .into_iter()
        .map(|pair| (pair.name, pair.value));
    let reported = Outcome::reported(
        status,
        told.payload,
        told.content_type,
        told.effect_id,
        metadata.collect(),
        omitted.clone(),
    );
    // A kept outcome can have both: a payload, and the word that something else was left out.
    Outcome {
        omitted,
        ..reported
    }
}

fn attempt(told: pb::Attempt) -> Attempt {
    let end = match told.ended_as() {
        pb::AttemptEnd::Unspecified => None,
        pb::AttemptEnd::Completed => Some(AttemptEnd::Completed),
        pb::AttemptEnd::Released => Some(AttemptEnd::Released),
        pb::AttemptEnd::LeaseRanOut => Some(AttemptEnd::LeaseRanOut),
        pb::AttemptEnd::Superseded => Some(AttemptEnd::Superseded),
        pb::AttemptEnd::Parked => Some(AttemptEnd::Parked),
    };
    Attempt {
        attempt: told.attempt,
        fence: Fence::new(told.fence),
        rerun: told.rerun.unsigned_abs(),
        holder: told.holder,
        trace_id: told.trace_id,
        reserved_at: at(told.reserved_at),
        ended: end.map(|end| (at(told.ended_at), end)),
        note: told.note,
        recorded: None,
        late_outcomes: told.late_outcomes.into_iter().map(outcome).collect(),
    }
}

fn state(number: i32) -> Option<StateName> {
    StateName::ALL
        .into_iter()
        .find(|state| i32::from(state.code()) == number)
}

fn status(told: pb::OutcomeStatus) -> OutcomeStatus {
    match told {
        pb::OutcomeStatus::Succeeded => OutcomeStatus::Succeeded,
        pb::OutcomeStatus::Failed => OutcomeStatus::Failed,
        pb::OutcomeStatus::Unspecified => panic!("no status"),
    }
}

fn class(told: pb::EffectClass) -> EffectClass {
    match told {
        pb::EffectClass::Opaque => EffectClass::Opaque,
        pb::EffectClass::Receipt => EffectClass::Receipt,
        pb::EffectClass::Keyed => EffectClass::Keyed,
        pb::EffectClass::Fenced => EffectClass::Fenced,
        pb::EffectClass::Queryable => EffectClass::Queryable,
        pb::EffectClass::Repeatable => EffectClass::Repeatable,
        pb::EffectClass::Unspecified => panic!("no class"),
    }
}

fn at(told: Option<prost_types::Timestamp>) -> Timestamp {
    let told = told.expect("a time");
    Timestamp::from_micros(told.seconds * 1_000_000 + i64::from(told.nanos / 1000))
}

fn span(told: Option<prost_types::Duration>) -> Duration {
    let told = told.unwrap_or_default();
    Duration::new(told.seconds.unsigned_abs(), told.nanos.unsigned_abs())
}
