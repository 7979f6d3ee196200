//! Where a record can stand, and what each state holds.

use std::time::Duration;

use super::{Etag, Fence, RequestId};
use crate::domain::outcome::{Outcome, OutcomeDigest, OutcomeStatus};
use crate::domain::time::Timestamp;

/// Where a record stands, with what that state needs.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordState {
    /// Somebody holds the right to run the effect.
    Running(Hold),
    /// What happened must be found out; by a holder, or by nobody yet.
    Recovering(Option<Hold>),
    /// Nothing happened; the next Reserve is granted.
    Released {
        /// When it was released.
        at: Timestamp,
    },
    /// The outcome is known and final.
    Completed(Completion),
    /// A person must decide.
    Parked {
        /// Since when.
        since: Timestamp,
        /// Why.
        note: String,
    },
    /// Only the tombstone is left.
    Expired(Tombstone),
}

/// The name of a record's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateName {
    /// [`RecordState::Running`]
    Running,
    /// [`RecordState::Recovering`]
    Recovering,
    /// [`RecordState::Released`]
    Released,
    /// [`RecordState::Completed`]
    Completed,
    /// [`RecordState::Parked`]
    Parked,
    /// [`RecordState::Expired`]
    Expired,
}

impl StateName {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Running,
        Self::Recovering,
        Self::Released,
        Self::Completed,
        Self::Parked,
        Self::Expired,
    ];

    /// The number under which stores and messages know the state.
    pub const fn code(self) -> i16 {
        match self {
            Self::Running => 1,
            Self::Recovering => 2,
            Self::Released => 3,
            Self::Completed => 4,
            Self::Parked => 5,
            Self::Expired => 6,
        }
    }

    /// The state's name in the words of the contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Recovering => "RECOVERING",
            Self::Released => "RELEASED",
            Self::Completed => "COMPLETED",
            Self::Parked => "PARKED",
            Self::Expired => "EXPIRED",
        }
    }
}

/// A live claim on a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    /// The Reserve call that got it.
    pub request_id: RequestId,
    /// When its lease is out; it is out from this point on, inclusive.
    pub lease_expires_at: Timestamp,
    /// When the lease began to count: at the grant, the takeover or the Reexecute.
    pub started_at: Timestamp,
    /// The token was used: its request id no longer gets it back.
    pub used: bool,
    /// The Reexecute that was granted under it.
    pub reexecuted: Option<Reexecuted>,
}

impl Hold {
    /// Whether the lease is out.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.lease_expires_at <= now
    }

    /// What is left of the lease; zero when it is out.
    pub fn lease_remaining(&self, now: Timestamp) -> Duration {
        self.lease_expires_at.since(now)
    }
}

/// A granted Reexecute.
#[derive(Debug, Clone, PartialEq)]
pub struct Reexecuted {
    /// The Reexecute call that got it.
    pub request_id: RequestId,
    /// The token was renewed since: the call no longer gets its answer back.
    pub used: bool,
}

/// A Resolve that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// The record as the person saw it.
    pub etag: Etag,
    /// What the person said had happened; `None`: nothing.
    pub happened: Option<OutcomeDigest>,
}

/// A late outcome that may yet be used.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptOutcome {
    /// What was reported.
    pub outcome: Outcome,
    /// Under which fence.
    pub fence: Fence,
    /// The retention that its reporter asked for.
    pub retention: Option<Duration>,
}

/// A final outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// What happened.
    pub outcome: Outcome,
    /// Under which fence it was reported.
    pub fence: Fence,
    /// The attempt of that fence.
    pub attempt: u32,
    /// When it was recorded.
    pub completed_at: Timestamp,
    /// From when on only the tombstone answers.
    pub retained_until: Timestamp,
}

/// What is left of an expired record.
#[derive(Debug, Clone, PartialEq)]
pub struct Tombstone {
    /// The outcome's status.
    pub status: OutcomeStatus,
    /// The outcome's effect id.
    pub effect_id: String,
    /// The outcome's digest, so that a repeated Complete is still recognised.
    pub outcome_digest: OutcomeDigest,
    /// When the outcome was recorded.
    pub completed_at: Timestamp,
    /// When its retention ended or would have ended.
    pub retained_until: Timestamp,
    /// When it expired.
    pub expired_at: Timestamp,
    /// Why: `retention`, or what the person said.
    pub reason: String,
    /// When the tombstone goes and the key may be used again as new.
    pub until: Timestamp,
    /// Whether a person allowed another run.
    pub reopening: Reopening,
}

/// Whether and when an expired key opens again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reopening {
    /// It does not.
    Never,
    /// It will; the time is set by a second statement after the Expire's commit.
    Unset,
    /// It opens at this point.
    At(Timestamp),
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// Its outcome was recorded.
    Completed,
    /// It was given back.
    Released,
    /// Its lease ran out and somebody took over.
    LeaseRanOut,
    /// Another one's outcome was used.
    Superseded,
    /// It was parked.
    Parked,
}

/// One ended attempt; one for each fence.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Its number in its generation.
    pub attempt: u32,
    /// Its fence.
    pub fence: Fence,
    /// How often the key had been opened again by then.
    pub rerun: u32,
    /// Who it was.
    pub holder: String,
    /// The trace that it came with.
    pub trace_id: String,
    /// When it began.
    pub reserved_at: Timestamp,
    /// When and how it ended; `None` while it is held.
    pub ended: Option<(Timestamp, AttemptEnd)>,
    /// Release reason, probe answer, park note.
    pub note: String,
    /// The digest of its report that became the record's outcome.
    pub recorded: Option<OutcomeDigest>,
    /// Reports that came too late to be used.
    pub late_outcomes: Vec<Outcome>,
}
