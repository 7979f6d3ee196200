//! Every limit of the contract in one place. What a namespace may choose lies in `policy`; the bound of
//! a mechanism (a queue, a batch, a cache) stands on top of its own file.

use std::time::Duration;

/// A namespace's or an environment's name, in bytes of `[a-z0-9-]`.
pub const NAME_BYTES_MAX: usize = 63;
/// An account, in bytes; it may be empty.
pub const ACCOUNT_BYTES_MAX: usize = 255;
/// An idempotency key, in bytes; at least one.
pub const KEY_BYTES_MAX: usize = 255;
/// An operation's name, in bytes; at least one.
pub const OPERATION_BYTES_MAX: usize = 127;
/// A holder's name, in bytes; it may be empty.
pub const HOLDER_BYTES_MAX: usize = 255;
/// How many attributes a record has at most.
pub const ATTRIBUTES_MAX: usize = 16;
/// An attribute's name or value, in bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 127;
/// A fingerprint's scheme, in bytes.
pub const SCHEME_BYTES_MAX: usize = 127;
/// A note or a reason, in bytes.
pub const NOTE_BYTES_MAX: usize = 1024;
/// An effect id or a content type, in bytes; a longer one is left out of the record.
pub const EFFECT_ID_BYTES_MAX: usize = 255;
/// All metadata names and values of an outcome, in bytes together; more is left out.
pub const METADATA_BYTES_MAX: usize = 8 * 1024;
/// The payload of an outcome that came too late to be used, in bytes; a larger one is left out.
pub const EVIDENCE_PAYLOAD_BYTES_MAX: usize = 4 * 1024;
/// Late outcomes kept for one attempt.
pub const EVIDENCE_PER_ATTEMPT_MAX: usize = 4;
/// Attempts kept in a record: the first, and the newest others.
pub const ATTEMPTS_MAX: usize = 20;
/// Distinct effect ids kept in a record.
pub const EFFECT_IDS_MAX: usize = 16;
/// Request ids of released reservations kept in a record.
pub const RELEASED_REQUESTS_MAX: usize = 64;
/// Items of one batch.
pub const BATCH_ITEMS_MAX: usize = 1000;
/// Bytes of one batch answer.
pub const BATCH_ANSWER_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Bytes of one message that the server takes.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The largest answer: a single record with everything in it.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The largest payload that a namespace may allow, in bytes.
pub const PAYLOAD_BYTES_CAP: u64 = 1024 * 1024;
/// Environments of one namespace.
pub const ENVIRONMENTS_MAX: usize = 32;

/// How long a copy of a completed record may be answered from after it was read.
/// No key opens again before every copy of its former outcome is past this bound.
pub const CACHE_BOUND: Duration = Duration::from_mins(1);
/// The shortest lease.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// The longest that a namespace may let one reservation be renewed.
pub const TOTAL_LEASE_CAP: Duration = Duration::from_hours(24);
/// The longest that a namespace may let a call wait.
pub const WAIT_CAP: Duration = Duration::from_mins(5);
/// The longest retention, tombstone or window.
pub const RETENTION_CAP: Duration = Duration::from_hours(87840);
/// The shortest retention.
pub const RETENTION_MIN: Duration = Duration::from_secs(1);
/// The most recoveries that a namespace may allow before a record is parked.
pub const RECOVERIES_CAP: u32 = 1000;
