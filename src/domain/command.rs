//! What can be asked of one record, and what is answered. Verdicts are values, not errors.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fingerprint::Fingerprint;
use super::key::RecordKey;
use super::outcome::{Outcome, OutcomeStatus};
use super::policy::{EffectClass, Terms};
use super::record::{Attempt, Etag, Fence, Generation, Record, RequestId, StateName};
use super::time::Timestamp;
use super::token::Token;

/// Asks for the right to run an effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Reserve {
    /// The identity.
    pub key: RecordKey,
    /// What the effect is.
    pub operation: String,
    /// The digest of the request.
    pub fingerprint: Option<Fingerprint>,
    /// Random for each call, kept over its retries.
    pub request_id: RequestId,
    /// How long the right is held without renewal.
    pub lease: Duration,
    /// Who asks.
    pub holder: String,
    /// The trace it came with; empty if none.
    pub trace_id: String,
    /// For support.
    pub attributes: BTreeMap<String, String>,
    /// The caller knows what RECOVER means.
    pub can_recover: bool,
    /// What a new grant is given under.
    pub terms: Terms,
}

/// The right to run the effect, or to find out what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The record's generation; part of the token.
    pub generation: Generation,
    /// The reservation's fence; part of the token.
    pub fence: Fence,
    /// The attempt's number.
    pub attempt: u32,
    /// What is left of the lease.
    pub lease_remaining: Duration,
    /// The other side's idempotency key.
    pub downstream_key: String,
}

/// What Reserve answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Reserved {
    /// The verdict.
    pub verdict: ReserveVerdict,
    /// A fingerprint was missing on one side or of another scheme: nothing was compared.
    pub fingerprint_not_compared: bool,
}

/// The verdicts of Reserve.
#[derive(Debug, Clone, PartialEq)]
pub enum ReserveVerdict {
    /// Run the effect now.
    Granted(Grant),
    /// It has happened; here is the outcome.
    Replay(Replay),
    /// Somebody is at work.
    InProgress(InProgress),
    /// A holder disappeared: find out what happened.
    Recover(Box<Recover>),
    /// The key was used for something else.
    Mismatch(Mismatch),
    /// A person is deciding.
    Parked {
        /// Since when.
        since: Timestamp,
        /// Why.
        note: String,
    },
    /// It happened once; the outcome is no longer kept.
    Expired {
        /// When the outcome was recorded.
        completed_at: Timestamp,
        /// When it expired.
        expired_at: Timestamp,
        /// The outcome's status.
        status: OutcomeStatus,
        /// The outcome's effect id.
        effect_id: String,
    },
}

/// A stored outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// What happened.
    pub outcome: Outcome,
    /// When it was recorded.
    pub completed_at: Timestamp,
    /// The attempt that reported it.
    pub attempt: u32,
    /// The fence of that attempt.
    pub fence: Fence,
}

/// Somebody is at work, or the key is not open yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InProgress {
    /// When to ask again.
    pub retry_after: Duration,
    /// What is left of the holder's lease.
    pub lease_remaining: Duration,
    /// Who holds it.
    pub holder: String,
    /// The attempt's number.
    pub attempt: u32,
    /// The lease is out and a caller that can recover is needed.
    pub needs_recovery: bool,
    /// The record's state.
    pub state: StateName,
}

/// The right to find out what happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Recover {
    /// The reservation.
    pub grant: Grant,
    /// What the other side can do.
    pub effect_class: EffectClass,
    /// QUERYABLE: how long until a look-up can count.
    pub settle_remaining: Duration,
    /// The first holder's attributes.
    pub attributes: BTreeMap<String, String>,
    /// All attempts that are kept.
    pub attempts: Vec<Attempt>,
    /// QUERYABLE: the settle time is over; a look-up begun after this answer counts.
    pub settled: bool,
    /// A person approved one more run.
    pub reexecute_approved: bool,
}

/// The key was used for something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What differs.
    pub field: MismatchField,
    /// The operation that the key was used for.
    pub stored_operation: String,
    /// When.
    pub first_reserved_at: Timestamp,
}

/// What differs in a mismatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MismatchField {
    /// The operation.
    Operation,
    /// The fingerprint's digest, under the same scheme.
    Fingerprint,
}

/// Records what happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Complete {
    /// The identity.
    pub key: RecordKey,
    /// The reservation.
    pub token: Token,
    /// What happened, as it was sent.
    pub outcome: Outcome,
    /// How long to keep it; `None` takes the record's terms.
    pub retention: Option<Duration>,
}

/// The verdicts of Complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompleteVerdict {
    /// The current token's outcome is the record's outcome.
    Recorded,
    /// The same outcome stood there already.
    AlreadyRecorded,
    /// Another outcome stands there and stays.
    Divergent,
    /// Not the current reservation.
    Superseded,
}

/// What Complete answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// The verdict.
    pub verdict: CompleteVerdict,
    /// The record's state; `None`: there is no record.
    pub state: Option<StateName>,
    /// The stored outcome where it is not the one sent.
    pub stored: Option<Outcome>,
    /// When the record's outcome was recorded.
    pub completed_at: Option<Timestamp>,
    /// The outcome sent is now the record's outcome.
    pub outcome_used: bool,
    /// Another outcome or effect id than the one known was reported: the alarm rings.
    pub diverges: bool,
}

