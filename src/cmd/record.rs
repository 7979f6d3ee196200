//! The protocol's messages as tables.

use super::output::Tone;
use super::table::Sheet;
use super::text;
use crate::proto::v1;

/// The most of a payload that a table shows, in characters.
const PAYLOAD_SHOWN_MAX: usize = 2000;

pub(crate) fn state_name(state: v1::RecordState) -> String {
    text::enum_name(state.as_str_name(), "RECORD_STATE_")
}

pub(crate) fn class_name(class: v1::EffectClass) -> String {
    text::enum_name(class.as_str_name(), "EFFECT_CLASS_")
}

fn durability_name(durability: v1::Durability) -> String {
    text::enum_name(durability.as_str_name(), "DURABILITY_")
}

fn state_tone(state: v1::RecordState) -> Tone {
    match state {
        v1::RecordState::Completed | v1::RecordState::Released => Tone::Good,
        v1::RecordState::Running | v1::RecordState::Recovering | v1::RecordState::Expired => {
            Tone::Wait
        }
        v1::RecordState::Parked | v1::RecordState::Unspecified => Tone::Bad,
    }
}

/// Adds where a record stands.
pub(crate) fn state(sheet: Sheet, state: v1::RecordState) -> Sheet {
    sheet.toned("state", &state_name(state), state_tone(state))
}

/// Adds the right that was given and what to keep of it.
pub(crate) fn reservation(sheet: Sheet, held: &v1::Reservation) -> Sheet {
    sheet
        .row("token", &held.token)
        .row("fence", held.fence.to_string())
        .row("attempt", held.attempt.to_string())
        .row("lease", text::proto_span(held.lease_remaining.as_ref()))
        .row("downstream key", &held.downstream_key)
        .row("durability", durability_name(held.durability()))
}

/// Adds what happened.
pub(crate) fn outcome(sheet: Sheet, outcome: &v1::Outcome) -> Sheet {
    let status = text::enum_name(outcome.status().as_str_name(), "OUTCOME_STATUS_");
    let tone = match outcome.status() {
        v1::OutcomeStatus::Succeeded => Tone::Good,
        v1::OutcomeStatus::Failed | v1::OutcomeStatus::Unspecified => Tone::Bad,
    };
    let mut sheet = sheet
        .toned("outcome", &status, tone)
        .row("payload", payload(&outcome.payload))
        .row("content type", &outcome.content_type)
        .row("effect id", &outcome.effect_id);
    for entry in &outcome.metadata {
        sheet = sheet.row("metadata", format!("{}={}", entry.name, entry.value));
    }
    if let Some(left) = &outcome.payload_omitted {
        let told = format!("{} ({} bytes)", left.reason, left.size_bytes);
        sheet = sheet.row("not kept", told);
    }
    sheet
}

fn payload(bytes: &[u8]) -> String {
    let size = bytes.len();
    match str::from_utf8(bytes) {
        Ok(shown) if shown.chars().count() <= PAYLOAD_SHOWN_MAX => shown.trim_end().to_owned(),
        Ok(shown) => {
            let head: String = shown.chars().take(PAYLOAD_SHOWN_MAX).collect();
            format!("{head}\n… {size} bytes in all: see -o json")
        }
        Err(_) => format!("{size} bytes that are no text: see -o json"),
    }
}

/// Adds a stored outcome and where it came from.
pub(crate) fn replay(sheet: Sheet, found: &v1::Replay) -> Sheet {
    let sheet = match &found.outcome {
        Some(stored) => outcome(sheet, stored),
        None => sheet,
    };
    sheet
        .row("completed at", text::time(found.completed_at.as_ref()))
        .row("attempt", found.attempt.to_string())
        .row("fence", found.fence.to_string())
        .row("durability", durability_name(found.durability()))
}

/// Everything that is known under a key.
pub(crate) fn record(record: &v1::Record) -> Sheet {
    let sheet = identity(record);
    let sheet = match &record.outcome {
        Some(stored) => outcome(sheet, stored),
        None => sheet,
    };
    let mut sheet = times(sheet, record);
    for (name, value) in &record.attributes {
        sheet = sheet.row("attribute", format!("{name}={value}"));
    }
    for id in &record.effect_ids {
        sheet = sheet.row("effect id seen", id);
    }
    for entry in &record.attempts {
        sheet = sheet.row("history", attempt(entry));
    }
    sheet
        .row("downstream key", &record.downstream_key)
        .row("etag", &record.etag)
}

fn identity(record: &v1::Record) -> Sheet {
    let mut sheet = Sheet::new();
    if let Some(key) = &record.key {
        sheet = sheet.row("key", &key.key).row("account", &key.account).row(
            "namespace",
            format!("{}/{}", key.namespace, key.environment),
        );
    }
    let sheet = state(sheet, record.state())
        .row("operation", &record.operation)
        .row("effect class", class_name(record.effect_class()))
        .row("fence", record.fence.to_string())
        .row("attempt", record.attempt.to_string())
        .row("holder", &record.holder);
    match &record.lease_remaining {
        Some(left) => sheet.row("lease", text::proto_span(Some(left))),
        None => sheet,
    }
}

fn times(sheet: Sheet, record: &v1::Record) -> Sheet {
    let mut sheet = sheet;
    for (name, at) in [
        ("first reserved", &record.first_reserved_at),
        ("completed at", &record.completed_at),
        ("retained until", &record.retained_until),
        ("parked at", &record.parked_at),
        ("expired at", &record.expired_at),
        ("reopens at", &record.reopens_at),
        ("last seen", &record.last_seen_at),
    ] {
        if at.is_some() {
            sheet = sheet.row(name, text::time(at.as_ref()));
        }
    }
    if record.replays > 0 {
        sheet = sheet.row("replays", record.replays.to_string());
    }
    sheet
        .row("parked because", &record.parked_note)
        .row("expired because", &record.expired_reason)
}

/// One holder's try in a line.
pub(crate) fn attempt(entry: &v1::Attempt) -> String {
    let mut line = format!(
        "attempt {}, fence {}, {}",
        entry.attempt,
        entry.fence,
        text::time(entry.reserved_at.as_ref())
    );
    if !entry.holder.is_empty() {
        line = format!("{line}, by {}", entry.holder);
    }
    let end = match entry.ended_as() {
        v1::AttemptEnd::Unspecified => "not ended",
        v1::AttemptEnd::Completed => "completed",
        v1::AttemptEnd::Released => "released",
        v1::AttemptEnd::LeaseRanOut => "lease ran out",
        v1::AttemptEnd::Superseded => "superseded",
        v1::AttemptEnd::Parked => "parked",
    };
    line = format!("{line}, {end}");
    if !entry.late_outcomes.is_empty() {
        line = format!("{line}, {} late reports", entry.late_outcomes.len());
    }
    if !entry.note.is_empty() {
        line = format!("{line}: {}", entry.note);
    }
    line
}
