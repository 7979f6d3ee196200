//! What can be asked of one record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::fingerprint::Fingerprint;
use crate::domain::key::RecordKey;
use crate::domain::outcome::Outcome;
use crate::domain::policy::Terms;
use crate::domain::record::{Etag, RequestId};
use crate::domain::token::Token;

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

/// A change asked of one record.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each variant is the command of its name")]
pub enum Command {
    Reserve(Arc<Reserve>),
    Complete(Box<Complete>),
    Renew(Renew),
    Release(Release),
    Park(Park),
    Reexecute(Reexecute),
    Expire(Expire),
    Resolve(Box<Resolve>),
}

impl Command {
    /// The record that is asked about.
    pub fn key(&self) -> &RecordKey {
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