/// Extends a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// The identity.
    pub key: RecordKey,
    /// The reservation.
    pub token: Token,
    /// How long from now, up to the record's `max_total_lease`.
    pub lease: Duration,
}

/// What Renew answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// The reservation is still the caller's.
    pub held: bool,
    /// What is left of the lease; zero at the cap: start no new effect.
    pub lease_remaining: Duration,
    /// QUERYABLE recovery: a look-up begun after this answer counts.
    pub settled: bool,
    /// The record's state; `None`: there is no record.
    pub state: Option<StateName>,
}

/// Gives the right back: provably nothing happened under this token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The identity.
    pub key: RecordKey,
    /// The reservation.
    pub token: Token,
    /// Why, for support.
    pub reason: String,
}

/// What Release answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// The right was given back, now or by an earlier copy of the same call.
    pub released: bool,
    /// The record's state; `None`: there is no record.
    pub state: Option<StateName>,
}

/// Hands the record to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Park {
    /// The identity.
    pub key: RecordKey,
    /// The reservation.
    pub token: Token,
    /// Why, for the person.
    pub note: String,
}

/// What Park answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkAnswer {
    /// The record is parked, by this call or an earlier copy of it.
    pub parked: bool,
    /// The record's state; `None`: there is no record.
    pub state: Option<StateName>,
}

/// Asks to run the effect again after RECOVER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reexecute {
    /// The identity.
    pub key: RecordKey,
    /// The reservation.
    pub token: Token,
    /// How long the right is held without renewal.
    pub lease: Duration,
    /// Random for each call, kept over its retries.
    pub request_id: RequestId,
    /// QUERYABLE: the look-up began after an answer that said settled.
    pub settled_seen: bool,
    /// Who asks, for the audit trail.
    pub actor: String,
}

/// The verdicts of Reexecute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReexecuteVerdict {
    /// Run the effect again.
    Granted(Grant),
    /// An effect sent earlier can still arrive, or the look-up began before it could not.
    TooEarly {
        /// How long until a look-up can count.
        settle_remaining: Duration,
        /// The settle time is over: look again.
        look_again: bool,
    },
    /// The class does not allow it: a person decides.
    Parked {
        /// Since when.
        since: Timestamp,
        /// Why.
        note: String,
    },
    /// The token is not the current one.
    Superseded {
        /// The record's state; `None`: there is no record.
        state: Option<StateName>,
    },
}

/// Ends a completed record's protection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expire {
    /// The identity.
    pub key: RecordKey,
    /// Why, for the audit trail.
    pub reason: String,
    /// The key may be used again, as a new operation.
    pub allow_rerun: bool,
    /// The record as it was seen.
    pub etag: Etag,
    /// Who asks, for the audit trail.
    pub actor: String,
}

/// Settles a parked record.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolve {
    /// The identity.
    pub key: RecordKey,
    /// The record as it was seen.
    pub etag: Etag,
    /// Why, for the audit trail.
    pub reason: String,
    /// Who decides, for the audit trail.
    pub actor: String,
    /// What the person found out.
    pub resolution: Resolution,
}

/// What a person found out about a parked record.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    /// It happened; this is the outcome.
    Happened(Outcome),
    /// Nothing happened and nothing sent earlier can still arrive: one more run is approved.
    NothingHappened,
}

/// Why a person's request was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is no such record.
    NotFound,
    /// The record is not the one that was seen.
    EtagMismatch,
    /// The record's state does not allow it.
    WrongState(StateName),
}

/// What Expire and Resolve answer: the record as it is now.
pub type PersonAnswer = Result<Box<Record>, Refusal>;

/// A change asked of one record.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each variant is the command of its name")]
pub enum Command {
    Reserve(Box<Reserve>),
    Complete(Box<Complete>),
    Renew(Renew),
    Release(Release),
    Park(Park),
    Reexecute(Reexecute),
    Expire(Expire),
    Resolve(Box<Resolve>),
}

/// The answer to the command of the same name.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each variant answers the command of its name")]
pub enum Answer {
    Reserve(Reserved),
    Complete(Box<Completed>),
    Renew(Renewed),
    Release(Released),
    Park(ParkAnswer),
    Reexecute(ReexecuteVerdict),
    Expire(PersonAnswer),
    Resolve(PersonAnswer),
}

impl Command {
    /// The record that is asked about.
    pub const fn key(&self) -> &RecordKey {
        match self {
            Self::Reserve(command) => &command.key,
            Self::Complete(command) => &command.key,
            Self::Renew(command) => &command.key,
            Self::Release(command) => &command.key,
            Self::Park(command) => &command.key,
            Self::Reexecute(command) => &command.key,
            Self::Expire(command) => &command.key,
            Self::Resolve(command) => &command.key,
        }
    }

    /// The operation's name, for metrics and logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Reserve(_) => "reserve",
            Self::Complete(_) => "complete",
            Self::Renew(_) => "renew",
            Self::Release(_) => "release",
            Self::Park(_) => "park",
            Self::Reexecute(_) => "reexecute",
            Self::Expire(_) => "expire",
            Self::Resolve(_) => "resolve",
        }
    }
}
