//! Complete: what happened is recorded once and for good; what comes too late is kept as evidence.

use super::{Decision, Moment, aged, complete_with, is_newest};
use crate::domain::command::{Complete, CompleteVerdict, Completed};
use crate::domain::limits;
use crate::domain::outcome::OutcomeDigest;
use crate::domain::record::{KeptOutcome, Record, RecordState};
use crate::domain::time::Timestamp;

/// Judges a Complete.
pub fn decide_complete(
    stored: Option<&Record>,
    request: &Complete,
    moment: Moment,
) -> Decision<Completed> {
    let Some(record) = stored.and_then(|record| aged(record, moment.now)) else {
        return Decision::answer(Completed {
            verdict: CompleteVerdict::Superseded,
            state: None,
            stored: None,
            completed_at: None,
            outcome_used: false,
            diverges: false,
        });
    };
    let record = record.into_owned();
    if record.generation != request.token.generation {
        return of_another_generation(record, request, moment.now);
    }
    let newest = is_newest(&record, &request.token);
    match &record.state {
        RecordState::Running(_) if newest => used(record, request, moment.now),
        RecordState::Running(_) => keep(record, request, moment.now),
        RecordState::Recovering(_) | RecordState::Released { .. } | RecordState::Parked { .. } => {
            used(record, request, moment.now)
        }
        RecordState::Completed(completion) => {
            let digest = completion.outcome.digest;
            decided(record, request, digest, moment.now)
        }
        RecordState::Expired(tombstone) => {
            let digest = tombstone.outcome_digest;
            decided(record, request, digest, moment.now)
        }
    }
}

/// Nobody had decided yet: the outcome sent becomes the record's.
fn used(mut record: Record, request: &Complete, now: Timestamp) -> Decision<Completed> {
    let current = is_newest(&record, &request.token);
    let other_outcome = is_another(&record, request.outcome.digest);
    let other_effect = complete_with(
        &mut record,
        &request.outcome,
        request.token.fence,
        request.retention,
        now,
    );
    let verdict = if current {
        CompleteVerdict::Recorded
    } else {
        CompleteVerdict::Superseded
    };
    let diverges = other_outcome || other_effect;
    let answer = Completed {
        outcome_used: true,
        diverges,
        ..about(&record, verdict)
    };
    Decision::write(answer, record)
}

/// Whether a late report of this generation said something else.
fn is_another(record: &Record, digest: OutcomeDigest) -> bool {
    let kept = record.kept.iter().map(|kept| &kept.outcome);
    let attempts = record.attempts.iter();
    let own = attempts.filter(|attempt| record.is_of_this_generation(attempt.fence));
    let late = own.flat_map(|attempt| &attempt.late_outcomes);
    kept.chain(late).any(|outcome| outcome.digest != digest)
}

/// Another token is RUNNING: kept whole until that one has decided.
fn keep(record: Record, request: &Complete, now: Timestamp) -> Decision<Completed> {
    let known = record.kept.as_ref().map(|kept| kept.outcome.digest);
    let diverges = known.is_some_and(|digest| digest != request.outcome.digest);
    let verdict = CompleteVerdict::Superseded;
    let mut decision = too_late(record.clone(), request, verdict, diverges, now);
    if known.is_none() {
        let outcome = request.outcome.clone().kept_under(&record.terms);
        let (fence, retention) = (request.token.fence, request.retention);
        let with_evidence = decision.write.get_or_insert_with(|| Box::new(record));
        with_evidence.kept = Some(KeptOutcome {
            outcome,
            fence,
            retention,
        });
    }
    decision
}

/// An outcome stands there already: it stays.
fn decided(
    record: Record,
    request: &Complete,
    digest: OutcomeDigest,
    now: Timestamp,
) -> Decision<Completed> {
    if digest == request.outcome.digest {
        return Decision::answer(about(&record, CompleteVerdict::AlreadyRecorded));
    }
    let verdict = if is_newest(&record, &request.token) {
        CompleteVerdict::Divergent
    } else {
        CompleteVerdict::Superseded
    };
    let stored = match &record.state {
        RecordState::Completed(completion) => Some(completion.outcome.clone()),
        RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Released { .. }
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => None,
    };
    let mut decision = too_late(record, request, verdict, true, now);
    decision.answer.stored = stored;
    decision
}

/// The token is of an earlier generation. What that one recorded, or was told before, is no news; anything else is an effect that nobody knew of.
fn of_another_generation(
    record: Record,
    request: &Complete,
    now: Timestamp,
) -> Decision<Completed> {
    let digest = request.outcome.digest;
    let attempts = record.attempts.iter();
    let earlier = attempts.filter(|attempt| !record.is_of_this_generation(attempt.fence));
    let mut reported = earlier.flat_map(|attempt| {
        let late = attempt.late_outcomes.iter().map(|late| late.digest);
        attempt.recorded.into_iter().chain(late)
    });
    if reported.any(|known| known == digest) {
        return Decision::answer(about(&record, CompleteVerdict::Superseded));
    }
    too_late(record, request, CompleteVerdict::Superseded, true, now)
}

/// Not used: kept as evidence with the attempt that it belongs to.
fn too_late(
    mut record: Record,
    request: &Complete,
    verdict: CompleteVerdict,
    diverges: bool,
    now: Timestamp,
) -> Decision<Completed> {
    let before = record.clone();
    let this_generation = record.generation == request.token.generation;
    let evidence = request
        .outcome
        .clone()
        .kept_under(&record.terms)
        .as_evidence();
    let another_effect = this_generation && record.add_effect_id(&evidence.effect_id);
    let attempt = record.ended_attempt(request.token.fence, now);
    let known = attempt
        .late_outcomes
        .iter()
        .any(|late| late.digest == evidence.digest);
    if !known && attempt.late_outcomes.len() < limits::EVIDENCE_PER_ATTEMPT_MAX {
        attempt.late_outcomes.push(evidence);
    }
    let diverges = diverges || another_effect;
    let answer = Completed {
        diverges,
        ..about(&record, verdict)
    };
    if record == before {
        Decision::answer(answer)
    } else {
        Decision::write(answer, record)
    }
}

fn about(record: &Record, verdict: CompleteVerdict) -> Completed {
    let completed_at = match &record.state {
        RecordState::Completed(completion) => Some(completion.completed_at),
        RecordState::Expired(tombstone) => Some(tombstone.completed_at),
        RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Released { .. }
        | RecordState::Parked { .. } => None,
    };
    Completed {
        verdict,
        state: Some(record.state_name()),
        stored: None,
        completed_at,
        outcome_used: false,
        diverges: false,
    }
}
