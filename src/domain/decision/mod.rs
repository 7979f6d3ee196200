//! Every verdict, from (record or none, command, the database's moment) and nothing else.
//!
//! All stores call [`decide`]; whoever wants to know what a rule does reads it here and nowhere
//! else. A store's part is to write the result only if the record is still the one that was judged.

mod complete;
mod holder;
mod recovery;
mod reserve;
mod support;

use std::borrow::Cow;

use super::command::{Answer, Command};
use super::limits;
use super::outcome::Outcome;
use super::record::{
    AttemptEnd, Completion, Fence, Hold, Record, RecordState, Reopening, StateName, Tombstone,
    Version,
};
use super::time::Timestamp;
use super::token::Token;

pub use complete::decide_complete;
pub use holder::{decide_park, decide_release, decide_renew};
pub use recovery::decide_reexecute;
pub use reserve::decide_reserve;
pub use support::{decide_expire, decide_resolve};

/// What only the database may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Its clock.
    pub now: Timestamp,
    /// The fence of a new reservation, higher than every one given before.
    pub next_fence: Fence,
}

/// A verdict, and what must be written, atomically, before it may be told to anybody.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<A> {
    /// The verdict.
    pub answer: A,
    /// The record as it must be stored in place of the one that was judged; `None`: no change.
    pub write: Option<Box<Record>>,
    /// What goes into the audit trail in the same transaction.
    pub audit: Option<Audit>,
}

/// One line of the audit trail. Only a decision that writes a record has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// What was done.
    pub action: AuditAction,
    /// Who asked for it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When, on the database's clock.
    pub at: Timestamp,
    /// The record's fence.
    pub fence: Fence,
    /// The record's state before.
    pub before: StateName,
    /// The record's state after.
    pub after: StateName,
}

/// What the audit trail holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditAction {
    /// A completed record's protection was ended.
    Expire,
    /// A parked record was settled.
    Resolve,
    /// Another run was granted.
    Reexecute,
}

impl<A> Decision<A> {
    /// An answer that changes nothing.
    fn answer(answer: A) -> Self {
        Self {
            answer,
            write: None,
            audit: None,
        }
    }

    /// An answer that may be told once `record` is written.
    fn write(answer: A, record: Record) -> Self {
        Self {
            answer,
            write: Some(Box::new(record)),
            audit: None,
        }
    }

    fn audited(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    fn map<B>(self, wrap: impl FnOnce(A) -> B) -> Decision<B> {
        Decision {
            answer: wrap(self.answer),
            write: self.write,
            audit: self.audit,
        }
    }
}

/// Judges any command. The record is the stored one as it is, aged or not.
pub fn decide(command: &Command, stored: Option<&Record>, moment: Moment) -> Decision<Answer> {
    let mut decision = match command {
        Command::Reserve(c) => decide_reserve(stored, c, moment).map(Answer::Reserve),
        Command::Complete(c) => {
            decide_complete(stored, c, moment).map(|answer| Answer::Complete(Box::new(answer)))
        }
        Command::Renew(c) => decide_renew(stored, c, moment).map(Answer::Renew),
        Command::Release(c) => decide_release(stored, c, moment).map(Answer::Release),
        Command::Park(c) => decide_park(stored, c, moment).map(Answer::Park),
        Command::Reexecute(c) => decide_reexecute(stored, c, moment).map(Answer::Reexecute),
        Command::Expire(c) => decide_expire(stored, c, moment).map(Answer::Expire),
        Command::Resolve(c) => decide_resolve(stored, c, moment).map(Answer::Resolve),
    };
    if let Some(record) = &mut decision.write {
        record.version = stored.map_or(Version::new(1), |old| Version::new(old.version.get() + 1));
        if let Answer::Expire(Ok(shown)) | Answer::Resolve(Ok(shown)) = &mut decision.answer {
            shown.version = record.version;
        }
    }
    decision
}

/// The record as it stands at `now`: retention and tombstones end by time alone, whether the
/// sweeper has come by or not. `None`: nothing is left of it and the key is as new.
pub fn aged(record: &Record, now: Timestamp) -> Option<Cow<'_, Record>> {
    match &record.state {
        RecordState::Completed(completion) if completion.retained_until <= now => {
            let expired_at = completion.retained_until;
            let tombstone = tombstone(record, completion, expired_at, "retention");
            if tombstone.until <= now {
                return None;
            }
            let state = RecordState::Expired(tombstone);
            Some(Cow::Owned(Record {
                state,
                ..record.clone()
            }))
        }
        RecordState::Expired(tombstone) if tombstone.until <= now => None,
        RecordState::Released { .. } if record.sweep_at().is_some_and(|at| at <= now) => None,
        RecordState::Running(_)
        | RecordState::Recovering(_)
        | RecordState::Released { .. }
        | RecordState::Completed(_)
        | RecordState::Parked { .. }
        | RecordState::Expired(_) => Some(Cow::Borrowed(record)),
    }
}

