//! Reserve: who gets the right to run the effect, and what everybody else is told.

use std::borrow::Cow;
use std::time::Duration;

use super::{Decision, Moment, aged, use_kept_outcome};
use crate::domain::command::{
    Grant, InProgress, Mismatch, MismatchField, Recover, Replay, Reserve, ReserveVerdict, Reserved,
};
use crate::domain::fingerprint::{Comparison, compare};
use crate::domain::limits;
use crate::domain::policy::EffectClass;
use crate::domain::record::{
    AttemptEnd, Completion, Generation, Hold, Record, RecordState, Reopening, Tombstone, Version,
};
use crate::domain::time::Timestamp;

const RETRY_AFTER_MIN: Duration = Duration::from_millis(100);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

/// Judges a Reserve.
pub fn decide_reserve(
    stored: Option<&Record>,
    request: &Reserve,
    moment: Moment,
) -> Decision<Reserved> {
    let now = moment.now;
    let Some(record) = stored.and_then(|record| aged(record, now)) else {
        return grant(fresh(request, moment), request, moment);
    };
    // Under a released or reopened key nothing has happened: there is nothing to compare with.
    match &record.state {
        RecordState::Released { .. } => return after_release(record, request, moment),
        RecordState::Expired(Tombstone {
            reopening: Reopening::Unset,
            ..
        }) => {
            return set_reopening(record.into_owned(), now);
        }
        RecordState::Expired(Tombstone {
            reopening: Reopening::At(at),
            ..
        }) => {
            let at = *at;
            return reopen(record, at, request, moment);
        }
        RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Completed(_)
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => {}
    }
    let comparison = compare(record.fingerprint.as_ref(), request.fingerprint.as_ref());
    if let Some(mismatch) = mismatch(&record, request, comparison) {
        return verdict(ReserveVerdict::Mismatch(mismatch));
    }
    let mut decision = match &record.state {
        RecordState::Running(_) | RecordState::Recovering(_) => occupied(record, request, moment),
        RecordState::Completed(completion) => verdict(replay(completion)),
        RecordState::Parked { since, note } => verdict(ReserveVerdict::Parked {
            since: *since,
            note: note.clone(),
        }),
        RecordState::Expired(tombstone) => verdict(expired(tombstone)),
        RecordState::Released { .. } => after_release(record, request, moment),
    };
    decision.answer.fingerprint_not_compared = comparison == Comparison::Impossible;
    decision
}

/// The first record of a key.
fn fresh(request: &Reserve, moment: Moment) -> Record {
    Record {
        key: request.key.clone(),
        generation: Generation::new(moment.next_fence.get()),
        fence: moment.next_fence,
        version: Version::new(1),
        rerun: 0,
        operation: request.operation.clone(),
        fingerprint: request.fingerprint.clone(),
        terms: request.terms.clone(),
        attributes: request.attributes.clone(),
        tainted: false,
        recoveries: 0,
        attempt: 0,
        holder: String::new(),
        trace_id: String::new(),
        first_reserved_at: moment.now,
        reserved_at: moment.now,
        exposed_at: moment.now,
        settle_until: Timestamp::EPOCH,
        reexecution_approved: false,
        resolved: None,
        released_fence: None,
        released_requests: Vec::new(),
        kept: None,
        effect_ids: Vec::new(),
        attempts: Vec::new(),
        state: RecordState::Released { at: moment.now },
    }
}

/// Grants the right to run. The record stands on a clean slate: nothing has happened under it.
fn grant(mut record: Record, request: &Reserve, moment: Moment) -> Decision<Reserved> {
    record.operation.clone_from(&request.operation);
    record.fingerprint.clone_from(&request.fingerprint);
    record.terms = request.terms.clone();
    record.attributes.clone_from(&request.attributes);
    record.exposed_at = moment.now;
    let hold = begin(&mut record, request, moment);
    record.state = RecordState::Running(hold);
    let verdict = ReserveVerdict::Granted(grant_of(&record, moment.now));
    Decision::write(reserved(verdict), record)
}

/// Begins a reservation: a new fence, the next attempt.
fn begin(record: &mut Record, request: &Reserve, moment: Moment) -> Hold {
    record.fence = moment.next_fence;
    record.attempt += 1;
    record.holder.clone_from(&request.holder);
    record.trace_id.clone_from(&request.trace_id);
    record.reserved_at = moment.now;
    record.released_fence = None;
    Hold {
        request_id: request.request_id,
        lease_expires_at: lease_end(request.lease, record, moment.now, moment.now),
        started_at: moment.now,
        used: false,
        reexecuted: None,
    }
}

