//! What a holder does with its reservation: Complete, Renew, Release, Park, Reexecute.

use std::time::Duration;

use super::error::ServiceError;
use super::gate::{Call, Gate, answer_of, in_time};
use super::reserve::request_id_or_new;
use crate::domain::caller::Permission;
use crate::domain::command::{
    Command, Complete, CompleteVerdict, Completed, Park, ParkAnswer, Reexecute, ReexecuteVerdict,
    Release, Released, Renew, Renewed,
};
use crate::domain::key::RecordKey;
use crate::domain::limits;
use crate::domain::outcome::Outcome;
use crate::domain::record::RequestId;
use crate::domain::token::Token;

/// A reservation as its holder names it.
#[derive(Debug, Clone)]
pub struct Held {
    /// The identity.
    pub key: RecordKey,
    /// The token as it was given.
    pub token: String,
}

/// A granted Reexecute has the token that it was asked with.
#[derive(Debug, Clone, PartialEq)]
pub struct ReexecuteAnswer {
    /// The verdict.
    pub verdict: ReexecuteVerdict,
    /// The token; the same as before.
    pub token: String,
}

impl Gate {
    /// Records what happened, once and for good. A genuine token is authority enough: what has
    /// happened must not get lost because a credential ended meanwhile.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`]; repeating the same call is always safe.
    pub async fn complete(
        &self,
        call: &Call,
        held: Held,
        outcome: Outcome,
        retention: Option<Duration>,
    ) -> Result<Completed, ServiceError> {
        let token = self.verify(call, &held.key, &held.token).await?;
        let namespace = held.key.namespace().to_owned();
        let retention = retention.map(|asked| asked.min(limits::RETENTION_CAP));
        let key = held.key;
        let command = Command::Complete(Box::new(Complete {
            key,
            token,
            outcome,
            retention,
        }));
        let completed = *answer_of!(self.apply(call, command).await?, Complete);
        self.metrics
            .verdict("complete", complete_name(completed.verdict), &namespace);
        if completed.diverges {
            self.metrics.divergence(&namespace);
            tracing::error!(
                namespace,
                fence = token.fence.get(),
                "another outcome or effect id was reported under one key"
            );
        }
        Ok(completed)
    }

    /// Extends a lease.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`]; repeating the same call is always safe.
    pub async fn renew(
        &self,
        call: &Call,
        held: Held,
        lease: Option<Duration>,
    ) -> Result<Renewed, ServiceError> {
        let token = self.held(call, &held).await?;
        let lease = self.lease(call, &held.key, lease).await?;
        let namespace = held.key.namespace().to_owned();
        let command = Command::Renew(Renew {
            key: held.key,
            token,
            lease,
        });
        let renewed = answer_of!(self.apply(call, command).await?, Renew);
        self.metrics.verdict(
            "renew",
            if renewed.held { "held" } else { "lost" },
            &namespace,
        );
        Ok(renewed)
    }

    /// Gives the right back: provably nothing happened under this token.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`]; repeating the same call is always safe.
    pub async fn release(
        &self,
        call: &Call,
        held: Held,
        reason: String,
    ) -> Result<Released, ServiceError> {
        let token = self.held(call, &held).await?;
        let namespace = held.key.namespace().to_owned();
        let command = Command::Release(Release {
            key: held.key,
            token,
            reason,
        });
        let answer = answer_of!(self.apply(call, command).await?, Release);
        let verdict = if answer.released { "released" } else { "stale" };
        self.metrics.verdict("release", verdict, &namespace);
        Ok(answer)
    }

    /// Hands the record to a person.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`]; repeating the same call is always safe.
    pub async fn park(
        &self,
        call: &Call,
        held: Held,
        note: String,
    ) -> Result<ParkAnswer, ServiceError> {
        let token = self.held(call, &held).await?;
        let namespace = held.key.namespace().to_owned();
        let command = Command::Park(Park {
            key: held.key,
            token,
            note,
        });
        let answer = answer_of!(self.apply(call, command).await?, Park);
        self.metrics.verdict(
            "park",
            if answer.parked { "parked" } else { "stale" },
            &namespace,
        );
        Ok(answer)
    }

    /// Asks to run the effect again after RECOVER.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`]; repeating the same call, with the same request id, is always safe.
    pub async fn reexecute(
        &self,
        call: &Call,
        held: Held,
        lease: Option<Duration>,
        request_id: Option<RequestId>,
        settled_seen: bool,
    ) -> Result<ReexecuteAnswer, ServiceError> {
        let token = self.held(call, &held).await?;
        let lease = self.lease(call, &held.key, lease).await?;
        let namespace = held.key.namespace().to_owned();
        let command = Command::Reexecute(Reexecute {
            key: held.key,
            token,
            lease,
            request_id: request_id_or_new(request_id)?,
            settled_seen,
            actor: call.caller.name.clone(),
        });
        let verdict = answer_of!(self.apply(call, command).await?, Reexecute);
        self.metrics
            .verdict("reexecute", reexecute_name(&verdict), &namespace);
        Ok(ReexecuteAnswer {
            verdict,
            token: held.token,
        })
    }

    async fn held(&self, call: &Call, held: &Held) -> Result<Token, ServiceError> {
        let token = self.verify(call, &held.key, &held.token).await?;
        Self::permit(call, Permission::Gate, &held.key)?;
        Ok(token)
    }

    /// The lease that was asked for or the namespace's default; its cap is the record's own.
    async fn lease(
        &self,
        call: &Call,
        key: &RecordKey,
        asked: Option<Duration>,
    ) -> Result<Duration, ServiceError> {
        if let Some(asked) = asked {
            return Ok(asked.max(limits::LEASE_MIN));
        }
        let policy = self.policies.policy(key.namespace(), key.environment());
        let policy = in_time(call, policy).await?;
        Ok(policy.default_lease)
    }
}

const fn complete_name(verdict: CompleteVerdict) -> &'static str {
    match verdict {
        CompleteVerdict::Recorded => "recorded",
        CompleteVerdict::AlreadyRecorded => "already_recorded",
        CompleteVerdict::Divergent => "divergent",
        CompleteVerdict::Superseded => "superseded",
    }
}

const fn reexecute_name(verdict: &ReexecuteVerdict) -> &'static str {
    match verdict {
        ReexecuteVerdict::Granted(_) => "granted",
        ReexecuteVerdict::TooEarly { .. } => "too_early",
        ReexecuteVerdict::Parked { .. } => "parked",
        ReexecuteVerdict::Superseded { .. } => "superseded",
    }
}
