//! What people do to records: Expire, Resolve, and reading the audit trail.

use super::error::ServiceError;
use super::gate::{Call, Gate, wrong_answer};
use super::lookup::Found;
use crate::domain::caller::Permission;
use crate::domain::command::{Answer, Command, Expire, Refusal, Resolution, Resolve};
use crate::domain::key::RecordKey;
use crate::domain::record::{Etag, RecordState, Reopening, StateName};
use crate::port::store::{Applied, AuditEntry};

impl Gate {
    /// Ends a completed record's protection.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`]; repeating the same call is always safe.
    pub async fn expire(
        &self,
        call: &Call,
        key: RecordKey,
        etag: Etag,
        reason: String,
        allow_rerun: bool,
    ) -> Result<Found, ServiceError> {
        Self::permit(call, Permission::Support, &key)?;
        let actor = call.caller.name.clone();
        let command = Command::Expire(Expire {
            key,
            reason,
            allow_rerun,
            etag,
            actor,
        });
        let applied = self.carry_out(call, command.clone()).await?;
        let mut expired = settled(applied, ServiceError::NotExpirable)?;
        let RecordState::Expired(tombstone) = &expired.record.state else {
            return Err(wrong_answer());
        };
        if tombstone.reopening == Reopening::Unset {
            // The time of reopening counts from after the first one's commit: it takes a second
            // statement. If it gets lost, whoever finds the time unset makes it.
            let applied = self.carry_out(call, command).await.map_err(written)?;
            expired = settled(applied, ServiceError::NotExpirable)?;
        }
        self.metrics
            .verdict("expire", "expired", expired.record.key.namespace());
        Ok(expired)
    }

    /// Settles a parked record.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`]; repeating the same call is always safe.
    pub async fn resolve(
        &self,
        call: &Call,
        key: RecordKey,
        etag: Etag,
        reason: String,
        resolution: Resolution,
    ) -> Result<Found, ServiceError> {
        Self::permit(call, Permission::Support, &key)?;
        let actor = call.caller.name.clone();
        let resolve = Resolve {
            key,
            etag,
            reason,
            actor,
            resolution,
        };
        let applied = self
            .carry_out(call, Command::Resolve(Box::new(resolve)))
            .await?;
        let resolved = settled(applied, ServiceError::NotResolvable)?;
        self.metrics
            .verdict("resolve", "resolved", resolved.record.key.namespace());
        Ok(resolved)
    }

    /// Reads a record's audit trail, oldest first.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`].
    pub async fn audit(
        &self,
        call: &Call,
        key: RecordKey,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, ServiceError> {
        Self::permit(call, Permission::Support, &key)?;
        Ok(self
            .by_deadline(call, self.store.audit(key, after, limit))
            .await?)
    }
}

/// An error after the write: that the store is away now must not read as if nothing was done.
fn written(error: ServiceError) -> ServiceError {
    if error == ServiceError::StoreUnavailable {
        ServiceError::OutcomeUnknown
    } else {
        error
    }
}

/// The record as a person's command left it, at the moment of that.
fn settled(
    applied: Applied,
    wrong_state: fn(StateName) -> ServiceError,
) -> Result<Found, ServiceError> {
    let (Answer::Expire(answer) | Answer::Resolve(answer)) = applied.answer else {
        return Err(wrong_answer());
    };
    let record = answer.map_err(|refusal| match refusal {
        Refusal::NotFound => ServiceError::RecordNotFound,
        Refusal::EtagMismatch => ServiceError::EtagMismatch("record"),
        Refusal::WrongState(state) => wrong_state(state),
    })?;
    let stands = applied.stands.ok_or_else(wrong_answer)?;
    Ok(Found {
        record: *record,
        now: stands.seen_at,
    })
}