/// Where a lease asked for at `now` ends, under the cap counted from the reservation's start.
pub(super) fn lease_end(
    lease: Duration,
    record: &Record,
    started_at: Timestamp,
    now: Timestamp,
) -> Timestamp {
    now.plus(lease)
        .min(started_at.plus(record.terms.max_total_lease))
}

fn after_release(record: Cow<'_, Record>, request: &Reserve, moment: Moment) -> Decision<Reserved> {
    if record.released_requests.contains(&request.request_id) {
        return verdict(in_progress(&record, moment.now, RETRY_AFTER_MIN));
    }
    grant(record.into_owned(), request, moment)
}

fn set_reopening(mut record: Record, now: Timestamp) -> Decision<Reserved> {
    let at = now.plus(limits::CACHE_BOUND);
    if let RecordState::Expired(tombstone) = &mut record.state {
        tombstone.reopening = Reopening::At(at);
        tombstone.until = tombstone.until.max(at);
    }
    let verdict = in_progress(&record, now, limits::CACHE_BOUND);
    Decision::write(reserved(verdict), record)
}

fn reopen(
    record: Cow<'_, Record>,
    at: Timestamp,
    request: &Reserve,
    moment: Moment,
) -> Decision<Reserved> {
    if moment.now < at {
        return verdict(in_progress(&record, moment.now, at.since(moment.now)));
    }
    let record = record.into_owned();
    let next = Record {
        rerun: record.rerun.saturating_add(1),
        attempts: record.attempts,
        ..fresh(request, moment)
    };
    grant(next, request, moment)
}

fn mismatch(record: &Record, request: &Reserve, comparison: Comparison) -> Option<Mismatch> {
    let field = if record.operation != request.operation {
        MismatchField::Operation
    } else if comparison == Comparison::Different {
        MismatchField::Fingerprint
    } else {
        return None;
    };
    Some(Mismatch {
        field,
        stored_operation: record.operation.clone(),
        first_reserved_at: record.first_reserved_at,
    })
}

/// RUNNING or RECOVERING: the caller's own reservation again, a wait, or a takeover.
fn occupied(record: Cow<'_, Record>, request: &Reserve, moment: Moment) -> Decision<Reserved> {
    let now = moment.now;
    if let Some(hold) = record.hold() {
        if hold.request_id == request.request_id && !hold.used {
            return give_back(record.into_owned(), request, now);
        }
        if !hold.is_over(now) {
            let retry_after = hold
                .lease_remaining(now)
                .clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX);
            return verdict(in_progress(&record, now, retry_after));
        }
    }
    if record.released_requests.contains(&request.request_id) || !request.can_recover {
        let verdict = in_progress(&record, now, RETRY_AFTER_MAX);
        return Decision::answer(reserved(verdict));
    }
    let mut record = record.into_owned();
    if use_kept_outcome(&mut record, now) {
        let verdict = match &record.state {
            RecordState::Completed(completion) => replay(completion),
            RecordState::Running(_)
            | RecordState::Recovering(_)
            | RecordState::Released { .. }
            | RecordState::Parked { .. }
            | RecordState::Expired(_) => in_progress(&record, now, RETRY_AFTER_MIN),
        };
        return Decision::write(reserved(verdict), record);
    }
    if record.hold().is_some() && record.recoveries >= record.terms.max_recoveries {
        return park_instead(record, now);
    }
    take_over(record, request, moment)
}

/// A repeated request gets its own reservation back: same fence, lease renewed.
fn give_back(mut record: Record, request: &Reserve, now: Timestamp) -> Decision<Reserved> {
    let started_at = record.hold().map_or(now, |hold| hold.started_at);
    let end = lease_end(request.lease, &record, started_at, now);
    if let RecordState::Running(hold) | RecordState::Recovering(Some(hold)) = &mut record.state {
        hold.lease_expires_at = hold.lease_expires_at.max(end);
    }
    let verdict = match record.state {
        RecordState::Recovering(_) => recover(&record, now),
        RecordState::Running(_)
        | RecordState::Released { .. }
        | RecordState::Completed(_)
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => ReserveVerdict::Granted(grant_of(&record, now)),
    };
    Decision::write(reserved(verdict), record)
}

