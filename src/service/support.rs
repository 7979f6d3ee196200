//! What people do to records: Expire, Resolve, and reading the audit trail.

use super::error::ServiceError;
use super::gate::{Call, Gate, answer_of, wrong_answer};
use super::lookup::Found;
use crate::domain::caller::Permission;
use crate::domain::command::{Command, Expire, PersonAnswer, Refusal, Resolution, Resolve};
use crate::domain::key::RecordKey;
use crate::domain::record::{Etag, RecordState, Reopening};
use crate::port::store::AuditEntry;

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
        let answer = self.apply(call, command.clone()).await?;
        let expired = settled(answer_of!(answer, Expire), ServiceError::NotExpirable)?;
        let RecordState::Expired(tombstone) = &expired.state else {
            return Err(wrong_answer());
        };
        let expired = if tombstone.reopening == Reopening::Unset {
            // The time of reopening counts from after the first one's commit: it takes a second
            // statement. If it gets lost, whoever finds the time unset makes it.
            let answer = self.apply(call, command).await.map_err(written)?;
            settled(answer_of!(answer, Expire), ServiceError::NotExpirable)?
        } else {
            expired
        };
        self.metrics
            .verdict("expire", "expired", expired.key.namespace());
        self.found(call, *expired).await
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
        let answer = self
            .apply(call, Command::Resolve(Box::new(resolve)))
            .await?;
        let record = settled(answer_of!(answer, Resolve), ServiceError::NotResolvable)?;
        self.metrics
            .verdict("resolve", "resolved", record.key.namespace());
        self.found(call, *record).await
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

    /// Adds the database's clock to a record, for what is said in durations.
    async fn found(
        &self,
        call: &Call,
        record: crate::domain::record::Record,
    ) -> Result<Found, ServiceError> {
        let reading = self.by_deadline(call, self.store.read(Vec::new())).await;
        let now = reading.map_err(|error| written(error.into()))?.now;
        Ok(Found { record, now })
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

fn settled(
    answer: PersonAnswer,
    wrong_state: fn(crate::domain::record::StateName) -> ServiceError,
) -> Result<Box<crate::domain::record::Record>, ServiceError> {
    answer.map_err(|refusal| match refusal {
        Refusal::NotFound => ServiceError::RecordNotFound,
        Refusal::EtagMismatch => ServiceError::EtagMismatch("record"),
        Refusal::WrongState(state) => wrong_state(state),
    })
}