/// What the sweeper does with a record; `None`: nothing, it is not due.
#[derive(Debug, Clone, PartialEq)]
pub enum Sweep {
    /// Store it without its payload.
    Bury(Box<Record>),
    /// Delete it.
    Delete,
}

/// Judges what the sweeper found. Only COMPLETED, EXPIRED and RELEASED records are ever touched.
pub fn decide_sweep(record: &Record, now: Timestamp) -> Option<Sweep> {
    match aged(record, now) {
        None => Some(Sweep::Delete),
        Some(Cow::Borrowed(_)) => None,
        Some(Cow::Owned(mut buried)) => {
            buried.version = Version::new(record.version.get() + 1);
            Some(Sweep::Bury(Box::new(buried)))
        }
    }
}

/// The tombstone of a completed record. It stays at least until every cached copy of the outcome is
/// past its bound.
fn tombstone(record: &Record, done: &Completion, expired_at: Timestamp, reason: &str) -> Tombstone {
    let kept_until = done.retained_until.plus(record.terms.tombstone_retention);
    let least = expired_at
        .max(done.retained_until)
        .plus(limits::CACHE_BOUND);
    Tombstone {
        status: done.outcome.status,
        effect_id: done.outcome.effect_id.clone(),
        outcome_digest: done.outcome.digest,
        completed_at: done.completed_at,
        retained_until: done.retained_until,
        expired_at,
        reason: reason.to_owned(),
        until: kept_until.max(least),
        reopening: Reopening::Never,
    }
}

/// Whether the token is the record's current one: the newest fence of the present generation, and
/// still held.
fn held<'a>(record: &'a Record, token: &Token) -> Option<&'a Hold> {
    record.hold().filter(|_| is_newest(record, token))
}

/// Whether the token has the newest fence of the record's present generation.
fn is_newest(record: &Record, token: &Token) -> bool {
    record.generation == token.generation && record.fence == token.fence
}

/// Makes `outcome` the record's outcome. The only way into COMPLETED. Answers whether another effect
/// id was known.
fn complete_with(
    record: &mut Record,
    outcome: &Outcome,
    fence: Fence,
    retention: Option<std::time::Duration>,
    now: Timestamp,
) -> bool {
    let own = record.fence == fence;
    let end = if own {
        AttemptEnd::Completed
    } else {
        AttemptEnd::Superseded
    };
    record.end_attempt(now, end, "");
    let attempts = record.attempts.iter_mut();
    let reporter = attempts.rev().find(|attempt| attempt.fence == fence);
    let attempt = reporter.map_or(record.attempt, |reporter| {
        reporter.recorded = Some(outcome.digest);
        reporter.attempt
    });
    let outcome = outcome.clone().kept_under(&record.terms);
    let another_effect = record.add_effect_id(&outcome.effect_id);
    record.kept = None;
    record.reexecution_approved = false;
    if record.released_fence == Some(fence) {
        // Its holder has thought better of it.
        record.released_fence = None;
    }
    let retained_until = now.plus(record.terms.retention_of(retention));
    record.state = RecordState::Completed(Completion {
        outcome,
        fence,
        attempt,
        completed_at: now,
        retained_until,
    });
    another_effect
}

/// Leaves RUNNING without an outcome of the holder's own. If a late outcome was kept meanwhile, it
/// becomes the record's outcome and the answer is true; else nothing is done.
fn use_kept_outcome(record: &mut Record, now: Timestamp) -> bool {
    let Some(kept) = record.kept.take() else {
        return false;
    };
    complete_with(record, &kept.outcome, kept.fence, kept.retention, now);
    true
}