fn park_instead(mut record: Record, now: Timestamp) -> Decision<Reserved> {
    let note = format!("recovered {} times without a result", record.recoveries);
    record.end_attempt(now, AttemptEnd::LeaseRanOut, "");
    record.state = RecordState::Parked {
        since: now,
        note: note.clone(),
    };
    Decision::write(
        reserved(ReserveVerdict::Parked { since: now, note }),
        record,
    )
}

/// Takes over from a holder whose lease is out, or from nobody. From here on the record is tainted.
fn take_over(mut record: Record, request: &Reserve, moment: Moment) -> Decision<Reserved> {
    if let RecordState::Running(hold) = &record.state {
        let settled = hold.lease_expires_at.plus(record.terms.settle_time());
        record.settle_until = record.settle_until.max(settled);
    }
    record.end_attempt(moment.now, AttemptEnd::LeaseRanOut, "");
    record.tainted = true;
    record.recoveries = record.recoveries.saturating_add(1);
    let hold = begin(&mut record, request, moment);
    record.state = RecordState::Recovering(Some(hold));
    let verdict = recover(&record, moment.now);
    Decision::write(reserved(verdict), record)
}

/// Whether an effect of class QUERYABLE that was sent earlier can no longer arrive.
pub(super) fn is_settled(record: &Record, now: Timestamp) -> bool {
    record.terms.effect_class == EffectClass::Queryable && record.settle_until < now
}

/// The right that a record's newest reservation gives.
pub(super) fn grant_of(record: &Record, now: Timestamp) -> Grant {
    Grant {
        generation: record.generation,
        fence: record.fence,
        attempt: record.attempt,
        lease_remaining: record
            .hold()
            .map_or(Duration::ZERO, |hold| hold.lease_remaining(now)),
        downstream_key: record.key.downstream_key(record.rerun),
    }
}

fn recover(record: &Record, now: Timestamp) -> ReserveVerdict {
    let queryable = record.terms.effect_class == EffectClass::Queryable;
    ReserveVerdict::Recover(Box::new(Recover {
        grant: grant_of(record, now),
        effect_class: record.terms.effect_class,
        settle_remaining: settle_remaining(record, now)
            .filter(|_| queryable)
            .unwrap_or_default(),
        attributes: record.attributes.clone(),
        attempts: record.all_attempts(),
        settled: is_settled(record, now),
        reexecute_approved: record.reexecution_approved,
    }))
}

/// How long until a look-up can count; `None`: it can now.
pub(super) fn settle_remaining(record: &Record, now: Timestamp) -> Option<Duration> {
    let just_after = record.settle_until.plus(Duration::from_micros(1));
    Some(just_after.since(now)).filter(|remaining| !remaining.is_zero())
}

fn replay(completion: &Completion) -> ReserveVerdict {
    ReserveVerdict::Replay(Replay {
        outcome: completion.outcome.clone(),
        completed_at: completion.completed_at,
        attempt: completion.attempt,
        fence: completion.fence,
    })
}

fn expired(tombstone: &Tombstone) -> ReserveVerdict {
    ReserveVerdict::Expired {
        completed_at: tombstone.completed_at,
        expired_at: tombstone.expired_at,
        status: tombstone.status,
        effect_id: tombstone.effect_id.clone(),
    }
}

fn in_progress(record: &Record, now: Timestamp, retry_after: Duration) -> ReserveVerdict {
    let stranded = match &record.state {
        RecordState::Running(hold) | RecordState::Recovering(Some(hold)) => hold.is_over(now),
        RecordState::Recovering(None) => true,
        RecordState::Released { .. }
        | RecordState::Completed(_)
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => false,
    };
    ReserveVerdict::InProgress(InProgress {
        retry_after,
        lease_remaining: record
            .hold()
            .map_or(Duration::ZERO, |hold| hold.lease_remaining(now)),
        holder: record
            .hold()
            .map_or_else(String::new, |_| record.holder.clone()),
        attempt: record.attempt,
        needs_recovery: stranded,
        state: record.state_name(),
    })
}

fn verdict(verdict: ReserveVerdict) -> Decision<Reserved> {
    Decision::answer(reserved(verdict))
}

fn reserved(verdict: ReserveVerdict) -> Reserved {
    Reserved {
        verdict,
        fingerprint_not_compared: false,
    }
}
