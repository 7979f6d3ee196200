//! What a holder does with its reservation: Renew, Release, Park. A stale token gets an answer,
//! never an error, and changes nothing.

use super::reserve::{is_settled, lease_end};
use super::{Decision, Moment, aged, held, is_newest, use_kept_outcome};
use crate::domain::command::{Park, ParkAnswer, Release, Released, Renew, Renewed};
use crate::domain::limits;
use crate::domain::record::{AttemptEnd, Hold, Record, RecordState};
use crate::domain::time::Timestamp;

/// Judges a Renew. A lease that is out but that nobody took over from is held again.
pub fn decide_renew(stored: Option<&Record>, request: &Renew, moment: Moment) -> Decision<Renewed> {
    let now = moment.now;
    let Some(record) = stored.and_then(|record| aged(record, now)) else {
        return Decision::answer(not_held(None));
    };
    let Some(hold) = held(&record, &request.token) else {
        return Decision::answer(not_held(Some(&record)));
    };
    let end = lease_end(request.lease, &record, hold.started_at, now);
    let renewed = Hold {
        // A lease never gets shorter: the holder may have been told the later end.
        lease_expires_at: hold.lease_expires_at.max(end),
        used: true,
        reexecuted: hold.reexecuted.clone().map(|mut granted| {
            granted.used = true;
            granted
        }),
        ..hold.clone()
    };
    let answer = Renewed {
        held: true,
        lease_remaining: renewed.lease_remaining(now),
        settled: matches!(record.state, RecordState::Recovering(_)) && is_settled(&record, now),
        state: Some(record.state_name()),
    };
    if renewed == *hold {
        return Decision::answer(answer);
    }
    let mut record = record.into_owned();
    record.state = match record.state {
        RecordState::Recovering(_) => RecordState::Recovering(Some(renewed)),
        RecordState::Running(_)
        | RecordState::Released { .. }
        | RecordState::Completed(_)
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => RecordState::Running(renewed),
    };
    Decision::write(answer, record)
}

fn not_held(record: Option<&Record>) -> Renewed {
    Renewed {
        held: false,
        lease_remaining: std::time::Duration::ZERO,
        settled: false,
        state: record.map(Record::state_name),
    }
}

/// Judges a Release. Only from an untainted RUNNING is the slate clean again.
pub fn decide_release(
    stored: Option<&Record>,
    request: &Release,
    moment: Moment,
) -> Decision<Released> {
    let now = moment.now;
    let Some(record) = stored.and_then(|record| aged(record, now)) else {
        return Decision::answer(Released {
            released: false,
            state: None,
        });
    };
    let Some(hold) = held(&record, &request.token) else {
        let repeated = record.generation == request.token.generation
            && record.released_fence == Some(request.token.fence);
        let state = Some(record.state_name());
        return Decision::answer(Released {
            released: repeated,
            state,
        });
    };
    let request_id = hold.request_id;
    let mut record = record.into_owned();
    if !use_kept_outcome(&mut record, now) {
        give_up(&mut record, &request.reason, now);
        record.released_requests.push(request_id);
        if record.released_requests.len() > limits::RELEASED_REQUESTS_MAX {
            record.released_requests.remove(0);
        }
    }
    record.released_fence = Some(request.token.fence);
    let answer = Released {
        released: true,
        state: Some(record.state_name()),
    };
    Decision::write(answer, record)
}

fn give_up(record: &mut Record, reason: &str, now: Timestamp) {
    record.end_attempt(now, AttemptEnd::Released, reason);
    record.recoveries = record.recoveries.saturating_sub(1);
    let clean = matches!(record.state, RecordState::Running(_)) && !record.tainted;
    record.state = if clean {
        RecordState::Released { at: now }
    } else {
        RecordState::Recovering(None)
    };
}

/// Judges a Park.
pub fn decide_park(
    stored: Option<&Record>,
    request: &Park,
    moment: Moment,
) -> Decision<ParkAnswer> {
    let now = moment.now;
    let Some(record) = stored.and_then(|record| aged(record, now)) else {
        return Decision::answer(ParkAnswer {
            parked: false,
            state: None,
        });
    };
    if held(&record, &request.token).is_none() {
        let parked = matches!(record.state, RecordState::Parked { .. });
        let repeated = parked && is_newest(&record, &request.token);
        let state = Some(record.state_name());
        return Decision::answer(ParkAnswer {
            parked: repeated,
            state,
        });
    }
    let mut record = record.into_owned();
    park(&mut record, &request.note, now);
    let state = record.state_name();
    let parked = matches!(record.state, RecordState::Parked { .. });
    Decision::write(
        ParkAnswer {
            parked,
            state: Some(state),
        },
        record,
    )
}

/// Hands the record to a person, unless a late outcome that was kept meanwhile decides it.
pub(super) fn park(record: &mut Record, note: &str, now: Timestamp) {
    if !use_kept_outcome(record, now) {
        record.end_attempt(now, AttemptEnd::Parked, note);
        record.state = RecordState::Parked {
            since: now,
            note: note.to_owned(),
        };
    }
}
