//! Lookup and the policy in force: what stands there. Confers nothing.

use std::borrow::Cow;

use super::error::ServiceError;
use super::gate::{Call, Gate, in_time};
use crate::domain::caller::Permission;
use crate::domain::decision::aged;
use crate::domain::key::RecordKey;
use crate::domain::policy::Policy;
use crate::domain::record::Record;
use crate::domain::time::Timestamp;
use crate::port::store::StoreError;

/// A record, and the database's clock when it was read.
#[derive(Debug, Clone)]
pub struct Found {
    /// The record as it stands at `now`.
    pub record: Record,
    /// The database's clock.
    pub now: Timestamp,
}

/// The policy of a namespace's environment.
#[derive(Debug, Clone)]
pub struct PolicyInForce {
    /// The policy.
    pub policy: Policy,
    /// The version of the namespace that it is part of.
    pub version: i64,
}

impl Gate {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// `RecordNotFound`, which is not the right to run anything; else see [`ServiceError`].
    pub async fn lookup(&self, call: &Call, key: RecordKey) -> Result<Found, ServiceError> {
        Self::permit(call, Permission::Read, &key)?;
        let reading = self
            .by_deadline(call, self.store.read(vec![key]))
            .await
            .map_err(unread)?;
        let now = reading.now;
        let record = reading
            .records
            .into_iter()
            .next()
            .transpose()
            .map_err(unread)?
            .flatten();
        let record = record.and_then(|record| aged(&record, now).map(Cow::into_owned));
        record
            .map(|record| Found { record, now })
            .ok_or(ServiceError::RecordNotFound)
    }

    /// Reads the policy that SDKs follow.
    ///
    /// # Errors
    ///
    /// `NamespaceNotFound`; else see [`ServiceError`].
    pub async fn policy(
        &self,
        call: &Call,
        namespace: &str,
        environment: &str,
    ) -> Result<PolicyInForce, ServiceError> {
        if !call
            .caller
            .may(Permission::Read, Some(namespace), Some(environment))
        {
            return Err(ServiceError::NotPermitted);
        }
        let policy = in_time(call, self.policies.policy(namespace, environment)).await?;
        let namespace = in_time(call, self.policies.namespace(namespace)).await?;
        Ok(PolicyInForce {
            policy,
            version: namespace.map_or(0, |namespace| namespace.version),
        })
    }
}

/// A read writes nothing: its outcome is never in doubt.
fn unread(error: StoreError) -> ServiceError {
    match error {
        StoreError::OutcomeUnknown(_) => ServiceError::StoreUnavailable,
        StoreError::Unavailable(_)
        | StoreError::Overloaded
        | StoreError::Unusable(_)
        | StoreError::Corrupt(_) => error.into(),
    }
}
