//! What a verdict that lets nothing run means, in words and as an exit code.

use super::exit::Exit;
use super::failure::Failure;
use super::text;
use crate::proto::v1;

pub(crate) fn in_progress(found: &v1::InProgress) -> Failure {
    let lease = text::proto_span(found.lease_remaining.as_ref());
    let who = if found.holder.is_empty() {
        "somebody".to_owned()
    } else {
        found.holder.clone()
    };
    let message = if found.state() == v1::RecordState::Expired {
        "in progress: the key was expired for another run and is not open yet".to_owned()
    } else if found.needs_recovery {
        format!(
            "in progress: {who} disappeared, and a caller that can recover is needed (attempt {})",
            found.attempt
        )
    } else {
        format!(
            "in progress: {who} is at work (attempt {}, lease {lease})",
            found.attempt
        )
    };
    let again = text::proto_span(found.retry_after.as_ref());
    Failure::new(Exit::InProgress, message).hint(format!("nothing was run; ask again in {again}"))
}

pub(crate) fn mismatch(found: &v1::Mismatch) -> Failure {
    let since = text::time(found.first_reserved_at.as_ref());
    let differs = match found.field() {
        v1::mismatch::Field::Operation => "another operation",
        v1::mismatch::Field::Fingerprint => "another fingerprint",
        v1::mismatch::Field::Unspecified => "something else",
    };
    let message = format!(
        "mismatch: since {since} the key belongs to {differs} (operation {})",
        found.stored_operation
    );
    Failure::new(Exit::Mismatch, message)
        .hint("nothing was run; asking again does not help: use another key")
}

pub(crate) fn parked(found: &v1::Parked) -> Failure {
    let since = text::time(found.since.as_ref());
    let note = if found.note.is_empty() {
        String::new()
    } else {
        format!(": {}", found.note)
    };
    Failure::new(Exit::Parked, format!("parked since {since}{note}"))
        .hint("nothing was run; find out what happened, then say so with `oncegate resolve`")
}

pub(crate) fn expired(found: &v1::Expired) -> Failure {
    let done = text::time(found.completed_at.as_ref());
    let gone = text::time(found.expired_at.as_ref());
    let message = format!("expired: it ended at {done}; its outcome was kept until {gone}");
    Failure::new(Exit::Expired, message)
        .hint("nothing was run; `oncegate expire --allow-rerun` opens the key for another run")
}

/// A verdict that this version does not know lets nothing run.
pub(crate) fn unknown() -> Failure {
    Failure::new(
        Exit::Failed,
        "the server's verdict is not known to this version of oncegate",
    )
    .hint("nothing was run; update this program")
}
