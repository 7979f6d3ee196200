//! What a holder does with its reservation: Complete, Renew, Release, Park, Reexecute.

use std::time::Duration;

use super::field::{note, request_id};
use super::key::key;
use super::outcome::{outcome_message, reported};
use super::record::{DURABILITY, state_number};
use super::reserve::reservation;
use super::time::{duration, span, timestamp};
use crate::domain::command::{
    CompleteVerdict, Completed, ParkAnswer, ReexecuteVerdict, Released, Renewed,
};
use crate::domain::error::InvalidField;
use crate::domain::outcome::Outcome;
use crate::domain::record::RequestId;
use crate::proto::v1 as pb;
use crate::service::holder::{Held, ReexecuteAnswer};

fn held(given: Option<pb::RecordKey>, token: String) -> Result<Held, InvalidField> {
    let key = key(given)?;
    Ok(Held { key, token })
}

/// A Complete as it was asked.
#[derive(Debug)]
pub struct CompleteCall {
    /// The reservation.
    pub held: Held,
    /// What happened.
    pub outcome: Outcome,
    /// `None` takes the record's.
    pub retention: Option<Duration>,
}

/// A Complete as it was asked.
///
/// # Errors
///
/// Names the first field that is missing or malformed; none for its size.
pub fn complete_call(request: pb::CompleteRequest) -> Result<CompleteCall, InvalidField> {
    Ok(CompleteCall {
        held: held(request.key, request.token)?,
        outcome: reported("outcome", request.outcome)?,
        retention: duration("retention", request.retention)?,
    })
}

/// A Complete's answer as a message.
pub fn complete_response(completed: Completed) -> pb::CompleteResponse {
    use pb::complete_response::Verdict;
    let verdict = match completed.verdict {
        CompleteVerdict::Recorded => Verdict::Recorded,
        CompleteVerdict::AlreadyRecorded => Verdict::AlreadyRecorded,
        CompleteVerdict::Divergent => Verdict::Divergent,
        CompleteVerdict::Superseded => Verdict::Superseded,
    };
    pb::CompleteResponse {
        verdict: verdict.into(),
        state: state_number(completed.state),
        stored: completed.stored.map(outcome_message),
        completed_at: completed.completed_at.map(timestamp),
        durability: DURABILITY.into(),
        outcome_used: completed.outcome_used,
    }
}

/// A Renew as it was asked.
///
/// # Errors
///
/// Names the field that is missing or malformed.
pub fn renew_call(request: pb::RenewRequest) -> Result<(Held, Option<Duration>), InvalidField> {
    let held = held(request.key, request.token)?;
    Ok((held, duration("lease", request.lease)?))
}

/// A Renew's answer as a message.
pub fn renew_response(renewed: &Renewed) -> pb::RenewResponse {
    pb::RenewResponse {
        held: renewed.held,
        lease_remaining: Some(span(renewed.lease_remaining)),
        settled: renewed.settled,
        state: state_number(renewed.state),
    }
}

/// A Release as it was asked.
///
/// # Errors
///
/// Names the field that is missing, malformed or over its limit.
pub fn release_call(request: pb::ReleaseRequest) -> Result<(Held, String), InvalidField> {
    let held = held(request.key, request.token)?;
    Ok((held, note("reason", request.reason, 0)?))
}

/// A Release's answer as a message.
pub fn release_response(released: &Released) -> pb::ReleaseResponse {
    pb::ReleaseResponse {
        released: released.released,
        state: state_number(released.state),
    }
}

/// A Park as it was asked.
///
/// # Errors
///
/// Names the field that is missing, malformed or over its limit.
pub fn park_call(request: pb::ParkRequest) -> Result<(Held, String), InvalidField> {
    let held = held(request.key, request.token)?;
    Ok((held, note("note", request.note, 0)?))
}

/// A Park's answer as a message.
pub fn park_response(answer: &ParkAnswer) -> pb::ParkResponse {
    pb::ParkResponse {
        parked: answer.parked,
        state: state_number(answer.state),
    }
}

/// A Reexecute as it was asked.
#[derive(Debug)]
pub struct ReexecuteCall {
    /// The reservation.
    pub held: Held,
    /// `None` takes the namespace's default.
    pub lease: Option<Duration>,
    /// `None`: made by the server.
    pub request_id: Option<RequestId>,
    /// The look-up began after an answer that said settled.
    pub settled_seen: bool,
}

/// A Reexecute as it was asked.
///
/// # Errors
///
/// Names the field that is missing, malformed or over its limit.
pub fn reexecute_call(request: pb::ReexecuteRequest) -> Result<ReexecuteCall, InvalidField> {
    Ok(ReexecuteCall {
        held: held(request.key, request.token)?,
        lease: duration("lease", request.lease)?,
        request_id: request_id(&request.request_id)?,
        settled_seen: request.settled_seen,
    })
}

/// A Reexecute's answer as a message.
pub fn reexecute_response(answer: ReexecuteAnswer) -> pb::ReexecuteResponse {
    use pb::reexecute_response::Verdict;
    let verdict = match answer.verdict {
        ReexecuteVerdict::Granted(grant) => Verdict::Granted(reservation(grant, answer.token)),
        ReexecuteVerdict::TooEarly {
            settle_remaining,
            look_again,
        } => Verdict::TooEarly(pb::TooEarly {
            settle_remaining: Some(span(settle_remaining)),
            look_again,
        }),
        ReexecuteVerdict::Parked { since, note } => Verdict::Parked(pb::Parked {
            since: Some(timestamp(since)),
            note,
        }),
        ReexecuteVerdict::Superseded { state } => Verdict::Superseded(pb::Superseded {
            state: state_number(state),
        }),
    };
    pb::ReexecuteResponse {
        verdict: Some(verdict),
    }
}
