//! A record: what is known about one key. The state is an enum that holds its own data.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::error::InvalidField;
use super::fingerprint::Fingerprint;
use super::key::RecordKey;
use super::limits;
use super::outcome::{Outcome, OutcomeDigest, OutcomeStatus};
use super::policy::Terms;
use super::time::Timestamp;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Wraps the number.
            pub const fn new(number: i64) -> Self {
                Self(number)
            }

            /// The number.
            pub const fn get(self) -> i64 {
                self.0
            }
        }
    };
}

number! {
    /// One life of a key: another one begins when an expired key opens again.
    Generation
}
number! {
    /// The fencing token: rises strictly per record, across takeovers, Expire and retention.
    Fence
}
number! {
    /// Rises with every write of a record; what a conditional write compares.
    Version
}

/// 16 random bytes that an SDK makes for one Reserve or Reexecute call and keeps over its retries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId([u8; 16]);

impl RequestId {
    /// Takes the 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Hidden: whoever knows it gets the reservation.
impl fmt::Debug for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RequestId(hidden)")
    }
}

/// What is known about one key.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The identity.
    pub key: RecordKey,
    /// The key's present life.
    pub generation: Generation,
    /// The newest reservation's fence.
    pub fence: Fence,
    /// Rises with every write.
    pub version: Version,
    /// How often the key was opened again by a person.
    pub rerun: u32,
    /// What the effect is.
    pub operation: String,
    /// The digest of the request that was granted.
    pub fingerprint: Option<Fingerprint>,
    /// What decides about this record.
    pub terms: Terms,
    /// For support.
    pub attributes: BTreeMap<String, String>,
    /// Somebody was taken over from in this generation: a Release is no longer a clean slate.
    pub tainted: bool,
    /// Takeovers since the grant or the last person's decision; released ones are not counted.
    pub recoveries: u32,
    /// Rises with each GRANTED and RECOVER of this generation.
    pub attempt: u32,
    /// Who made the newest reservation.
    pub holder: String,
    /// The trace that the newest reservation came with; empty if none.
    pub trace_id: String,
    /// When this generation began.
    pub first_reserved_at: Timestamp,
    /// When the newest reservation began.
    pub reserved_at: Timestamp,
    /// From when on the effect can have been sent: the last grant on a clean slate.
    pub exposed_at: Timestamp,
    /// Until when an effect sent earlier can still arrive.
    pub settle_until: Timestamp,
    /// A person approved one more run.
    pub reexecution_approved: bool,
    /// The etag that the last Resolve named, so that a repeated one is told apart from another.
    pub resolved_etag: Option<Etag>,
    /// The fence that was released last, as long as nobody reserved since.
    pub released_fence: Option<Fence>,
    /// Request ids of released reservations: they never get a grant.
    pub released_requests: Vec<RequestId>,
    /// A late outcome that came while another token was RUNNING; it is used if that one leaves
    /// RUNNING without an outcome.
    pub kept: Option<KeptOutcome>,
    /// Distinct effect ids reported in this generation; healthy is at most one.
    pub effect_ids: Vec<String>,
    /// Ended attempts: the first and the newest.
    pub attempts: Vec<Attempt>,
    /// Where the record stands.
    pub state: RecordState,
}

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
    /// The key's life that it belongs to.
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
    /// Reports that came too late to be used.
    pub late_outcomes: Vec<Outcome>,
}

/// Pins down a record's state: it changes with every write and never takes an earlier value again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Etag {
    /// The record's generation; all that Expire compares.
    pub generation: Generation,
    /// The record's fence.
    pub fence: Fence,
    /// The record's version.
    pub version: Version,
}

