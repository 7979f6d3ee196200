//! The values that tests use where it does not matter which.

use std::time::Duration;

use crate::domain::command::ReserveVerdict;
use crate::domain::fingerprint::Fingerprint;
use crate::domain::key::RecordKey;
use crate::domain::outcome::{Outcome, OutcomeStatus};
use crate::domain::policy::Terms;
use crate::domain::time::Timestamp;

/// The lease that the verbs ask for.
pub const LEASE: Duration = Duration::from_secs(30);
/// The smallest step of the clock.
pub const TICK: Duration = Duration::from_micros(1);

/// Where every test's clock starts.
pub fn start() -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000)
}

/// A span in seconds.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A key in the tests' own tenancy.
pub fn key_of(key: &str) -> RecordKey {
    RecordKey::parse("shop", "live", "acme", key).expect("a valid key")
}

/// A fingerprint under the default scheme.
pub fn fingerprint(byte: u8) -> Fingerprint {
    Fingerprint::parse("raw-sha256-v1", &[byte; 32]).expect("a valid fingerprint")
}

/// An outcome whose payload is a text.
pub fn outcome(text: &str) -> Outcome {
    effect(text, "")
}

/// An outcome with the other side's id.
pub fn effect(text: &str, effect_id: &str) -> Outcome {
    Outcome::reported(
        OutcomeStatus::Succeeded,
        text.as_bytes().to_vec(),
        "text/plain".to_owned(),
        effect_id.to_owned(),
        vec![("location".to_owned(), "/v1/invoices/1".to_owned())],
        None,
    )
}

/// Terms under which every class has what it needs: a window of an hour, a settle time of 20 s.
pub fn terms() -> Terms {
    Terms {
        keyed_window: secs(3600),
        settle_max_pause: secs(15),
        settle_max_delay: secs(5),
        ..Terms::default()
    }
}

/// A verdict's name in the words of the contract.
pub const fn name_of(verdict: &ReserveVerdict) -> &'static str {
    match verdict {
        ReserveVerdict::Granted(_) => "GRANTED",
        ReserveVerdict::Replay(_) => "REPLAY",
        ReserveVerdict::InProgress(_) => "IN_PROGRESS",
        ReserveVerdict::Recover(_) => "RECOVER",
        ReserveVerdict::Mismatch(_) => "MISMATCH",
        ReserveVerdict::Parked { .. } => "PARKED",
        ReserveVerdict::Expired { .. } => "EXPIRED",
    }
}
