//! What people decide: Expire ends a completed record's protection, Resolve settles a parked one.
//! Both name the record as it was seen and leave a line in the audit trail.

use super::{Audit, AuditAction, Decision, Moment, aged, complete_with, tombstone};
use crate::domain::command::{Expire, PersonAnswer, Refusal, Resolution, Resolve};
use crate::domain::limits;
use crate::domain::record::{Record, RecordState, Reopening, Resolved, StateName, Tombstone};
use crate::domain::time::Timestamp;

/// Judges an Expire. With `allow_rerun`, the time of reopening is set by a second one: it must be
/// counted from after the first one's commit, for until then caches may still be filled.
pub fn decide_expire(
    stored: Option<&Record>,
    request: &Expire,
    moment: Moment,
) -> Decision<PersonAnswer> {
    let now = moment.now;
    let Some(record) = stored.and_then(|record| aged(record, now)) else {
        return Decision::answer(Err(Refusal::NotFound));
    };
    let mut record = record.into_owned();
    if record.generation != request.etag.generation {
        return Decision::answer(Err(Refusal::EtagMismatch));
    }
    let before = record.state_name();
    let mut tombstone = match &record.state {
        RecordState::Completed(completion) => tombstone(&record, completion, now, &request.reason),
        RecordState::Expired(tombstone) => tombstone.clone(),
        RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Released { .. }
        | RecordState::Parked { .. } => {
            return Decision::answer(Err(Refusal::WrongState(before)));
        }
    };
    let first = before == StateName::Completed;
    let allows = request.allow_rerun && tombstone.reopening == Reopening::Never;
    let reopening = reopening(&tombstone, request, first, now);
    if !first && reopening == tombstone.reopening {
        return Decision::answer(Ok(Box::new(record)));
    }
    if reopening != Reopening::Never {
        // It waits for the next caller: gone, the key would be granted as new, under the first
        // run's downstream key.
        tombstone.until = tombstone.until.max(now.plus(limits::RETENTION_CAP));
    }
    tombstone.reopening = reopening;
    record.state = RecordState::Expired(tombstone);
    let decision = Decision::write(Ok(Box::new(record.clone())), record.clone());
    if !first && !allows {
        return decision;
    }
    decision.audited(Audit {
        action: AuditAction::Expire,
        actor: request.actor.clone(),
        reason: request.reason.clone(),
        at: now,
        fence: record.fence,
        before,
        after: StateName::Expired,
    })
}

fn reopening(tombstone: &Tombstone, request: &Expire, first: bool, now: Timestamp) -> Reopening {
    match tombstone.reopening {
        Reopening::Never if request.allow_rerun => Reopening::Unset,
        Reopening::Unset if !first => Reopening::At(now.plus(limits::CACHE_BOUND)),
        Reopening::Never | Reopening::Unset | Reopening::At(_) => tombstone.reopening,
    }
}

/// Judges a Resolve.
pub fn decide_resolve(
    stored: Option<&Record>,
    request: &Resolve,
    moment: Moment,
) -> Decision<PersonAnswer> {
    let now = moment.now;
    let Some(record) = stored.and_then(|record| aged(record, now)) else {
        return Decision::answer(Err(Refusal::NotFound));
    };
    let mut record = record.into_owned();
    let happened = match &request.resolution {
        Resolution::Happened(outcome) => Some(outcome.digest),
        Resolution::NothingHappened => None,
    };
    let resolved = Some(Resolved {
        etag: request.etag,
        happened,
    });
    if record.resolved == resolved {
        // The same call again: it was carried out, its answer may have been lost.
        return Decision::answer(Ok(Box::new(record)));
    }
    if record.etag() != request.etag {
        return Decision::answer(Err(Refusal::EtagMismatch));
    }
    if !matches!(record.state, RecordState::Parked { .. }) {
        return Decision::answer(Err(Refusal::WrongState(record.state_name())));
    }
    match &request.resolution {
        Resolution::Happened(outcome) => {
            let fence = record.fence;
            complete_with(&mut record, outcome, fence, None, now);
        }
        Resolution::NothingHappened => {
            record.recoveries = 0;
            record.reexecution_approved = true;
            record.released_fence = None;
            record.state = RecordState::Recovering(None);
        }
    }
    record.resolved = resolved;
    let audit = Audit {
        action: AuditAction::Resolve,
        actor: request.actor.clone(),
        reason: request.reason.clone(),
        at: now,
        fence: record.fence,
        before: StateName::Parked,
        after: record.state_name(),
    };
    Decision::write(Ok(Box::new(record.clone())), record).audited(audit)
}
