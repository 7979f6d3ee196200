//! The messages themselves. Times are offsets from the record's `first_reserved_at` in
//! microseconds, durations are microseconds, digests 32 bytes.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(in crate::store) struct Detail {
    #[prost(uint32, tag = "1")]
    pub(super) format: u32,
    #[prost(uint32, tag = "2")]
    pub(super) rerun: u32,
    #[prost(message, optional, tag = "3")]
    pub(super) fingerprint: Option<Fingerprint>,
    #[prost(message, optional, tag = "4")]
    pub(super) terms: Option<Terms>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(super) attributes: BTreeMap<String, String>,
    #[prost(bool, tag = "6")]
    pub(super) tainted: bool,
    #[prost(uint32, tag = "7")]
    pub(super) recoveries: u32,
    #[prost(uint32, tag = "8")]
    pub(super) attempt: u32,
    #[prost(string, tag = "9")]
    pub(super) holder: String,
    #[prost(string, tag = "10")]
    pub(super) trace_id: String,
    #[prost(sint64, tag = "11")]
    pub(super) reserved_at: i64,
    #[prost(sint64, tag = "12")]
    pub(super) exposed_at: i64,
    #[prost(sint64, optional, tag = "13")]
    pub(super) settle_until: Option<i64>,
    #[prost(bool, tag = "14")]
    pub(super) reexecution_approved: bool,
    #[prost(message, optional, tag = "15")]
    pub(super) resolved: Option<Resolved>,
    #[prost(int64, optional, tag = "16")]
    pub(super) released_fence: Option<i64>,
    #[prost(bytes = "vec", repeated, tag = "17")]
    pub(super) released_requests: Vec<Vec<u8>>,
    #[prost(message, optional, tag = "18")]
    pub(super) kept: Option<Kept>,
    #[prost(string, repeated, tag = "19")]
    pub(super) effect_ids: Vec<String>,
    #[prost(message, repeated, tag = "20")]
    pub(super) attempts: Vec<Attempt>,
    #[prost(oneof = "State", tags = "30, 31, 32, 33, 34, 35")]
    pub(super) state: Option<State>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum State {
    #[prost(message, tag = "30")]
    Running(Hold),
    #[prost(message, tag = "31")]
    Recovering(Recovering),
    #[prost(sint64, tag = "32")]
    ReleasedAt(i64),
    #[prost(message, tag = "33")]
    Completed(Completion),
    #[prost(message, tag = "34")]
    Parked(Parked),
    #[prost(message, tag = "35")]
    Expired(Tombstone),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Fingerprint {
    #[prost(string, tag = "1")]
    pub(super) scheme: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) digest: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Terms {
    #[prost(uint32, tag = "1")]
    pub(super) effect_class: u32,
    #[prost(uint64, tag = "2")]
    pub(super) keyed_window: u64,
    #[prost(uint64, tag = "3")]
    pub(super) settle_max_pause: u64,
    #[prost(uint64, tag = "4")]
    pub(super) settle_max_delay: u64,
    #[prost(uint64, tag = "5")]
    pub(super) max_total_lease: u64,
    #[prost(uint64, tag = "6")]
    pub(super) retention: u64,
    #[prost(uint64, tag = "7")]
    pub(super) tombstone_retention: u64,
    #[prost(uint64, tag = "8")]
    pub(super) payload_bytes_max: u64,
    #[prost(bool, tag = "9")]
    pub(super) digest_only: bool,
    #[prost(uint32, tag = "10")]
    pub(super) max_recoveries: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resolved {
    #[prost(int64, tag = "1")]
    pub(super) generation: i64,
    #[prost(int64, tag = "2")]
    pub(super) fence: i64,
    #[prost(int64, tag = "3")]
    pub(super) version: i64,
    /// Empty: the person said that nothing had happened.
    #[prost(bytes = "vec", tag = "4")]
    pub(super) happened: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Hold {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) request_id: Vec<u8>,
    #[prost(sint64, tag = "2")]
    pub(super) lease_expires_at: i64,
    #[prost(sint64, tag = "3")]
    pub(super) started_at: i64,
    #[prost(bool, tag = "4")]
    pub(super) used: bool,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) reexecute_request_id: Vec<u8>,
    #[prost(bool, tag = "6")]
    pub(super) reexecute_used: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Recovering {
    #[prost(message, optional, tag = "1")]
    pub(super) hold: Option<Hold>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Parked {
    #[prost(sint64, tag = "1")]
    pub(super) since: i64,
    #[prost(string, tag = "2")]
    pub(super) note: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Outcome {
    #[prost(bool, tag = "1")]
    pub(super) failed: bool,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) payload: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(super) content_type: String,
    #[prost(string, tag = "4")]
    pub(super) effect_id: String,
    #[prost(string, repeated, tag = "5")]
    pub(super) metadata: Vec<String>,
    #[prost(message, optional, tag = "6")]
    pub(super) omitted: Option<Omitted>,
    #[prost(bytes = "vec", tag = "7")]
    pub(super) digest: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Omitted {
    #[prost(string, tag = "1")]
    pub(super) reason: String,
    #[prost(uint64, tag = "2")]
    pub(super) size_bytes: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) sha256: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Completion {
    #[prost(message, optional, tag = "1")]
    pub(super) outcome: Option<Outcome>,
    /// Of the payload as it stands in its column.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) payload_sha256: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) fence: i64,
    #[prost(uint32, tag = "4")]
    pub(super) attempt: u32,
    #[prost(sint64, tag = "5")]
    pub(super) completed_at: i64,
    #[prost(sint64, tag = "6")]
    pub(super) retained_until: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Tombstone {
    #[prost(bool, tag = "1")]
    pub(super) failed: bool,
    #[prost(string, tag = "2")]
    pub(super) effect_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) outcome_digest: Vec<u8>,
    #[prost(sint64, tag = "4")]
    pub(super) completed_at: i64,
    #[prost(sint64, tag = "5")]
    pub(super) retained_until: i64,
    #[prost(sint64, tag = "6")]
    pub(super) expired_at: i64,
    #[prost(string, tag = "7")]
    pub(super) reason: String,
    #[prost(sint64, tag = "8")]
    pub(super) until: i64,
    /// A person allowed another run.
    #[prost(bool, tag = "9")]
    pub(super) reopens: bool,
    #[prost(sint64, optional, tag = "10")]
    pub(super) reopens_at: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Kept {
    #[prost(message, optional, tag = "1")]
    pub(super) outcome: Option<Outcome>,
    #[prost(int64, tag = "2")]
    pub(super) fence: i64,
    #[prost(uint64, optional, tag = "3")]
    pub(super) retention: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Attempt {
    #[prost(uint32, tag = "1")]
    pub(super) number: u32,
    #[prost(int64, tag = "2")]
    pub(super) fence: i64,
    #[prost(uint32, tag = "3")]
    pub(super) rerun: u32,
    #[prost(string, tag = "4")]
    pub(super) holder: String,
    #[prost(string, tag = "5")]
    pub(super) trace_id: String,
    #[prost(sint64, tag = "6")]
    pub(super) reserved_at: i64,
    #[prost(sint64, tag = "7")]
    pub(super) ended_at: i64,
    #[prost(uint32, tag = "8")]
    pub(super) ended_as: u32,
    #[prost(string, tag = "9")]
    pub(super) note: String,
    #[prost(message, repeated, tag = "10")]
    pub(super) late_outcomes: Vec<Outcome>,
    /// Empty: none of its reports became the record's outcome.
    #[prost(bytes = "vec", tag = "11")]
    pub(super) recorded: Vec<u8>,
}
