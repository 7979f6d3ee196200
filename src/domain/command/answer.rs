//! What is answered.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::outcome::{Outcome, OutcomeStatus};
use crate::domain::policy::EffectClass;
use crate::domain::record::{Attempt, Fence, Generation, Record, StateName};
use crate::domain::time::Timestamp;

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

/// What Release answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// The right was given back, now or by an earlier copy of the same call.
    pub released: bool,
    /// The record's state; `None`: there is no record.
    pub state: Option<StateName>,
}

/// What Park answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkAnswer {
    /// The record is parked, by this call or an earlier copy of it.
    pub parked: bool,
    /// The record's state; `None`: there is no record.
    pub state: Option<StateName>,
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