impl Etag {
    /// Reads the text form.
    ///
    /// # Errors
    ///
    /// The text is not an etag that this service has made.
    pub fn parse(field: &str, text: &str) -> Result<Self, InvalidField> {
        let malformed =
            || InvalidField::new(field, "must be an etag of a record as Lookup shows it");
        let mut parts = text.split('.').map(|part| i64::from_str_radix(part, 16));
        let mut next = || parts.next().and_then(Result::ok).ok_or_else(malformed);
        let etag = Self {
            generation: Generation(next()?),
            fence: Fence(next()?),
            version: Version(next()?),
        };
        if parts.next().is_some() {
            Err(malformed())
        } else {
            Ok(etag)
        }
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:x}.{:x}.{:x}",
            self.generation.0, self.fence.0, self.version.0
        )
    }
}

impl Record {
    /// The name of the state.
    pub const fn state_name(&self) -> StateName {
        match self.state {
            RecordState::Running(_) => StateName::Running,
            RecordState::Recovering(_) => StateName::Recovering,
            RecordState::Released { .. } => StateName::Released,
            RecordState::Completed(_) => StateName::Completed,
            RecordState::Parked { .. } => StateName::Parked,
            RecordState::Expired(_) => StateName::Expired,
        }
    }

    /// The live claim, if there is one.
    pub const fn hold(&self) -> Option<&Hold> {
        match &self.state {
            RecordState::Running(hold) | RecordState::Recovering(Some(hold)) => Some(hold),
            RecordState::Recovering(None)
            | RecordState::Released { .. }
            | RecordState::Completed(_)
            | RecordState::Parked { .. }
            | RecordState::Expired(_) => None,
        }
    }

    /// Pins down this state of the record.
    pub const fn etag(&self) -> Etag {
        Etag {
            generation: self.generation,
            fence: self.fence,
            version: self.version,
        }
    }

    /// When time alone changes the record next: what the sweeper looks for.
    pub fn sweep_at(&self) -> Option<Timestamp> {
        match &self.state {
            RecordState::Completed(completion) => Some(completion.retained_until),
            RecordState::Expired(tombstone) => Some(tombstone.until),
            RecordState::Released { at } => Some(at.plus(self.terms.retention)),
            RecordState::Running(_) | RecordState::Recovering(_) | RecordState::Parked { .. } => {
                None
            }
        }
    }

    /// The newest attempt while it is held.
    pub fn current_attempt(&self) -> Option<Attempt> {
        self.hold().map(|_| Attempt {
            attempt: self.attempt,
            fence: self.fence,
            rerun: self.rerun,
            holder: self.holder.clone(),
            trace_id: self.trace_id.clone(),
            reserved_at: self.reserved_at,
            ended: None,
            note: String::new(),
            late_outcomes: Vec::new(),
        })
    }

    /// All attempts that are kept, the one that is held last.
    pub fn all_attempts(&self) -> Vec<Attempt> {
        let mut all: Vec<_> = self
            .attempts
            .iter()
            .cloned()
            .chain(self.current_attempt())
            .collect();
        if all.len() > limits::ATTEMPTS_MAX {
            all.remove(1);
        }
        all
    }

    /// Ends the newest attempt, if it is held, and keeps it: the first and the newest stay.
    pub(super) fn end_attempt(&mut self, at: Timestamp, end: AttemptEnd, note: &str) {
        let Some(mut attempt) = self.current_attempt() else {
            return;
        };
        attempt.ended = Some((at, end));
        note.clone_into(&mut attempt.note);
        self.attempts.push(attempt);
        if self.attempts.len() > limits::ATTEMPTS_MAX {
            self.attempts.remove(1);
        }
    }

    /// Adds an effect id that was reported under this key. True: it is another one than before.
    pub(super) fn add_effect_id(&mut self, effect_id: &str) -> bool {
        if effect_id.is_empty() || self.effect_ids.iter().any(|known| known == effect_id) {
            return false;
        }
        let another = !self.effect_ids.is_empty();
        if self.effect_ids.len() < limits::EFFECT_IDS_MAX {
            self.effect_ids.push(effect_id.to_owned());
        }
        another
    }
}
