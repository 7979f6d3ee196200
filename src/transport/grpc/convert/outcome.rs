//! Outcomes, as they are reported and as they are replayed.

use sha2::{Digest, Sha256};

use super::field::known;
use super::required;
use crate::domain::error::InvalidField;
use crate::domain::outcome::{Outcome, OutcomeStatus, PayloadOmitted};
use crate::proto::v1 as pb;

/// The outcome that a request reports, under the field's own name.
///
/// # Errors
///
/// Names the part that is missing or malformed. Nothing is refused for its size: the effect has
/// happened.
pub fn reported(field: &str, given: Option<pb::Outcome>) -> Result<Outcome, InvalidField> {
    let given = required(field, given)?;
    let status = status(given.status).map_err(|error| error.within(field))?;
    let omitted = given.payload_omitted.map(omitted).transpose();
    let omitted = omitted.map_err(|error| error.within(field))?;
    let metadata = given
        .metadata
        .into_iter()
        .map(|pair| (pair.name, pair.value));
    Ok(Outcome::reported(
        status,
        given.payload,
        given.content_type,
        given.effect_id,
        metadata.collect(),
        omitted,
    ))
}

fn status(number: i32) -> Result<OutcomeStatus, InvalidField> {
    match known("status", number)? {
        pb::OutcomeStatus::Unspecified => {
            Err(InvalidField::new("status", "must be SUCCEEDED or FAILED"))
        }
        pb::OutcomeStatus::Succeeded => Ok(OutcomeStatus::Succeeded),
        pb::OutcomeStatus::Failed => Ok(OutcomeStatus::Failed),
    }
}

fn omitted(given: pb::PayloadOmitted) -> Result<PayloadOmitted, InvalidField> {
    let size_bytes = u64::try_from(given.size_bytes).map_err(|_negative| {
        InvalidField::new("payload_omitted.size_bytes", "must not be negative")
    })?;
    let sha256 = <[u8; 32]>::try_from(given.sha256.as_slice()).map_err(|_wrong_length| {
        let problem = format!("must be 32 bytes, is {}", given.sha256.len());
        InvalidField::new("payload_omitted.sha256", problem)
    })?;
    Ok(PayloadOmitted {
        reason: given.reason,
        size_bytes,
        sha256,
    })
}

/// An outcome as a message, byte for byte.
pub fn outcome_message(outcome: Outcome) -> pb::Outcome {
    let metadata = outcome
        .metadata
        .into_iter()
        .map(|(name, value)| pb::Metadata { name, value });
    pb::Outcome {
        status: status_number(outcome.status),
        payload: outcome.payload,
        content_type: outcome.content_type,
        effect_id: outcome.effect_id,
        metadata: metadata.collect(),
        payload_omitted: outcome.omitted.map(|omitted| pb::PayloadOmitted {
            reason: omitted.reason,
            size_bytes: i64::try_from(omitted.size_bytes).unwrap_or(i64::MAX),
            sha256: omitted.sha256.to_vec(),
        }),
    }
}

/// A status as its number.
pub fn status_number(status: OutcomeStatus) -> i32 {
    let status = match status {
        OutcomeStatus::Succeeded => pb::OutcomeStatus::Succeeded,
        OutcomeStatus::Failed => pb::OutcomeStatus::Failed,
    };
    status.into()
}

/// Takes the payload out of a message and says so in its place.
pub fn leave_payload_out(outcome: &mut pb::Outcome, why: &str) {
    let payload = std::mem::take(&mut outcome.payload);
    if !payload.is_empty() && outcome.payload_omitted.is_none() {
        outcome.payload_omitted = Some(pb::PayloadOmitted {
            reason: why.to_owned(),
            size_bytes: i64::try_from(payload.len()).unwrap_or(i64::MAX),
            sha256: Sha256::digest(&payload).to_vec(),
        });
    }
}
